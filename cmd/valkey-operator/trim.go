package main

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
)

// trim drops from what the informers keep what nobody reads: a pod shrinks to a quarter. It
// may meet an object twice.
func trim(obj any) (any, error) {
	if accessor, err := meta.Accessor(obj); err == nil {
		accessor.SetManagedFields(nil)
	}
	switch o := obj.(type) {
	case *corev1.Pod:
		o.Spec = corev1.PodSpec{NodeName: o.Spec.NodeName}
		for i := range o.Status.ContainerStatuses {
			c := &o.Status.ContainerStatuses[i]
			*c = corev1.ContainerStatus{Name: c.Name, State: c.State, LastTerminationState: c.LastTerminationState,
				Ready: c.Ready, RestartCount: c.RestartCount, Started: c.Started}
		}
	case *corev1.ConfigMap:
		// A node's valkey.conf is written once and read by the kubelet alone.
		if owner := metav1.GetControllerOf(o); owner != nil && owner.Kind == v1alpha1.KindValkeyNode {
			o.Data = nil
		}
	}
	return obj, nil
}
