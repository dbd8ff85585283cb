package e2e

import (
	"fmt"
	"testing"
	"time"

	valkeyv1alpha1 "github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/test/e2e/lab"
)

// Edits of the topology while Creating are deferred, not lost.
func TestTopologyEditsWhileCreatingAreAppliedAfterwards(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	c := s.Create("cache", 2, 1, nowhere(s))
	c.WaitTold(30*time.Second, "0/3 nodes are available")
	c.Scale(3, 0)
	time.Sleep(3 * time.Second) // passes that could act on the edit too early
	got := c.Get()
	if target := got.Status.TargetSpec; target == nil || target.Shards != 2 || target.ReplicasPerShard != 1 {
		t.Errorf("while Creating, targetSpec is %+v, want 2 × 1", target)
	}
	if nodes, err := c.Nodes(); err != nil || len(nodes) != 4 {
		t.Errorf("there are %d ValkeyNodes, want the 4 of the snapshot (%v)", len(nodes), err)
	}
	open(s)
	c.Settle(120*time.Second, 3, 0)
}

func TestABadImageIsCuredByAnEditWhileCreating(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	s.PatchImage(s.Name, `{"spec":{"tag":"no-such-tag"}}`)
	c := s.Create("cache", 2, 1)
	c.WaitTold(40*time.Second, "ImagePull")
	s.PatchImage(s.Name, fmt.Sprintf(`{"spec":{"tag":%q}}`, s.Bed.Images.Tag))
	c.Settle(90*time.Second, 2, 1)
}

func TestAnImpossibleRequestIsCuredByAnEditWhileCreating(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{CPU: "300"})
	c := s.Create("cache", 2, 1)
	c.WaitTold(30*time.Second, "Insufficient cpu")
	s.PatchConfig(s.Name, `{"spec":{"resources":{"cpu":null}}}`)
	c.Settle(90*time.Second, 2, 1)
}

func TestAnImpossiblePlacementIsCuredByAnEditWhileCreating(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	c := s.Create("cache", 2, 1, func(spec *valkeyv1alpha1.ValkeyClusterSpec) {
		spec.Placement = &valkeyv1alpha1.Placement{Zones: []string{"zone-of-nobody"}}
	})
	c.WaitTold(30*time.Second, "0/3 nodes are available")
	c.Patch(`{"spec":{"placement":{"zones":["zone-1","zone-3"]}}}`)
	sample := c.Settle(90*time.Second, 2, 1)
	for _, n := range sample.Nodes {
		if n.Pod.Spec.NodeName == "n2" {
			t.Errorf("%s runs in zone-2, wanted are zone-1 and zone-3", n.Name())
		}
	}
}

// A directive that the server does not know ends it at once; the log's tail is told, and an edit cures it.
func TestADirectiveThatTheServerRefusesIsCuredByAnEditWhileCreating(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{Settings: map[string]string{"no-such-directive": "1"}})
	c := s.Create("cache", 1, 1)
	c.WaitTold(60*time.Second, "no-such-directive")
	s.PatchConfig(s.Name, `{"spec":{"valkey":null}}`)
	c.Settle(90*time.Second, 1, 1)
}

func TestPodAnnotationsAreAppliedInPlace(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	c := s.Create("cache", 1, 1, func(spec *valkeyv1alpha1.ValkeyClusterSpec) { spec.PodAnnotations = map[string]string{"team": "a"} })
	c.Settle(60*time.Second, 1, 1)
	before := c.UIDs()
	c.Patch(`{"spec":{"podAnnotations":{"team":"b","tier":"gold"}}}`)
	lab.Eventually(t, 20*time.Second, "the annotations on every pod", func() error {
		pods, err := c.Pods()
		for _, p := range pods {
			if p.Annotations["team"] != "b" || p.Annotations["tier"] != "gold" {
				return fmt.Errorf("pod %s has %v", p.Name, p.Annotations)
			}
		}
		return err
	})
	if after := c.UIDs(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("pods were replaced: %v, then %v", before, after)
	}
}
