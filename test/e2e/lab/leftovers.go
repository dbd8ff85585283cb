package lab

import (
	"context"
	"errors"
	"fmt"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ownerLabel is on every namespace and menu object of a test; its value is the process id of the test.
const ownerLabel = "valkey-e2e"

// removeLeftovers removes what test processes left behind that were killed.
func (b *Bed) removeLeftovers() error {
	ctx, ours, v1 := context.Background(), metav1.ListOptions{LabelSelector: ownerLabel}, b.Valkey.ValkeyV1alpha1()
	dead := func(o metav1.Object) bool {
		_, err := os.Stat("/proc/" + o.GetLabels()[ownerLabel])
		return errors.Is(err, os.ErrNotExist)
	}
	namespaces, err := b.Kube.CoreV1().Namespaces().List(ctx, ours)
	if err != nil {
		return fmt.Errorf("find leftovers: %w", err)
	}
	var errs []error
	for _, o := range namespaces.Items {
		if dead(&o) {
			errs = append(errs, b.Kube.CoreV1().Namespaces().Delete(ctx, o.Name, metav1.DeleteOptions{}))
			b.dropFinalizers(o.Name)
		}
	}
	images, err := v1.ValkeyImages().List(ctx, ours)
	if err != nil {
		return fmt.Errorf("find leftovers: %w", err)
	}
	for _, o := range images.Items {
		if dead(&o) {
			errs = append(errs, v1.ValkeyImages().Delete(ctx, o.Name, metav1.DeleteOptions{}))
		}
	}
	configs, err := v1.ValkeyConfigs().List(ctx, ours)
	if err != nil {
		return fmt.Errorf("find leftovers: %w", err)
	}
	for _, o := range configs.Items {
		if dead(&o) {
			errs = append(errs, v1.ValkeyConfigs().Delete(ctx, o.Name, metav1.DeleteOptions{}))
		}
	}
	for _, err := range errs {
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("remove leftovers: %w", err)
		}
	}
	return nil
}

// dropFinalizers lets a namespace go that no operator serves any more. What cannot be patched is gone already, or shows when the
// namespace stays.
func (b *Bed) dropFinalizers(namespace string) {
	ctx, none, v1 := context.Background(), []byte(`{"metadata":{"finalizers":null}}`), b.Valkey.ValkeyV1alpha1()
	if clusters, err := v1.ValkeyClusters(namespace).List(ctx, metav1.ListOptions{}); err == nil {
		for _, o := range clusters.Items {
			_, _ = v1.ValkeyClusters(namespace).Patch(ctx, o.Name, types.MergePatchType, none, metav1.PatchOptions{})
		}
	}
	if nodes, err := v1.ValkeyNodes(namespace).List(ctx, metav1.ListOptions{}); err == nil {
		for _, o := range nodes.Items {
			_, _ = v1.ValkeyNodes(namespace).Patch(ctx, o.Name, types.MergePatchType, none, metav1.PatchOptions{})
		}
	}
}
