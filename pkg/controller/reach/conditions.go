package reach

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	valkeyapply "github.com/momentohq/valkey-operator/pkg/generated/applyconfiguration/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/generated/clientset/versioned"
)

// maxConditionLength bounds a condition's message, in bytes.
const maxConditionLength = 2000

// Tell applies conditions, and nothing else of the status, as the manager; it writes only if
// something differs from what the cluster shows. A manager must tell all of its conditions
// each time: one that it leaves out is removed. It returns those whose status or reason is new.
func Tell(ctx context.Context, valkey versioned.Interface, manager string, cluster *v1alpha1.ValkeyCluster, now metav1.Time, all ...metav1.Condition) (news []metav1.Condition, err error) {
	have := slices.Clone(cluster.Status.Conditions)
	changed := false
	status := valkeyapply.ValkeyClusterStatus()
	for _, c := range all {
		c.Message = clip(c.Message, maxConditionLength)
		c.ObservedGeneration, c.LastTransitionTime = cluster.Generation, now
		before := meta.FindStatusCondition(have, c.Type)
		if before == nil || before.Status != c.Status || before.Reason != c.Reason {
			news = append(news, c)
		}
		changed = meta.SetStatusCondition(&have, c) || changed
		after := meta.FindStatusCondition(have, c.Type)
		status.WithConditions(metaapply.Condition().WithType(c.Type).WithStatus(c.Status).WithReason(c.Reason).
			WithMessage(c.Message).WithObservedGeneration(c.ObservedGeneration).WithLastTransitionTime(after.LastTransitionTime))
	}
	if !changed {
		return nil, nil
	}
	_, err = valkey.ValkeyV1alpha1().ValkeyClusters(cluster.Namespace).ApplyStatus(ctx,
		valkeyapply.ValkeyCluster(cluster.Name, cluster.Namespace).WithUID(cluster.UID).WithStatus(status),
		metav1.ApplyOptions{FieldManager: manager, Force: true})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil, nil // it is gone, or another one has its name now
	}
	if err != nil {
		return nil, fmt.Errorf("apply conditions: %w", err)
	}
	return news, nil
}

// clip shortens a text to at most n bytes without breaking a character.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n-3], "") + "..."
}
