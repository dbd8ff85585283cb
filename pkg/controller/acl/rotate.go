package acl

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller/credentials"
	"github.com/momentohq/valkey-operator/pkg/controller/reach"
)

// rotate takes the next step of a rotation, if one is due or under way and every server has loaded
// what the present step asks for. A node that does not answer holds it: it could not be told
// the new passwords. It says whether there is more to do.
func (c *Controller) rotate(ctx context.Context, key cache.ObjectName, cluster *v1alpha1.ValkeyCluster, auth *corev1.Secret,
	access reach.Access, members []reach.Member, state verdict) (bool, error) {
	step := credentials.StepOf(auth)
	next, more := credentials.Next(cluster, auth)
	if !more {
		return false, nil
	}
	logger := klog.FromContext(ctx)
	if !state.isSettled || !credentials.IsWhole(auth) {
		logger.V(2).Info("rotation of the system passwords waits until every node has loaded the present users.acl", "step", step)
		return true, nil
	}
	if step == credentials.Switched {
		// Pods that start from now on read it from their file; those that run hold the old one in
		// memory, and would be locked out with their next link.
		if err := c.tellReplPassword(ctx, access, members, string(auth.Data[v1alpha1.SecretKeyReplPassword])); err != nil {
			logger.Info("rotation of the system passwords waits", "step", step, "reason", err.Error())
			return true, nil
		}
	}
	if !c.leading() {
		return false, nil
	}
	_, err := c.kube.CoreV1().Secrets(cluster.Namespace).Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return true, nil // somebody else has written it: look again
	}
	if err != nil {
		return true, fmt.Errorf("write Secret %s: %w", auth.Name, err)
	}
	logger.Info("rotation of the system passwords", "from", step, "to", credentials.StepOf(next))
	switch step {
	case credentials.Settled:
		c.events.Event(cluster, corev1.EventTypeNormal, "CredentialsRotating", "new passwords of the system users are being introduced beside the present ones")
	case credentials.Switched:
		c.events.Event(cluster, corev1.EventTypeNormal, "CredentialsRotated", "the system users have new passwords; the old ones are being retired")
	}
	c.wake(key)
	return true, nil
}

func (c *Controller) tellReplPassword(ctx context.Context, access reach.Access, members []reach.Member, password string) error {
	return errors.Join(reach.Each(members, func(m reach.Member) error {
		server, err := c.connect(access, m)
		if err == nil {
			err = server.SetConfig(ctx, map[string]string{"primaryauth": password})
		}
		if err != nil {
			return fmt.Errorf("%s: %s", m.Name, reach.Say(err))
		}
		return nil
	})...)
}
