package valkeynode

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
)

// tell makes a changed condition an Event: trouble is a warning, its end is not.
func (c *Controller) tell(node *v1alpha1.ValkeyNode, kind string) {
	now := meta.FindStatusCondition(node.Status.Conditions, kind)
	if now == nil || now.Reason == ReasonStarting {
		return
	}
	severity := corev1.EventTypeWarning
	if now.Status == metav1.ConditionTrue {
		severity = corev1.EventTypeNormal
	}
	c.events.Event(node, severity, now.Reason, now.Message)
}

// reportRefusal tells, once, why the node has no pod.
func (c *Controller) reportRefusal(ctx context.Context, node *v1alpha1.ValkeyNode, refused metav1.Condition) error {
	if !setCondition(&node.Status, refused, node.Generation) {
		return nil
	}
	klog.FromContext(ctx).Info("Pod for node refused", "pod", node.Name, "reason", refused.Reason, "error", refused.Message)
	c.tell(node, v1alpha1.ConditionPodCreated)
	return c.writeStatus(ctx, node)
}
