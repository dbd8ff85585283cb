package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/test/e2e/lab"
)

// ready is a cluster with keys in every part of the slots and a writer that goes on.
func ready(t *testing.T, shards, replicas int, options lab.Options) (*lab.Site, *lab.Cluster, *lab.Writer) {
	t.Helper()
	s := lab.NewSite(t, options)
	c := s.Create("cache", int32(shards), int32(replicas))
	c.Settle(90*time.Second, shards, replicas)
	w := c.Write(20*time.Millisecond, 256)
	time.Sleep(2 * time.Second)
	return s, c, w
}

func TestScalingOutAndInKeepsEveryKey(t *testing.T) {
	t.Parallel()
	_, c, w := ready(t, 3, 1, lab.Options{})
	for _, shards := range []int{4, 3} {
		at := time.Now()
		c.Scale(shards, 1)
		c.Settle(120*time.Second, shards, 1)
		t.Logf("%d shards after %v, longest time without a write %v", shards, time.Since(at).Round(time.Millisecond), w.LongestGap(at, slot.All()).Length)
	}
	w.FinishComplete()
}

func TestOneShardBecomesTwo(t *testing.T) {
	t.Parallel()
	_, c, w := ready(t, 1, 1, lab.Options{})
	c.Scale(2, 1)
	c.Settle(90*time.Second, 2, 1)
	w.FinishComplete()
}

func TestALoneNodeBecomesTwoShards(t *testing.T) {
	t.Parallel()
	_, c, w := ready(t, 1, 0, lab.Options{})
	c.Scale(2, 0)
	c.Settle(90*time.Second, 2, 0)
	w.FinishComplete()
}

func TestSixShardsBecomeOne(t *testing.T) {
	t.Parallel()
	_, c, w := ready(t, 6, 0, lab.Options{})
	c.Scale(1, 0)
	c.Settle(150*time.Second, 1, 0)
	w.FinishComplete()
}

func TestReplicasComeAndGo(t *testing.T) {
	t.Parallel()
	_, c, w := ready(t, 2, 0, lab.Options{})
	before := c.AssertShape(2, 0)
	for _, replicas := range []int{1, 2, 0} {
		c.Scale(2, replicas)
		c.Settle(90*time.Second, 2, replicas)
	}
	if failovers := c.Watch().Failovers(); len(failovers) > 0 {
		t.Errorf("replicas came and went with failovers: %+v", failovers)
	}
	after := c.AssertShape(2, 0)
	for _, n := range before.Nodes {
		if after.Node(n.Name()) == nil {
			t.Errorf("primary %s was replaced", n.Name())
		}
	}
	w.FinishComplete()
}

// An edit in the middle of a rebalance becomes the new target.
func TestAScaleInRevertedInTheMiddleEndsEven(t *testing.T) {
	t.Parallel()
	_, c, w := ready(t, 4, 1, lab.Options{})
	c.Scale(2, 1)
	lab.Eventually(t, 60*time.Second, "the first slots to move", func() error {
		sample, err := c.Look()
		if err != nil {
			return err
		}
		for _, p := range sample.Primaries() {
			if slots := p.Slots(); slots.Len() != 4096 {
				return nil
			}
		}
		return fmt.Errorf("all own 4096 slots")
	})
	c.Scale(4, 1)
	c.Settle(150*time.Second, 4, 1)
	w.FinishComplete()
}

// The operator is killed every two seconds while it scales out and in: it always finds the way on.
func TestAnOperatorKilledEveryTwoSecondsStillScales(t *testing.T) {
	t.Parallel()
	s, c, w := ready(t, 3, 1, lab.Options{OperatorArgs: lab.NoLease})
	for _, shards := range []int{4, 3} {
		c.Scale(shards, 1)
		for range 8 {
			time.Sleep(2 * time.Second)
			s.Operator.Kill()
			s.Operator.Start()
		}
		c.Settle(150*time.Second, shards, 1)
	}
	w.FinishComplete()
}

// A primary's process is killed in the middle of scaling out, and again in the middle of scaling in. Only what
// it had not replicated yet may be missing: a migration must lose nothing more.
func TestAPrimaryKilledWhileScalingIsReplacedAndScalingEnds(t *testing.T) {
	t.Parallel()
	c := lab.NewSite(t, lab.Options{}).Create("cache", 3, 1)
	c.Settle(90*time.Second, 3, 1)
	for _, shards := range []int{4, 3} {
		w := c.Write(20*time.Millisecond, 64)
		time.Sleep(time.Second)
		c.Scale(shards, 1)
		lab.Eventually(t, 60*time.Second, "scaling to begin", func() error {
			nodes, err := c.Nodes()
			sample, lookErr := c.Look()
			if err != nil || lookErr != nil {
				return fmt.Errorf("%v, %v", err, lookErr)
			}
			if shards == 4 && len(nodes) > 6 || shards == 3 && sample.Shape(4, 1) != nil {
				return nil
			}
			return fmt.Errorf("%d nodes", len(nodes))
		})
		sample, err := c.Look()
		if err != nil {
			t.Fatal(err)
		}
		victim := sample.Primaries()[0]
		mayLose := slotsOf(victim)
		for _, job := range victim.Server.Migrations {
			mayLose = mayLose.Union(slot.Of(job.Slots...)) // it may own them by now
		}
		at := time.Now()
		lab.ProcessKilled.Do(c, victim.Pod)
		c.WaitPodsGone(60*time.Second, victim.Pod)
		c.Settle(150*time.Second, shards, 1)
		t.Logf("%d shards, writes back after %v", shards, w.Back(10*time.Second, at))
		assertLost(t, w, w.Finish(), mayLose, at.Add(-time.Second), at.Add(time.Second))
	}
}
