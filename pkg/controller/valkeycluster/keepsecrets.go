package valkeycluster

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller/credentials"
	"github.com/momentohq/valkey-operator/pkg/controller/tls"
	"github.com/momentohq/valkey-operator/pkg/valkey/config"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
)

// keepSecret reads the passwords, live and by name: Secrets are never listed or watched. They are
// generated once. New ones over a running cluster's would lock everybody out: a Secret that was deleted or
// damaged is made again with the passwords that are in force.
func (k keeper) keepSecret(ctx context.Context, cluster *v1alpha1.ValkeyCluster, isRunning bool) (*corev1.Secret, error) {
	name, file := cluster.Name+v1alpha1.SuffixAuthSecret, k.file(cluster)
	next := credentials.Secret(cluster, v1alpha1.SuffixAuthSecret)
	have, err := k.kube.CoreV1().Secrets(cluster.Namespace).Get(ctx, name, metav1.GetOptions{})
	isWhole := err == nil && credentials.IsWhole(have)
	switch {
	case apierrors.IsNotFound(err):
		have = nil
	case err != nil:
		return nil, fmt.Errorf("get Secret %s: %w", name, err)
	case metav1.GetControllerOf(have) == nil && isWhole && credentials.InForce(have, file):
		// Restored from a backup, which has no owner; the passwords prove it.
		next.Annotations, next.Data = have.Annotations, have.Data
		return k.writeSecret(ctx, cluster, have, next)
	case metav1.GetControllerOf(have) == nil && isRunning:
		return nil, &blocked{ruleNameTaken, fmt.Sprintf("Secret %q has no owner, and its passwords are not those in force "+
			"(each character counts, a line's end at their end too): put the right ones into it, or remove it", name)}
	case !metav1.IsControlledBy(have, cluster):
		return nil, taken("Secret", name)
	case isWhole && (!isRunning || file == "" || credentials.InForce(have, file)):
		return k.keepSnippet(ctx, cluster, have)
	}
	if !isRunning {
		credentials.New(cluster, next)
		return k.writeSecret(ctx, cluster, have, next)
	}
	switch isFound, err := k.recall(ctx, cluster, file, next); {
	case err != nil:
		return nil, err
	case isFound:
		klog.FromContext(ctx).Info("making the Secret again with the passwords in force", "secret", name)
		return k.writeSecret(ctx, cluster, have, next)
	case isWhole:
		return k.keepSnippet(ctx, cluster, have) // it is the file that somebody has changed
	}
	return nil, &blocked{ruleAuthLost, fmt.Sprintf("Secret %q is gone or damaged, and its spare %q too: nobody knows the passwords "+
		"of the servers that run. They go on serving, and nothing is repaired, scaled or rolled. Restore one of the two from a backup; "+
		"or give up all keys of this cluster: a new value of the annotation %s replaces all nodes at once with empty ones",
		name, cluster.Name+v1alpha1.SuffixAuthSpare, v1alpha1.AnnotationRestart)}
}

// recall fills the Secret from memory or from the spare, whichever has passwords that the users.acl in force lets in. Where
// somebody has taken that file away too, the owner of the spare is proof enough.
func (k keeper) recall(ctx context.Context, cluster *v1alpha1.ValkeyCluster, file string, into *corev1.Secret) (bool, error) {
	if k.memory.Recall(cluster.UID, file, into) {
		return true, nil
	}
	name := cluster.Name + v1alpha1.SuffixAuthSpare
	spare, err := k.kube.CoreV1().Secrets(cluster.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get Secret %s: %w", name, err)
	}
	isProven := credentials.InForce(spare, file) || file == "" && metav1.IsControlledBy(spare, cluster)
	if !credentials.IsWhole(spare) || !isProven {
		return false, nil
	}
	credentials.Copy(into, spare)
	return true, nil
}

// withoutPasswords is what to do when nobody knows the passwords in force: nothing, unless a person asks for a
// restart. That takes all nodes at once, and their data: nobody can log in to have it handed over.
func withoutPasswords(cluster *v1alpha1.ValkeyCluster, nodes []*v1alpha1.ValkeyNode, because string) plan.Decision {
	var old []plan.Removal
	for _, n := range nodes {
		if n.Annotations[v1alpha1.AnnotationRestart] != cluster.Annotations[v1alpha1.AnnotationRestart] {
			old = append(old, plan.Removal{Node: plan.NodeName(n.Name), PodUID: n.Status.PodUID})
		}
	}
	if len(old) == 0 || cluster.Annotations[v1alpha1.AnnotationRestart] == "" {
		return plan.Decision{Rule: ruleAuthLost, Why: "somebody has to look", Action: plan.Hold{Because: because}}
	}
	return plan.Decision{
		Rule: ruleAuthLost, Why: "their passwords are lost and a restart is asked for: the data is lost with the nodes",
		Action: plan.RemoveNodes{Nodes: old},
	}
}

// writeSecret creates next, or overwrites have with it.
func (k keeper) writeSecret(ctx context.Context, cluster *v1alpha1.ValkeyCluster, have, next *corev1.Secret) (*corev1.Secret, error) {
	secrets := k.kube.CoreV1().Secrets(cluster.Namespace)
	var written *corev1.Secret
	var err error
	if have == nil {
		written, err = secrets.Create(ctx, next, metav1.CreateOptions{FieldManager: fieldManager})
	} else {
		next.UID, next.ResourceVersion = have.UID, have.ResourceVersion
		written, err = secrets.Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return nil, &notYet{"another pass has just written Secret " + next.Name}
	}
	if err != nil {
		return nil, fmt.Errorf("write Secret %s: %w", next.Name, err)
	}
	k.memory.Remember(cluster.UID, written)
	return written, nil
}

// keepSnippet mends primaryauth.conf, which new pods include: it is nothing but the replication
// password in another form.
func (k keeper) keepSnippet(ctx context.Context, cluster *v1alpha1.ValkeyCluster, have *corev1.Secret) (*corev1.Secret, error) {
	snippet := []byte(config.PrimaryAuth(string(have.Data[v1alpha1.SecretKeyReplPassword])))
	if bytes.Equal(have.Data[v1alpha1.SecretKeyPrimaryAuth], snippet) {
		k.memory.Remember(cluster.UID, have)
		return have, nil
	}
	next := have.DeepCopy()
	next.Data[v1alpha1.SecretKeyPrimaryAuth] = snippet
	return k.writeSecret(ctx, cluster, have, next)
}

// file is the users.acl in force; empty if there is none.
func (k keeper) file(cluster *v1alpha1.ValkeyCluster) string {
	have, err := k.configMaps.ConfigMaps(cluster.Namespace).Get(cluster.Name + v1alpha1.SuffixACLConfigMap)
	if err != nil || !metav1.IsControlledBy(have, cluster) {
		return ""
	}
	return have.Data[v1alpha1.ConfigMapKeyACL]
}

// keepTLS validates the user's TLS Secret and keeps the copy that pods mount. Of a cluster that is
// paused it only looks.
func (k keeper) keepTLS(ctx context.Context, cluster *v1alpha1.ValkeyCluster, isRunning bool) (tls.Kept, error) {
	if isPaused(cluster) {
		return k.copier.Peek(ctx, cluster)
	}
	kept, err := k.copier.Keep(ctx, cluster, isRunning)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return tls.Kept{}, &notYet{"the copy of the TLS material was just written"}
	}
	return kept, err
}
