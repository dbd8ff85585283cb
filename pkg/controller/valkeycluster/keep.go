package valkeycluster

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller/credentials"
	"github.com/momentohq/valkey-operator/pkg/controller/resolve"
	"github.com/momentohq/valkey-operator/pkg/controller/tls"
	"github.com/momentohq/valkey-operator/pkg/valkey/acl"
)

// fieldManager owns the fields that the operator applies.
const fieldManager = "valkey-operator"

// keeper maintains what a cluster has besides its nodes. These objects have no order among them
// and need no look at servers.
type keeper struct {
	kube       kubernetes.Interface
	services   corelisters.ServiceLister
	configMaps corelisters.ConfigMapLister
	menu       resolve.Menu
	writes     writes
	// memory is what a deleted auth Secret is made again from.
	memory *credentials.Memory
	copier tls.Copier
}

// kept is what the maintained objects say to the rest of the pass.
type kept struct {
	password string
	// aclProblem is why the present ACL is not in the file; the last good file is.
	aclProblem string
	// deferred is what could not be maintained for a cluster that runs. It is reported, but it
	// does not keep anybody from repairing that cluster.
	deferred error
}

// keep brings Service, auth Secret and ACL ConfigMap up to date. A *blocked stops the pass.
// isRunning says that pods exist, made with the Secret's passwords.
func (k keeper) keep(ctx context.Context, cluster *v1alpha1.ValkeyCluster, from resolve.Resolved, isRunning bool) (kept, error) {
	secret, err := k.keepSecret(ctx, cluster, isRunning)
	if err != nil {
		return kept{}, err
	}
	out := kept{password: string(secret.Data[v1alpha1.SecretKeyOperatorPassword])}
	err = k.keepService(ctx, cluster)
	if err == nil || isRunning {
		problem, errACL := k.keepACL(ctx, cluster, from, secret)
		out.aclProblem, err = problem, errors.Join(err, errACL)
	}
	if isRunning {
		out.deferred, err = err, nil
	}
	return out, err
}

// peek gives the password and changes nothing, for a cluster that is paused.
func (k keeper) peek(ctx context.Context, cluster *v1alpha1.ValkeyCluster) (kept, error) {
	name := cluster.Name + v1alpha1.SuffixAuthSecret
	have, err := k.kube.CoreV1().Secrets(cluster.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return kept{}, nil
	case err != nil:
		return kept{}, fmt.Errorf("get Secret %s: %w", name, err)
	}
	return kept{password: string(have.Data[v1alpha1.SecretKeyOperatorPassword])}, nil
}

func (k keeper) keepService(ctx context.Context, cluster *v1alpha1.ValkeyCluster) error {
	have, err := k.services.Services(cluster.Namespace).Get(cluster.Name)
	switch {
	case err == nil && isService(have, cluster):
		return nil
	case err == nil && !metav1.IsControlledBy(have, cluster):
		return taken("Service", cluster.Name)
	}
	if err != nil {
		// Without our label the cache does not show it.
		live, err := k.kube.CoreV1().Services(cluster.Namespace).Get(ctx, cluster.Name, metav1.GetOptions{})
		if err == nil && !metav1.IsControlledBy(live, cluster) {
			return taken("Service", cluster.Name)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("get Service %s: %w", cluster.Name, err)
		}
		klog.FromContext(ctx).Info("creating headless Service")
	}
	written, err := k.kube.CoreV1().Services(cluster.Namespace).Apply(ctx, service(cluster), applyOptions())
	if err != nil {
		return fmt.Errorf("apply Service %s: %w", cluster.Name, err)
	}
	k.writes.services.Record(cache.MetaObjectToName(cluster), written)
	return nil
}

func applyOptions() metav1.ApplyOptions {
	return metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
}

// taken is an object of somebody else under a name that the contract gives to ours.
func taken(kind, name string) error {
	return &blocked{ruleNameTaken, fmt.Sprintf("%s %q exists and does not belong to this ValkeyCluster: remove or rename it", kind, name)}
}

// keepACL writes users.acl. A problem is the user's to mend: the last good file stays, and
// a cluster that has none yet is blocked.
func (k keeper) keepACL(ctx context.Context, cluster *v1alpha1.ValkeyCluster, from resolve.Resolved, secret *corev1.Secret) (problem string, err error) {
	name := cluster.Name + v1alpha1.SuffixACLConfigMap
	have, missing := k.configMaps.ConfigMaps(cluster.Namespace).Get(name)
	file, err := renderACL(k.menu, cluster, from, secret)
	var userError *resolve.Error
	switch {
	case errors.As(err, &userError) && missing != nil:
		return userError.Message, &blocked{ruleUnresolved, userError.Message}
	case errors.As(err, &userError):
		return userError.Message, nil
	case err != nil:
		return "", err
	case missing == nil && have.Data[v1alpha1.ConfigMapKeyACL] == file && isLabelled(have, cluster):
		return "", nil
	case missing == nil && !metav1.IsControlledBy(have, cluster):
		return "", taken("ConfigMap", name)
	case missing != nil:
		live, err := k.kube.CoreV1().ConfigMaps(cluster.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && !metav1.IsControlledBy(live, cluster) {
			return "", taken("ConfigMap", name)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return "", fmt.Errorf("get ConfigMap %s: %w", name, err)
		}
	}
	written, err := k.kube.CoreV1().ConfigMaps(cluster.Namespace).Apply(ctx, aclConfigMap(cluster, file), applyOptions())
	if err != nil {
		return "", fmt.Errorf("apply ConfigMap %s: %w", name, err)
	}
	k.writes.configMaps.Record(cache.MetaObjectToName(cluster), written)
	return "", nil
}

func renderACL(menu resolve.Menu, cluster *v1alpha1.ValkeyCluster, from resolve.Resolved, secret *corev1.Secret) (string, error) {
	in, err := resolve.ACL(menu, from.Acl, cluster.Spec.Acl)
	if err != nil {
		return "", err
	}
	credentials.Fill(&in, secret)
	file, err := acl.Render(in)
	if err != nil {
		return "", &resolve.Error{Reason: "ACLRefused", Message: err.Error()}
	}
	return file, nil
}
