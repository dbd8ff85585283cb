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

// scene is what a rotation has to do with. The file is the users.acl in force.
type scene struct {
	cluster *v1alpha1.ValkeyCluster
	auth    *corev1.Secret
	file    string
	access  reach.Access
	members []reach.Member
}

// rotate takes the next step of a rotation, if one is due or under way and every server has loaded
// what the present step asks for. A node that does not answer holds it: it could not be told
// the new passwords. It says whether there is more to do.
func (c *Controller) rotate(ctx context.Context, s scene, state verdict) (bool, error) {
	step := credentials.StepOf(s.auth)
	next, more := credentials.Next(s.cluster, s.auth)
	if !more {
		return false, nil
	}
	logger := klog.FromContext(ctx)
	if !state.isSettled || !credentials.IsWhole(s.auth) {
		logger.V(2).Info("rotation of the system passwords waits until every node has loaded the present users.acl", "step", step)
		return true, nil
	}
	if step == credentials.Switched {
		// Pods that start from now on read it from their file; those that run hold the old one in
		// memory, and would be locked out with their next link.
		if err := c.tellReplPassword(ctx, s, string(s.auth.Data[v1alpha1.SecretKeyReplPassword])); err != nil {
			logger.Info("rotation of the system passwords waits", "step", step, "reason", err.Error())
			return true, nil
		}
	}
	if !c.leading() {
		return false, nil
	}
	// The spare first: if the other one is lost now, the rotation goes on from here.
	if err := c.keepSpare(ctx, s.cluster, next, s.file); err != nil {
		return true, err
	}
	_, err := c.kube.CoreV1().Secrets(s.cluster.Namespace).Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return true, nil // somebody else has written it: look again
	}
	if err != nil {
		return true, fmt.Errorf("write Secret %s: %w", s.auth.Name, err)
	}
	logger.Info("rotation of the system passwords", "from", step, "to", credentials.StepOf(next))
	switch step {
	case credentials.Settled:
		c.events.Event(s.cluster, corev1.EventTypeNormal, "CredentialsRotating", "new passwords of the system users are being introduced beside the present ones")
	case credentials.Switched:
		c.events.Event(s.cluster, corev1.EventTypeNormal, "CredentialsRotated", "the system users have new passwords; the old ones are being retired")
	}
	c.wake(cache.MetaObjectToName(s.cluster))
	return true, nil
}

func (c *Controller) tellReplPassword(ctx context.Context, s scene, password string) error {
	return errors.Join(reach.Each(s.members, func(m reach.Member) error {
		server, err := c.connect(s.access, m)
		if err == nil {
			err = server.SetConfig(ctx, map[string]string{"primaryauth": password})
		}
		if err != nil {
			return fmt.Errorf("%s: %s", m.Name, reach.Say(err))
		}
		return nil
	})...)
}
