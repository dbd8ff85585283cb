package valkeycluster

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
)

// Rules of the controller itself: what stops a pass before it gets to the planner, and after.
const (
	ruleUnresolved plan.RuleName = "ReferenceUnresolved"
	ruleAuthLost   plan.RuleName = "AuthSecretMissing"
	ruleNameTaken  plan.RuleName = "NameTaken"
	ruleTLSInvalid plan.RuleName = "TLSInvalid"
	ruleRefused    plan.RuleName = "RefusedByGuard"
)

// The texts of lastAction and of an attempt are bounded, in bytes.
const (
	maxActionLength   = 4000
	maxAttemptMessage = 1000
)

// seen is all that a status is derived from, besides the one before it.
type seen struct {
	cluster *v1alpha1.ValkeyCluster
	// serial is the first one whose name no ValkeyNode has.
	serial int64
	// looked: obs is of this pass. It is false where the pass was stopped before the look.
	looked   bool
	obs      plan.Observation
	decision plan.Decision
	// attempts are what the planner wants remembered.
	attempts []plan.Attempt
	// unresolved is the user's error in a reference, notice what a person should know
	// about references that do resolve.
	unresolved, notice string
	// unmaintained is what could not be brought up to date though the rest goes on.
	unmaintained string
	// invalid is why the TLS material cannot be used.
	invalid string
	now     time.Time
}

// deriveStatus is the whole status after this pass and before its act: what was seen
// and what is about to happen. Nothing in it changes by itself, so that an idle cluster
// costs no write. old is not changed.
func deriveStatus(old v1alpha1.ValkeyClusterStatus, s seen) v1alpha1.ValkeyClusterStatus {
	out := *old.DeepCopy()
	out.ObservedGeneration = s.cluster.Generation
	out.NodeSerial = max(old.NodeSerial, s.serial)
	out.TargetSpec = targetSpec(old.TargetSpec, s)
	out.State = state(old, out.TargetSpec, s)
	out.Message = s.invalid
	out.LastAction = lastAction(old, s)
	if s.looked {
		out.Attempts = remembered(old.Attempts, s.attempts, s.now)
	}
	// While a bootstrap goes on as told, pods, gossip and slots come up one by one. The next news
	// bring them all.
	isOldNews := s.obs.Creating && isSameText(old.LastAction, out.LastAction) && !hasPodTrouble(s.obs)
	if s.looked && !isOldNews {
		owners := servings(s.obs)
		out.Nodes = nodeSummaries(old.Nodes, s.obs)
		out.Shards = shardStatuses(owners)
		// During a failover two servers may claim the same slots for a moment.
		var assigned slot.Set
		for _, o := range owners {
			assigned = assigned.Union(o.slots)
		}
		out.SlotsAssigned = int32(assigned.Len())
	}
	out.Conditions = conditions(old.Conditions, s, *out.LastAction, isOldNews)
	return out
}

// waitsQuietly: a wait in which no pod has trouble.
func waitsQuietly(s seen) bool {
	_, waits := s.decision.Action.(plan.Wait)
	return waits && !hasPodTrouble(s.obs)
}

func hasPodTrouble(obs plan.Observation) bool {
	return slices.ContainsFunc(obs.Nodes, func(n plan.Node) bool { return n.Pod.Reason != "" && !n.Deleting })
}

func targetSpec(old *v1alpha1.TargetSpec, s seen) *v1alpha1.TargetSpec {
	switch a := s.decision.Action.(type) {
	case plan.Snapshot:
		return &v1alpha1.TargetSpec{
			ConfigRef:        s.cluster.Spec.ConfigRef,
			Shards:           int32(a.Shards),
			ReplicasPerShard: int32(a.Replicas),
			Placement:        s.cluster.Spec.Placement.DeepCopy(),
			TLS:              s.cluster.Spec.TLS.DeepCopy(),
		}
	case plan.Complete:
		return nil
	}
	return old.DeepCopy()
}

