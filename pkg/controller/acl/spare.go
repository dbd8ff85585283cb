package acl

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller/credentials"
)

// keepSpare writes what the Secret of passwords has, or is about to have, into a second one. The valkeycluster controller
// makes the first again from it. Passwords that the file in force does not let in are not taken over: somebody may have
// damaged the first one.
func (c *Controller) keepSpare(ctx context.Context, cluster *v1alpha1.ValkeyCluster, auth *corev1.Secret, file string) error {
	if !credentials.IsWhole(auth) || !credentials.InForce(auth, file) || !c.leading() {
		return nil
	}
	next := credentials.Secret(cluster, v1alpha1.SuffixAuthSpare)
	credentials.Copy(next, auth)
	secrets := c.kube.CoreV1().Secrets(cluster.Namespace)
	have, err := secrets.Get(ctx, next.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = secrets.Create(ctx, next, metav1.CreateOptions{FieldManager: fieldManager})
	case err != nil:
	case metav1.IsControlledBy(have, cluster) && credentials.IsCopy(have, auth):
		return nil
	case !metav1.IsControlledBy(have, cluster) && (metav1.GetControllerOf(have) != nil || !credentials.InForce(have, file)):
		c.events.Event(cluster, corev1.EventTypeWarning, "NameTaken", fmt.Sprintf(
			"Secret %q exists and does not belong to this ValkeyCluster: remove or rename it; until then the system passwords have no spare", next.Name))
		return nil
	default: // old, damaged, or restored from a backup
		next.UID, next.ResourceVersion = have.UID, have.ResourceVersion
		_, err = secrets.Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return fmt.Errorf("keep Secret %s: %w", next.Name, err)
	}
	return nil
}
