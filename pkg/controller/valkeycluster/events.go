package valkeycluster

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
)

// herald tells people what is new: an Event and a log line when the decision has changed, never
// because time has passed.
type herald struct {
	events record.EventRecorder
}

// maxEventLength bounds an Event's message, in bytes; the API server's limit is 1024.
const maxEventLength = 1000

// announce compares the last decision in the old status with that of the new one, which is in the
// cluster by now.
func (h herald) announce(ctx context.Context, cluster *v1alpha1.ValkeyCluster, old v1alpha1.ValkeyClusterStatus, s seen) {
	logger := klog.FromContext(ctx)
	if _, done := s.decision.Action.(plan.Done); done && cluster.Status.State == v1alpha1.ClusterStateActive {
		logger.Info("active tick")
	}
	last := cluster.Status.LastAction
	if last == nil || isSameText(old.LastAction, last) {
		return
	}
	logLine(logger, s)
	if !isNews(s) || isSameNews(old.LastAction, last, s.decision) {
		return
	}
	h.events.Event(cluster, eventType(s), last.Rule, clip(byName(s.obs, eventMessage(s.decision)), maxEventLength))
}

// refused tells that the API server forbade a write: a quota or an admission policy is somebody's to change. The
// recorder counts repeated ones.
func (h herald) refused(cluster *v1alpha1.ValkeyCluster, err error) {
	h.events.Event(cluster, corev1.EventTypeWarning, "Refused",
		clip("the API server refuses what the cluster needs; tried again until the quota or policy allows it: "+err.Error(), maxEventLength))
}

// isNews: a deed, a reason to hold, or a wait while something is broken. The short waits between
// the steps of a change are for the log.
func isNews(s seen) bool {
	switch s.decision.Action.(type) {
	case plan.Done:
		return false
	case plan.Wait:
		return degradation(s) != ""
	}
	return true
}

func isSameText(a, b *v1alpha1.LastAction) bool {
	return a != nil && a.Rule == b.Rule && a.Action == b.Action
}

// isSameNews: the same rule goes on. Another reason to hold is news.
func isSameNews(old, last *v1alpha1.LastAction, d plan.Decision) bool {
	_, holds := d.Action.(plan.Hold)
	return old != nil && old.Rule == last.Rule && isWaitText(old.Action) == isWaitText(last.Action) && !holds
}

// eventType is Warning for what stops the operator, and for what loses or may lose data.
func eventType(s seen) string {
	switch a := s.decision.Action.(type) {
	case plan.Hold:
		return corev1.EventTypeWarning
	case plan.Wait:
		return corev1.EventTypeWarning // told only while something is broken
	case plan.Failover:
		if a.Mode != plan.Coordinated {
			return corev1.EventTypeWarning
		}
	case plan.Snapshot:
		if s.obs.Formed {
			return corev1.EventTypeWarning
		}
	case plan.Forget, plan.RemoveNodes:
		if strings.Contains(s.decision.Why, "lost") {
			return corev1.EventTypeWarning
		}
	}
	return corev1.EventTypeNormal
}

// byName writes the names of nodes for their IDs: people know the pods.
func byName(obs plan.Observation, text string) string {
	var pairs []string
	for _, n := range obs.Nodes {
		if id := string(n.ID()); id != "" {
			name := string(n.Name)
			pairs = append(pairs, name+" ("+id+")", name, id, name)
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

func eventMessage(d plan.Decision) string {
	switch a := d.Action.(type) {
	case plan.Hold:
		return a.Because
	case plan.Wait:
		return "waiting for " + a.For
	}
	return fmt.Sprintf("%s: %s", d.Action, d.Why)
}

// logLine logs a changed decision. Some have the words that runbooks search for (contract §7).
func logLine(logger klog.Logger, s seen) {
	d := s.decision
	fields := []any{"rule", string(d.Rule), "action", actionText(d.Action), "reason", d.Why}
	switch a := d.Action.(type) {
	case plan.Complete:
		logger.Info("cluster formed, transitioning to Active", fields...)
		return
	case plan.Wait:
		for _, known := range []string{messageBlocked, messageUnhealthy} {
			if strings.Contains(a.For, known) {
				logger.Info(known, fields...)
				return
			}
		}
	case plan.Hold:
		if s.invalid != "" {
			logger.Info("TLS Secret validation failed, setting cluster Invalid", fields...)
			return
		}
		logger.Info("holding", fields...)
		return
	}
	logger.V(2).Info("decided", fields...)
}

// What the planner writes into its waits and runbooks search for in the log.
const (
	messageBlocked   = "bootstrap blocked: pod cannot be scheduled"
	messageUnhealthy = "primary unhealthy but replicas exist, waiting for auto-failover"
)

// kindOf is an action's kind in one word, for a metric: "Meet".
func kindOf(a plan.Action) string { return reflect.TypeOf(a).Name() }