// state is for people: nothing is decided by it. A cluster whose TLS material is mended goes
// through Creating while it is looked at again (contract §5).
func state(old v1alpha1.ValkeyClusterStatus, target *v1alpha1.TargetSpec, s seen) v1alpha1.ClusterState {
	_, completed := s.decision.Action.(plan.Complete)
	switch {
	case s.invalid != "":
		return v1alpha1.ClusterStateInvalid
	case completed:
		return v1alpha1.ClusterStateActive
	case target != nil:
		return v1alpha1.ClusterStateCreating
	case old.State == v1alpha1.ClusterStateInvalid:
		return v1alpha1.ClusterStateCreating
	case old.State == v1alpha1.ClusterStateActive, wasFormed(old):
		return v1alpha1.ClusterStateActive
	}
	return v1alpha1.ClusterStateCreating
}

// wasFormed says that the cluster had been Active once and no new bootstrap has begun.
func wasFormed(old v1alpha1.ValkeyClusterStatus) bool {
	return old.TargetSpec == nil && (old.State == v1alpha1.ClusterStateActive || old.SlotsAssigned > 0)
}

// lastAction keeps the old one while the mind has not changed: the same rule with the same
// deed, or the same rule still waiting (for whom exactly may change all the time) with no new
// trouble. A bootstrap is told in fewer words, since each would be a write that delays the next step:
// a short wait follows every deed, and meeting thirty nodes one by one is one piece of news.
func lastAction(old v1alpha1.ValkeyClusterStatus, s seen) *v1alpha1.LastAction {
	d := s.decision
	next := &v1alpha1.LastAction{
		Rule:   string(d.Rule),
		Action: clip(actionText(d.Action), maxActionLength),
		Why:    clip(d.Why, maxActionLength),
		Time:   metav1.NewTime(s.now.Truncate(time.Second)),
	}
	last := old.LastAction
	if last == nil {
		return next
	}
	_, waits := d.Action.(plan.Wait)
	wasTrouble := meta.IsStatusConditionTrue(old.Conditions, v1alpha1.ConditionDegraded)
	switch {
	case s.obs.Creating && isDeedText(last.Action) && (waitsQuietly(s) || last.Rule == next.Rule && plan.IsDeed(d.Action)),
		last.Rule == next.Rule && last.Action == next.Action,
		last.Rule == next.Rule && waits && isWaitText(last.Action) && wasTrouble == hasPodTrouble(s.obs):
		return last.DeepCopy()
	}
	return next
}

// actionText is an action for people, who need not know when it is looked at again.
func actionText(a plan.Action) string {
	if w, ok := a.(plan.Wait); ok {
		return "wait for " + w.For
	}
	return a.String()
}

// isWaitText tells a wait from a deed in the text that a status remembers.
func isWaitText(action string) bool {
	return strings.HasPrefix(action, "wait for ")
}

func isDeedText(action string) bool {
	return !isWaitText(action) && !strings.HasPrefix(action, "hold: ") && action != plan.Done{}.String()
}

// remembered turns the planner's attempts into the status': it counts, the status has the time.
func remembered(old []v1alpha1.Attempt, kept []plan.Attempt, now time.Time) []v1alpha1.Attempt {
	var out []v1alpha1.Attempt
	for _, a := range kept {
		next := v1alpha1.Attempt{
			Kind: a.Kind, Subject: a.Subject, Count: int32(a.Count), Message: clip(a.Message, maxAttemptMessage),
			LastTime: metav1.NewTime(now.Truncate(time.Second)),
		}
		for _, o := range old {
			if o.Kind == a.Kind && o.Subject == a.Subject && int(o.Count) == a.Count {
				next.LastTime = o.LastTime
			}
		}
		out = append(out, next)
	}
	// The newest are last.
	return out[max(0, len(out)-v1alpha1.MaxAttempts):]
}
