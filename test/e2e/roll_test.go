package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	valkeyv1alpha1 "github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/test/e2e/lab"
)

// awaitImage waits until every pod of the cluster runs the tag.
func awaitImage(c *lab.Cluster, within time.Duration, tag string) {
	c.T.Helper()
	lab.Eventually(c.T, within, "every pod to run "+tag, func() error {
		pods, err := c.Pods()
		for _, p := range pods {
			if image := p.Spec.Containers[0].Image; !strings.HasSuffix(image, ":"+tag) || p.DeletionTimestamp != nil {
				return fmt.Errorf("pod %s runs %s", p.Name, image)
			}
		}
		return err
	})
}

// Every node is replaced, one shard at a time, with at most one failover a shard, and no write is lost. What the Watcher asserts is the
// order: a replacement is in sync before anything retires.
func TestARollReplacesEveryNodeAndLosesNothing(t *testing.T) {
	t.Parallel()
	s, c, w := ready(t, 3, 1, lab.Options{})
	before := c.UIDs()
	at := time.Now()
	s.PatchImage(s.Name, fmt.Sprintf(`{"spec":{"tag":%q}}`, s.Bed.Images.OtherTag))
	awaitImage(c, 150*time.Second, s.Bed.Images.OtherTag)
	assertFailoversPerShard(c, 1)
	c.Settle(30*time.Second, 3, 1)
	for name, uid := range c.UIDs() {
		if before[name] == uid {
			t.Errorf("pod %s was not replaced", name)
		}
	}
	t.Logf("rolled in %v, longest time without a write %v", time.Since(at).Round(time.Millisecond), w.LongestGap(at, slot.All()).Length)
	w.FinishComplete()
}

func assertFailoversPerShard(c *lab.Cluster, most int) {
	c.T.Helper()
	count := map[int32]int{}
	for _, f := range c.Watch().Failovers() {
		if count[f.ShardIndex]++; count[f.ShardIndex] > most {
			c.T.Errorf("shard index %d had more than %d failovers: %+v", f.ShardIndex, most, c.Watch().Failovers())
		}
	}
}

func TestARollWithoutReplicasLosesNothing(t *testing.T) {
	t.Parallel()
	s, c, w := ready(t, 2, 0, lab.Options{})
	s.PatchConfig(s.Name, `{"spec":{"valkey":{"maxmemory-policy":"allkeys-lru"}}}`)
	lab.Eventually(t, 90*time.Second, "every node to be of the new revision", func() error {
		nodes, err := c.Nodes()
		for _, n := range nodes {
			if n.Spec.ValkeySettings["maxmemory-policy"] != "allkeys-lru" {
				return fmt.Errorf("%s is not", n.Name)
			}
		}
		return err
	})
	c.Settle(60*time.Second, 2, 0)
	w.FinishComplete()
}

func TestTheRestartAnnotationRollsOnce(t *testing.T) {
	t.Parallel()
	_, c, w := ready(t, 1, 1, lab.Options{})
	before := c.UIDs()
	c.Patch(`{"metadata":{"annotations":{%q:"now"}}}`, valkeyv1alpha1.AnnotationRestart)
	lab.Eventually(t, 90*time.Second, "every pod to be replaced", func() error {
		for name := range c.UIDs() {
			if before[name] != "" {
				return fmt.Errorf("pod %s is still there", name)
			}
		}
		return nil
	})
	c.Settle(60*time.Second, 1, 1)
	c.Quiet(10*time.Second, 1, 1)
	w.FinishComplete()
}

// The first new node runs an engine that is too old: the roll stops there, with the cluster unhurt, and the next edit cures it.
func TestARollToAnOldEngineStopsAtItsFirstNodeAndIsCured(t *testing.T) {
	t.Parallel()
	s, c, w := ready(t, 3, 1, lab.Options{})
	before := c.UIDs()
	s.PatchImage(s.Name, fmt.Sprintf(`{"spec":{"tag":%q}}`, s.Bed.Images.OldTag))
	c.WaitTold(90*time.Second, s.Bed.Images.OldVersion)
	time.Sleep(15 * time.Second) // to go on would be wrong
	nodes, err := c.Nodes()
	if err != nil || len(nodes) > 7 {
		t.Errorf("there are %d ValkeyNodes, want the 6 and one that does not join (%v)", len(nodes), err)
	}
	after := c.UIDs()
	for name, uid := range before {
		if after[name] != uid {
			t.Errorf("pod %s was taken away by a roll that cannot succeed", name)
		}
	}
	c.WaitCondition(5*time.Second, valkeyv1alpha1.ConditionAvailable, metav1.ConditionTrue)
	s.PatchImage(s.Name, fmt.Sprintf(`{"spec":{"tag":%q}}`, s.Bed.Images.OtherTag))
	awaitImage(c, 180*time.Second, s.Bed.Images.OtherTag)
	c.Settle(60*time.Second, 3, 1)
	w.FinishComplete()
}

// A primary's process dies in the middle of a roll.
func TestAPrimaryKilledDuringARollIsReplacedAndTheRollEnds(t *testing.T) {
	t.Parallel()
	s, c, w := ready(t, 3, 1, lab.Options{})
	s.PatchImage(s.Name, fmt.Sprintf(`{"spec":{"tag":%q}}`, s.Bed.Images.OtherTag))
	lab.Eventually(t, 60*time.Second, "the first retirement", func() error {
		if len(c.Watch().Retired()) == 0 {
			return fmt.Errorf("none yet")
		}
		return nil
	})
	sample, err := c.Look()
	if err != nil {
		t.Fatal(err)
	}
	primaries := sample.Primaries()
	victim := primaries[len(primaries)-1]
	at := time.Now()
	lab.ProcessKilled.Do(c, victim.Pod)
	awaitImage(c, 180*time.Second, s.Bed.Images.OtherTag)
	c.Settle(90*time.Second, 3, 1)
	assertLost(t, w, w.Finish(), slotsOf(victim), at.Add(-time.Second), at.Add(time.Second))
}

// A new operator release must move no pod: here the same one, started anew.
func TestAnOperatorThatStartsAnewMovesNoPod(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	c := s.Create("cache", 2, 1)
	c.Settle(60*time.Second, 2, 1)
	s.Operator.Stop()
	s.Operator.Start()
	c.Quiet(15*time.Second, 2, 1)
}
