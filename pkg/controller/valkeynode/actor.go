package valkeynode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
)

// errNotLeading ends a pass before the act: another process leads now.
var errNotLeading = errors.New("the lease is lost")

// refusedError is a refusal of our own, in the form of the condition PodCreated.
type refusedError struct{ reason, message string }

func (e *refusedError) Error() string { return e.message }

// refused gives the condition for an error that a person has to mend.
func (c *Controller) refused(err error) (metav1.Condition, bool) {
	var own *refusedError
	if errors.As(err, &own) {
		return condition(v1alpha1.ConditionPodCreated, metav1.ConditionFalse, own.reason, own.message), true
	}
	if err == nil || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return metav1.Condition{}, false
	}
	return refusal(err)
}

func (c *Controller) createConfigMap(ctx context.Context, node *v1alpha1.ValkeyNode, file *corev1.ConfigMap) error {
	if !c.leading() {
		return errNotLeading
	}
	_, err := c.kube.CoreV1().ConfigMaps(file.Namespace).Create(ctx, file, metav1.CreateOptions{})
	if err == nil {
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create ConfigMap %s: %w", file.Name, err)
	}
	found, err := c.kube.CoreV1().ConfigMaps(file.Namespace).Get(ctx, file.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read ConfigMap %s: %w", file.Name, err)
	}
	if !metav1.IsControlledBy(found, node) {
		return taken("ConfigMap", file.Name)
	}
	return nil
}

func taken(kind, name string) error {
	return &refusedError{reasonNameTaken, fmt.Sprintf("%s %q exists and is not of this ValkeyNode", kind, name)}
}

func (c *Controller) createPod(ctx context.Context, node *v1alpha1.ValkeyNode, pod *corev1.Pod) (*corev1.Pod, error) {
	if !c.leading() {
		return nil, errNotLeading
	}
	klog.FromContext(ctx).Info("creating Pod for node", "pod", pod.Name)
	created, err := c.kube.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err == nil {
		return created, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("create pod %s: %w", pod.Name, err)
	}
	// Ours from before the process died, or somebody else's.
	found, err := c.kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read pod %s: %w", pod.Name, err)
	}
	if !metav1.IsControlledBy(found, node) {
		return nil, taken("pod", pod.Name)
	}
	return found, nil
}

// deletePod removes this very pod, not one that has its name.
func (c *Controller) deletePod(ctx context.Context, pod *corev1.Pod) error {
	if !c.leading() {
		return errNotLeading
	}
	klog.FromContext(ctx).Info("deleting Pod of node", "pod", pod.Name)
	err := c.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name,
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete pod %s: %w", pod.Name, err)
	}
	return nil
}

// writeStatus replaces the status; a conflict means that the node was written meanwhile.
func (c *Controller) writeStatus(ctx context.Context, node *v1alpha1.ValkeyNode) error {
	if !c.leading() {
		return errNotLeading
	}
	written, err := c.valkey.ValkeyV1alpha1().ValkeyNodes(node.Namespace).UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return c.record(written, err, "write the node's status")
}

// ensureFinalizer adds what the creator of the node should have.
func (c *Controller) ensureFinalizer(ctx context.Context, node *v1alpha1.ValkeyNode) (*v1alpha1.ValkeyNode, error) {
	if slices.Contains(node.Finalizers, v1alpha1.FinalizerNode) {
		return node, nil
	}
	return c.patchFinalizers(ctx, node, append(slices.Clone(node.Finalizers), v1alpha1.FinalizerNode))
}

func (c *Controller) removeFinalizer(ctx context.Context, node *v1alpha1.ValkeyNode) error {
	rest := slices.DeleteFunc(slices.Clone(node.Finalizers), func(f string) bool { return f == v1alpha1.FinalizerNode })
	_, err := c.patchFinalizers(ctx, node, rest)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// patchFinalizers replaces the list as it was read: the version in the patch makes a
// concurrent change a conflict.
func (c *Controller) patchFinalizers(ctx context.Context, node *v1alpha1.ValkeyNode, finalizers []string) (*v1alpha1.ValkeyNode, error) {
	if !c.leading() {
		return nil, errNotLeading
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"finalizers": finalizers, "resourceVersion": node.ResourceVersion, "uid": node.UID,
	}})
	if err != nil {
		return nil, fmt.Errorf("encode a patch: %w", err)
	}
	written, err := c.valkey.ValkeyV1alpha1().ValkeyNodes(node.Namespace).
		Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return written, c.record(written, err, "write the node's finalizers")
}

func (c *Controller) record(written *v1alpha1.ValkeyNode, err error, what string) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	c.written.Record(cache.MetaObjectToName(written), written)
	return nil
}
