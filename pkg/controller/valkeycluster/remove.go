package valkeycluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller/loop"
	"github.com/momentohq/valkey-operator/pkg/controller/tls"
	"github.com/momentohq/valkey-operator/pkg/generated/clientset/versioned"
	listers "github.com/momentohq/valkey-operator/pkg/generated/listers/valkey/v1alpha1"
)

// remover sees a cluster out: everything that it owns goes, and nothing else. It creates
// nothing and needs nothing but the owner references, so that a namespace that is half deleted
// already is no obstacle.
type remover struct {
	kube    kubernetes.Interface
	valkey  versioned.Interface
	nodes   listers.ValkeyNodeLister
	leading func() bool
	writes  writes
}

// removalRecheck is how often nodes that are on their way out are looked for without an event.
const removalRecheck = 5 * time.Second

func hasFinalizer(cluster *v1alpha1.ValkeyCluster) bool {
	return slices.Contains(cluster.Finalizers, v1alpha1.FinalizerCluster)
}

func (r remover) addFinalizer(ctx context.Context, cluster *v1alpha1.ValkeyCluster) (loop.Result, error) {
	return loop.Result{RequeueAfter: loop.Now}, r.setFinalizers(ctx, cluster, append(slices.Clone(cluster.Finalizers), v1alpha1.FinalizerCluster))
}

// setFinalizers replaces the list, which others write too: only at the version that was read.
func (r remover) setFinalizers(ctx context.Context, cluster *v1alpha1.ValkeyCluster, finalizers []string) error {
	if !r.leading() {
		return &notYet{"this process does not lead any more"}
	}
	p := map[string]any{"metadata": map[string]any{
		"uid": cluster.UID, "resourceVersion": cluster.ResourceVersion, "finalizers": finalizers,
	}}
	body, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("set finalizers: %w", err)
	}
	written, err := r.valkey.ValkeyV1alpha1().ValkeyClusters(cluster.Namespace).Patch(ctx, cluster.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return &notYet{"the ValkeyCluster has changed since it was read"}
	case err != nil:
		return fmt.Errorf("set finalizers: %w", err)
	}
	if written.DeletionTimestamp == nil || len(written.Finalizers) > 0 {
		// Else that was its end, of which the cache shows no version.
		r.writes.clusters.Record(cache.MetaObjectToName(cluster), written)
	}
	return nil
}

// remove deletes the nodes, waits until they are gone with their pods, deletes the rest and lets
// the cluster go.
func (r remover) remove(ctx context.Context, cluster *v1alpha1.ValkeyCluster) (loop.Result, error) {
	if !hasFinalizer(cluster) {
		return loop.Result{}, nil
	}
	if !r.leading() {
		return loop.Result{}, nil
	}
	left, err := r.removeNodes(ctx, cluster)
	if err != nil {
		return loop.Result{}, err
	}
	if left > 0 {
		return loop.Result{RequeueAfter: removalRecheck}, nil
	}
	if err := r.removeRest(ctx, cluster); err != nil {
		return loop.Result{}, err
	}
	rest := slices.DeleteFunc(slices.Clone(cluster.Finalizers), func(f string) bool { return f == v1alpha1.FinalizerCluster })
	if err := r.setFinalizers(ctx, cluster, rest); err != nil {
		return loop.Result{}, err
	}
	klog.FromContext(ctx).Info("removed the cluster")
	return loop.Result{}, nil
}

// removeNodes asks for the deletion of every node that is not being deleted yet, and says how
// many are left. When the cache shows none, the API server has the last word.
func (r remover) removeNodes(ctx context.Context, cluster *v1alpha1.ValkeyCluster) (left int, err error) {
	cached, err := r.nodes.ValkeyNodes(cluster.Namespace).List(labels.Everything())
	if err != nil {
		return 0, fmt.Errorf("list ValkeyNodes: %w", err)
	}
	ours := ownedBy(cluster, cached)
	if len(ours) == 0 {
		live, err := r.valkey.ValkeyV1alpha1().ValkeyNodes(cluster.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return 0, fmt.Errorf("list ValkeyNodes: %w", err)
		}
		all := make([]*v1alpha1.ValkeyNode, len(live.Items))
		for i := range live.Items {
			all[i] = &live.Items[i]
		}
		ours = ownedBy(cluster, all)
	}
	err = eachOf(len(ours), func(i int) error {
		if ours[i].DeletionTimestamp != nil {
			return nil
		}
		err := r.valkey.ValkeyV1alpha1().ValkeyNodes(cluster.Namespace).Delete(ctx, ours[i].Name, onlyThis(ours[i]))
		return ignoreGone(err, "delete ValkeyNode "+ours[i].Name)
	})
	return len(ours), err
}

func ownedBy(cluster *v1alpha1.ValkeyCluster, all []*v1alpha1.ValkeyNode) []*v1alpha1.ValkeyNode {
	var out []*v1alpha1.ValkeyNode
	for _, n := range all {
		if metav1.IsControlledBy(n, cluster) {
			out = append(out, n)
		}
	}
	return out
}

// removeRest deletes what else the cluster owns. The garbage collector would do it as well, but
// later, and not if the owner was deleted without it.
func (r remover) removeRest(ctx context.Context, cluster *v1alpha1.ValkeyCluster) error {
	core := r.kube.CoreV1()
	ns, name := cluster.Namespace, cluster.Name
	type kind struct {
		what   string
		get    func() (metav1.Object, error)
		remove func(metav1.DeleteOptions) error
	}
	secret := func(name string) kind {
		return kind{"Secret " + name,
			func() (metav1.Object, error) { return core.Secrets(ns).Get(ctx, name, metav1.GetOptions{}) },
			func(o metav1.DeleteOptions) error { return core.Secrets(ns).Delete(ctx, name, o) }}
	}
	file := name + v1alpha1.SuffixACLConfigMap
	for _, k := range []kind{
		{"Service " + name,
			func() (metav1.Object, error) { return core.Services(ns).Get(ctx, name, metav1.GetOptions{}) },
			func(o metav1.DeleteOptions) error { return core.Services(ns).Delete(ctx, name, o) }},
		{"ConfigMap " + file,
			func() (metav1.Object, error) { return core.ConfigMaps(ns).Get(ctx, file, metav1.GetOptions{}) },
			func(o metav1.DeleteOptions) error { return core.ConfigMaps(ns).Delete(ctx, file, o) }},
		secret(name + v1alpha1.SuffixAuthSecret),
		secret(name + v1alpha1.SuffixAuthSpare),
		secret(name + v1alpha1.SuffixTLSSecret),
		secret(name + tls.SuffixOtherCopy),
	} {
		have, err := k.get()
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("get %s: %w", k.what, err)
		}
		if !metav1.IsControlledBy(have, cluster) || have.GetDeletionTimestamp() != nil {
			continue
		}
		if err := ignoreGone(k.remove(onlyThis(have)), "delete "+k.what); err != nil {
			return err
		}
	}
	return nil
}

// onlyThis deletes an object only if it is still the one that was looked at.
func onlyThis(object metav1.Object) metav1.DeleteOptions {
	uid := object.GetUID()
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
}

func ignoreGone(err error, what string) error {
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
