package valkeycluster

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller/resolve"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
)

// Reasons of conditions where it is no rule's name.
const (
	reasonAllServed    = "AllSlotsServed"
	reasonHealthy      = "Healthy"
	reasonUnmaintained = "NotMaintained"
	reasonResolved     = "Resolved"
	reasonOverridden   = "SettingsOverridden"
	reasonSupported    = "Supported"
	reasonUnknown      = "NotSeenYet"
	reasonTooOld       = "EngineTooOld"
	reasonUnsupported  = "EngineUnsupported"
	reasonKnownFault   = "EngineHasKnownFault"
	reasonPaused       = "PausedByAnnotation"
	reasonNotPaused    = "NotPaused"
	maxConditionLength = 2000
)

// conditions are the old ones with this controller's own set anew; those of other
// controllers stay as they are. isOldNews leaves out what counts servers and slots.
func conditions(old []metav1.Condition, s seen, last v1alpha1.LastAction, isOldNews bool) []metav1.Condition {
	out := slices.Clone(old)
	set := func(kind string, value metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&out, metav1.Condition{
			Type: kind, Status: value, Reason: reason, Message: clip(message, maxConditionLength),
			ObservedGeneration: s.cluster.Generation, LastTransitionTime: metav1.NewTime(s.now),
		})
	}
	set(v1alpha1.ConditionProgressing, truth(isProgress(s.decision.Action)), last.Rule, progressMessage(last))
	set(v1alpha1.ConditionReferencesResolved, truth(s.unresolved == ""), resolvedReason(s), resolvedMessage(s))
	if isPaused(s.cluster) {
		set(v1alpha1.ConditionPaused, metav1.ConditionTrue, reasonPaused, "annotation "+v1alpha1.AnnotationPaused+" stops every action")
	} else {
		set(v1alpha1.ConditionPaused, metav1.ConditionFalse, reasonNotPaused, "")
	}
	trouble := degradation(s)
	switch {
	case trouble != "":
		set(v1alpha1.ConditionDegraded, metav1.ConditionTrue, last.Rule, trouble)
	case s.unmaintained != "":
		set(v1alpha1.ConditionDegraded, metav1.ConditionTrue, reasonUnmaintained, s.unmaintained)
	default:
		set(v1alpha1.ConditionDegraded, metav1.ConditionFalse, reasonHealthy, "")
	}
	if !s.looked || isOldNews {
		return out
	}
	ok := served(s.obs)
	if n := ok.Len(); n == slot.Count {
		set(v1alpha1.ConditionAvailable, metav1.ConditionTrue, reasonAllServed, "all 16384 slots are served by primaries that answer")
	} else {
		set(v1alpha1.ConditionAvailable, metav1.ConditionFalse, last.Rule, fmt.Sprintf("%d of 16384 slots are served by primaries that answer", n))
	}
	value, reason, message := versions(s.obs)
	set(v1alpha1.ConditionVersionSupported, value, reason, message)
	return out
}

func truth(b bool) metav1.ConditionStatus {
	if b {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

func isProgress(a plan.Action) bool {
	switch a.(type) {
	case plan.Hold, plan.Done:
		return false
	}
	return true
}

func progressMessage(last v1alpha1.LastAction) string {
	if last.Why == "" {
		return last.Action
	}
	return last.Action + ": " + last.Why
}

func resolvedReason(s seen) string {
	switch {
	case s.unresolved != "":
		return string(ruleUnresolved)
	case s.notice != "":
		return reasonOverridden
	}
	return reasonResolved
}

func resolvedMessage(s seen) string {
	if s.unresolved != "" {
		return s.unresolved
	}
	return s.notice
}

// degradation is what is broken now, repaired or not; empty while nothing is. What
// belongs to a planned change is not broken.
func degradation(s seen) string {
	if h, ok := s.decision.Action.(plan.Hold); ok && !isPaused(s.cluster) {
		return h.Because
	}
	var parts []string
	if s.looked && !s.obs.Creating {
		for _, owner := range servings(s.obs) {
			if !owner.answers {
				parts = append(parts, fmt.Sprintf("the owner of slots %s does not answer", owner.slots))
			}
		}
	}
	for _, n := range s.obs.Nodes {
		if n.Deleting || n.Lifecycle == plan.Leaving {
			continue
		}
		switch {
		case n.Pod.Gone():
			parts = append(parts, words("pod "+string(n.Name)+" is gone", n.Pod.Reason))
		case n.Pod.Reason != "":
			parts = append(parts, words("pod "+string(n.Name), n.Pod.Reason))
		}
	}
	return strings.Join(parts, "; ")
}

// versions judges the running engines, the worst one first; what the image declares
// proves nothing (contract §8).
func versions(obs plan.Observation) (metav1.ConditionStatus, string, string) {
	status, reason, message := metav1.ConditionUnknown, reasonUnknown, "no server answered yet"
	worst := -1
	for _, n := range obs.Nodes {
		if n.Server == nil {
			continue
		}
		rank, why, text := judge(n.Server.Version)
		if rank <= worst {
			continue
		}
		worst, reason, message = rank, why, text
		if rank == 0 {
			status = metav1.ConditionTrue
			continue
		}
		status, message = metav1.ConditionFalse, words(string(n.Name), text)
	}
	return status, reason, message
}

// judge ranks an engine: 0 is fine, higher is worse.
func judge(text string) (rank int, reason, message string) {
	version, err := resolve.ParseVersion(text)
	switch {
	case err != nil:
		return 1, reasonUnsupported, fmt.Sprintf("runs an engine that calls itself %q", text)
	case version.Compare(resolve.Floor) < 0:
		return 3, reasonTooOld, fmt.Sprintf("runs Valkey %s, and nothing below %s may join", version, resolve.Floor)
	case version.Warning() != "":
		return 2, reasonKnownFault, version.Warning()
	}
	return 0, reasonSupported, ""
}

// clip shortens a text to at most n bytes without breaking a character.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n-3], "") + "..."
}
