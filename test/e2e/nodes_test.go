package e2e

import (
	"testing"
	"time"

	valkeyv1alpha1 "github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/test/e2e/lab"
)

// onNode places all pods on one Kubernetes node.
func onNode(name string) func(*valkeyv1alpha1.ValkeyClusterSpec) {
	return func(spec *valkeyv1alpha1.ValkeyClusterSpec) {
		spec.Placement = &valkeyv1alpha1.Placement{NodeSelector: map[string]string{"kubernetes.io/hostname": name}}
	}
}

// These touch Kubernetes nodes that all tests share: no t.Parallel.

// A Kubernetes node's link is cut for a minute. Nothing that lives behind it is erased: a shard without replicas comes back as it was, a
// shard with a replica outside has failed over and lost at most what was not replicated.
func TestAKubernetesNodeCutOffForAMinuteLosesNoLiveShard(t *testing.T) {
	s := lab.NewSite(t, lab.Options{})
	lone, pairs := s.Create("lone", 3, 0), s.Create("pairs", 3, 1)
	loneBefore := lone.Settle(60*time.Second, 3, 0)
	pairsBefore := pairs.Settle(60*time.Second, 3, 1)
	wl, wp := lone.Write(40*time.Millisecond, 64), pairs.Write(40*time.Millisecond, 64)
	time.Sleep(2 * time.Second)
	cut := loneBefore.Primaries()[0].Pod.Spec.NodeName
	lone.Watch().Fault()
	pairs.Watch().Fault()
	at := time.Now()
	s.Bed.Cut(t, cut)
	time.Sleep(60 * time.Second)
	s.Bed.Heal(t, cut)
	healed := time.Now()
	loneAfter := lone.Settle(90*time.Second, 3, 0)
	for _, n := range loneBefore.Nodes {
		if now := loneAfter.Node(n.Name()); now == nil || now.ID() != n.ID() || now.Slots() != n.Slots() {
			t.Errorf("%s lived behind the cut and is not what it was", n.Name())
		}
	}
	pairs.Settle(120*time.Second, 3, 1)
	wl.Back(20*time.Second, time.Now())
	wp.Back(20*time.Second, time.Now())
	wl.FinishComplete()
	var behind slot.Set
	for _, p := range pairsBefore.Primaries() {
		if p.Pod.Spec.NodeName == cut {
			behind = behind.Union(p.Slots())
		}
	}
	assertLost(t, wp, wp.Finish(), behind, at.Add(-time.Second), healed.Add(10*time.Second))
}

// kubectl drain works without --force, and no acknowledged write is lost.
func TestADrainedKubernetesNodeLosesNothing(t *testing.T) {
	s := lab.NewSite(t, lab.Options{})
	c := s.Create("cache", 3, 1)
	sample := c.Settle(60*time.Second, 3, 1)
	w := c.Write(20*time.Millisecond, 64)
	time.Sleep(2 * time.Second)
	node := sample.Primaries()[0].Pod.Spec.NodeName
	at := time.Now()
	c.Drain(node)
	after := c.Settle(120*time.Second, 3, 1)
	for _, n := range after.Nodes {
		if n.Pod.Spec.NodeName == node {
			t.Errorf("%s runs on the drained node", n.Name())
		}
	}
	t.Logf("the longest time without a write was %v", w.LongestGap(at, slot.All()).Length)
	w.FinishComplete()
}
