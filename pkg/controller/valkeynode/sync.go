package valkeynode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller/loop"
)

const (
	// retryRefused is how soon a pod that the API server refused is tried again: nothing tells us
	// that a quota has room.
	retryRefused = 10 * time.Second
	// recheck is for what an event should bring anyhow.
	recheck = 5 * time.Second
	// overdueGrace is how long after its deletion deadline a pod is waited for. On a lost
	// Kubernetes node it stays Terminating for ever (design.md).
	overdueGrace = 30 * time.Second
)

// sync is one pass over one node.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (loop.Result, error) {
	cached, err := c.nodes.ValkeyNodes(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		c.written.Forget(key)
		return loop.Result{}, nil
	}
	if err != nil {
		return loop.Result{}, fmt.Errorf("look up the node: %w", err)
	}
	if c.written.Behind(key) {
		return loop.Result{RequeueAfter: time.Second}, nil
	}
	node := cached.DeepCopy()
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("cluster_name", node.Spec.ClusterName))
	result, err := c.pass(ctx, node)
	switch {
	case errors.Is(err, errNotLeading), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return loop.Result{}, nil
	case apierrors.IsConflict(err):
		// Somebody wrote between our read and our write: look again.
		return loop.Result{RequeueAfter: loop.Now}, nil
	}
	return result, err
}

func (c *Controller) pass(ctx context.Context, node *v1alpha1.ValkeyNode) (loop.Result, error) {
	switch {
	case node.DeletionTimestamp != nil:
		return c.release(ctx, node)
	case node.Status.PodUID == "":
		return c.start(ctx, node)
	default:
		return loop.Result{}, c.report(ctx, node)
	}
}

// start gives the node its pod. Each step finds what an earlier try left.
func (c *Controller) start(ctx context.Context, cached *v1alpha1.ValkeyNode) (loop.Result, error) {
	cluster, err := c.clusters.ValkeyClusters(cached.Namespace).Get(cached.Spec.ClusterName)
	if err != nil || cluster.DeletionTimestamp != nil || !metav1.IsControlledBy(cached, cluster) {
		// Its cluster is gone or about to be: so will be the node.
		return loop.Result{RequeueAfter: recheck}, unlessNotFound(err)
	}
	// A live read: the last leader may have recorded a pod that this cache does not show.
	node, err := c.valkey.ValkeyV1alpha1().ValkeyNodes(cached.Namespace).Get(ctx, cached.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return loop.Result{}, nil
	}
	if err != nil {
		return loop.Result{}, fmt.Errorf("read the node: %w", err)
	}
	if node.UID != cached.UID || node.DeletionTimestamp != nil || node.Status.PodUID != "" ||
		node.Spec.Lifecycle == v1alpha1.NodeLifecycleLeaving {
		return loop.Result{RequeueAfter: recheck}, nil
	}
	if node, err = c.ensureFinalizer(ctx, node); err != nil {
		return loop.Result{}, err
	}
	pod, err := c.createOwned(ctx, node, cluster.Spec.PodAnnotations)
	if refused, ok := c.refused(err); ok {
		return loop.Result{RequeueAfter: retryRefused}, c.reportRefusal(ctx, node, refused)
	}
	if err != nil {
		return loop.Result{}, err
	}
	node.Status.PodUID = string(pod.UID)
	setCondition(&node.Status, condition(v1alpha1.ConditionPodCreated, metav1.ConditionTrue, reasonCreated,
		"the pod was created"), node.Generation)
	return loop.Result{}, c.writeStatus(ctx, node)
}

// unlessNotFound keeps an error of a look-up that is more than "not there".
func unlessNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// createOwned makes ConfigMap and pod, or finds them.
func (c *Controller) createOwned(ctx context.Context, node *v1alpha1.ValkeyNode, annotations map[string]string) (*corev1.Pod, error) {
	file, err := ConfigMap(node)
	if err != nil {
		return nil, &refusedError{reasonBadSettings, err.Error()}
	}
	if err := c.createConfigMap(ctx, node, file); err != nil {
		return nil, err
	}
	return c.createPod(ctx, node, Pod(node, annotations, c.config))
}

// report tells what the node's pod does, where that is worth a write.
func (c *Controller) report(ctx context.Context, node *v1alpha1.ValkeyNode) error {
	pod, err := c.pods.Pods(node.Namespace).Get(node.Name)
	if err != nil || string(pod.UID) != node.Status.PodUID {
		if pod, err = c.livePod(ctx, node); err != nil {
			return err
		}
	}
	if !worthAWrite(&node.Status, pod) || !SetPodRunning(&node.Status, node.Generation, pod) {
		return nil
	}
	c.tell(node, v1alpha1.ConditionPodRunning)
	return c.writeStatus(ctx, node)
}

// release removes the pod of a node that is being deleted, then lets the node go. It needs
// nothing but the node and its pod: the cluster and the namespace's other objects may be
// gone.
func (c *Controller) release(ctx context.Context, node *v1alpha1.ValkeyNode) (loop.Result, error) {
	if !slices.Contains(node.Finalizers, v1alpha1.FinalizerNode) {
		return loop.Result{}, nil
	}
	pod, err := c.livePod(ctx, node)
	if err != nil {
		return loop.Result{}, err
	}
	if pod == nil {
		return loop.Result{}, c.removeFinalizer(ctx, node)
	}
	if pod.DeletionTimestamp == nil {
		return loop.Result{RequeueAfter: recheck}, c.deletePod(ctx, pod)
	}
	rest := overdueGrace - time.Since(pod.DeletionTimestamp.Time)
	if rest > 0 {
		return loop.Result{RequeueAfter: rest + time.Second}, nil
	}
	klog.FromContext(ctx).Info("pod outlives its deletion, its Kubernetes node must be lost: not waiting for it",
		"pod", pod.Name)
	return loop.Result{}, c.removeFinalizer(ctx, node)
}

// livePod reads the node's pod from the API server; nil if it is not there. A pod of that
// name that is not the recorded one, or that the node does not own, is none.
func (c *Controller) livePod(ctx context.Context, node *v1alpha1.ValkeyNode) (*corev1.Pod, error) {
	pod, err := c.kube.CoreV1().Pods(node.Namespace).Get(ctx, node.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read pod %s: %w", node.Name, err)
	}
	if node.Status.PodUID != "" && string(pod.UID) != node.Status.PodUID || !metav1.IsControlledBy(pod, node) {
		return nil, nil
	}
	return pod, nil
}
