package e2e

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/test/e2e/lab"
)

// kills are the two ways in which a node ends that every failure is tried with.
var kills = []lab.Kill{lab.PodDeleted, lab.ProcessKilled}

// slotsOf is the union of what nodes own.
func slotsOf(nodes ...*lab.Node) slot.Set {
	var out slot.Set
	for _, n := range nodes {
		out = out.Union(n.Slots())
	}
	return out
}

// assertLost checks that only writes of the slots are lost, and of those only what was acknowledged before until and after since.
func assertLost(t *testing.T, w *lab.Writer, lost []lab.Lost, in slot.Set, since, until time.Time) {
	t.Helper()
	wrong := 0
	for _, l := range lost {
		if !in.Has(l.Slot) || l.At.Before(since) || l.At.After(until) {
			if wrong++; wrong <= 5 {
				t.Errorf("a write to slot %d, acknowledged at %s, is lost; only slots %s between %s and %s may lose any",
					l.Slot, clock(l.At), in, clock(since), clock(until))
			}
		}
	}
	t.Logf("%d of %d acknowledged writes lost, %d of them wrongly", len(lost), w.Acknowledged(), wrong)
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }

// A primary with a replica, and a majority that can vote: its replica is promoted. A deleted pod loses nothing, a killed process
// at most what was not replicated yet.
func TestADeadPrimaryIsReplacedByItsReplica(t *testing.T) {
	t.Parallel()
	c := lab.NewSite(t, lab.Options{}).Create("cache", 3, 1)
	c.Settle(60*time.Second, 3, 1)
	for _, kill := range kills {
		w := c.Write(10*time.Millisecond, 64)
		time.Sleep(2 * time.Second)
		victim := c.AssertShape(3, 1).Primaries()[1]
		at := time.Now()
		kill.Do(c, lab.Pods(victim)...)
		t.Logf("%s: writes are back after %v", kill.Name, w.Back(30*time.Second, at.Add(50*time.Millisecond)))
		c.WaitPodsGone(60*time.Second, victim.Pod)
		c.Settle(60*time.Second, 3, 1)
		lost := w.Finish()
		if kill.Name == lab.PodDeleted.Name {
			assertLost(t, w, lost, slot.Set{}, at, at)
		} else {
			assertLost(t, w, lost, slotsOf(victim), at.Add(-time.Second), at.Add(time.Second))
		}
		assertOneFailover(c, victim)
	}
}

func assertOneFailover(c *lab.Cluster, victim *lab.Node) {
	c.T.Helper()
	if sample, err := c.Look(); err != nil || sample.Node(victim.Name()) != nil {
		c.T.Errorf("the dead node %s is still there (%v)", victim.Name(), err)
	}
}

// Two of three primaries at once: nobody can vote, so each replica takes over.
func TestDeadPrimariesWithoutAQuorumAreReplacedByTheirReplicas(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	c := s.Create("cache", 3, 1)
	c.Settle(60*time.Second, 3, 1)
	for _, kill := range kills {
		w := c.Write(20*time.Millisecond, 64)
		time.Sleep(2 * time.Second)
		victims := c.AssertShape(3, 1).Primaries()[:2]
		at := time.Now()
		kill.Do(c, lab.Pods(victims...)...)
		c.WaitPodsGone(60*time.Second, lab.Pods(victims...)...)
		c.Settle(90*time.Second, 3, 1)
		w.Back(10*time.Second, time.Now())
		assertLost(t, w, w.Finish(), slotsOf(victims...), at.Add(-time.Second), at.Add(10*time.Second))
	}
	if s.Operator.Logged("no quorum — issued TAKEOVER on replica") == 0 {
		t.Error("the log does not tell of a TAKEOVER")
	}
}

// A primary without a replica: its data is lost, and only its data; the Event says so.
func TestADeadPrimaryWithoutReplicaIsReplacedEmpty(t *testing.T) {
	t.Parallel()
	c := lab.NewSite(t, lab.Options{}).Create("cache", 3, 0)
	c.Settle(60*time.Second, 3, 0)
	for i, kill := range kills {
		w := c.Write(20*time.Millisecond, 64)
		time.Sleep(2 * time.Second)
		sample := c.AssertShape(3, 0)
		victim := sample.Primaries()[i]
		kill.Do(c, victim.Pod)
		c.WaitPodsGone(60*time.Second, victim.Pod)
		after := c.Settle(90*time.Second, 3, 0)
		w.Back(10*time.Second, time.Now())
		assertLost(t, w, w.Finish(), slotsOf(victim), time.Time{}, time.Now())
		for _, n := range sample.Primaries() {
			if n != victim && (after.Node(n.Name()) == nil || after.Node(n.Name()).ID() != n.ID() || after.Node(n.Name()).Slots() != n.Slots()) {
				t.Errorf("%s was not hurt and is not what it was", n.Name())
			}
		}
	}
	c.WaitEvent(5*time.Second, "lost")
}

// Two of three primaries without replicas: neither votes nor replicas; the third keeps its data.
func TestDeadPrimariesWithNeitherQuorumNorReplicaAreReplacedEmpty(t *testing.T) {
	t.Parallel()
	c := lab.NewSite(t, lab.Options{}).Create("cache", 3, 0)
	c.Settle(60*time.Second, 3, 0)
	for _, kill := range kills {
		w := c.Write(20*time.Millisecond, 64)
		time.Sleep(2 * time.Second)
		victims := c.AssertShape(3, 0).Primaries()[1:]
		kill.Do(c, lab.Pods(victims...)...)
		c.WaitPodsGone(60*time.Second, lab.Pods(victims...)...)
		c.Settle(90*time.Second, 3, 0)
		w.Back(10*time.Second, time.Now())
		assertLost(t, w, w.Finish(), slotsOf(victims...), time.Time{}, time.Now())
	}
}

func TestADeadReplicaIsReplaced(t *testing.T) {
	t.Parallel()
	c := lab.NewSite(t, lab.Options{}).Create("cache", 2, 1)
	c.Settle(60*time.Second, 2, 1)
	w := c.Write(20*time.Millisecond, 64)
	for _, kill := range kills {
		sample := c.AssertShape(2, 1)
		victim := sample.Replicas(sample.Primaries()[0])[0]
		kill.Do(c, victim.Pod)
		c.WaitPodsGone(60*time.Second, victim.Pod)
		after := c.Settle(60*time.Second, 2, 1)
		for _, p := range sample.Primaries() {
			if now := after.Node(p.Name()); now == nil || now.Slots() != p.Slots() {
				t.Errorf("primary %s changed though only a replica died", p.Name())
			}
		}
	}
	w.FinishComplete()
}

var rounds = flag.Int("rounds", 3, "how many times TestAWholeShardIsLostAgainAndAgain loses a shard")

// A whole shard is lost again and again: the other shards keep every key, the slots come back empty.
func TestAWholeShardIsLostAgainAndAgain(t *testing.T) {
	t.Parallel()
	c := lab.NewSite(t, lab.Options{}).Create("cache", 3, 1)
	c.Settle(60*time.Second, 3, 1)
	for round := range *rounds {
		w := c.Write(20*time.Millisecond, 64)
		time.Sleep(time.Second)
		sample := c.AssertShape(3, 1)
		primary := sample.Primaries()[round%3]
		kills[1].Do(c, lab.Pods(append(sample.Replicas(primary), primary)...)...)
		c.WaitPodsGone(60*time.Second, primary.Pod)
		c.Settle(90*time.Second, 3, 1)
		w.Back(10*time.Second, time.Now())
		assertLost(t, w, w.Finish(), slotsOf(primary), time.Time{}, time.Now())
	}
	c.WaitEvent(5*time.Second, "lost")
}

// Half the primaries of eight: exactly no majority, and elections that collide.
func TestHalfThePrimariesOfEightShardsAreReplaced(t *testing.T) {
	t.Parallel()
	c := lab.NewSite(t, lab.Options{}).Create("cache", 8, 2)
	c.Settle(120*time.Second, 8, 2)
	w := c.Write(40*time.Millisecond, 64)
	time.Sleep(2 * time.Second)
	victims := c.AssertShape(8, 2).Primaries()[:4]
	at := time.Now()
	kills[1].Do(c, lab.Pods(victims...)...)
	c.WaitPodsGone(60*time.Second, lab.Pods(victims...)...)
	c.Settle(120*time.Second, 8, 2)
	w.Back(10*time.Second, time.Now())
	assertLost(t, w, w.Finish(), slotsOf(victims...), at.Add(-time.Second), at.Add(10*time.Second))
}

// All pods at once: nothing is left to repair, so a fresh cluster forms, and the Event names the loss.
func TestEveryPodDeletedAtOnceMakesAFreshCluster(t *testing.T) {
	t.Parallel()
	c := lab.NewSite(t, lab.Options{}).Create("cache", 3, 1)
	sample := c.Settle(60*time.Second, 3, 1)
	lab.PodForceDeleted.Do(c, lab.Pods(sample.Nodes...)...)
	c.WaitPodsGone(60*time.Second, lab.Pods(sample.Nodes...)...)
	c.Settle(120*time.Second, 3, 1)
	c.WaitEvent(5*time.Second, "lost")
	c.Write(20*time.Millisecond, 64).Back(10*time.Second, time.Now())
}

// A stall shorter than the node timeout is no death.
func TestAPrimaryThatStallsForThreeSecondsKeepsItsShard(t *testing.T) {
	t.Parallel()
	c := lab.NewSite(t, lab.Options{}).Create("cache", 3, 1)
	before := c.Settle(60*time.Second, 3, 1)
	c.Stall(before.Primaries()[0], 3*time.Second)
	time.Sleep(5 * time.Second)
	after := c.AssertShape(3, 1)
	for _, p := range before.Primaries() {
		if now := after.Node(p.Name()); now == nil || now.Slots() != p.Slots() {
			t.Errorf("primary %s is not what it was", p.Name())
		}
	}
}

// The operator reaches the API server and one Kubernetes node of three: it must not judge what it cannot see.
func TestAnOperatorCutOffFromTwoNodesTakesNothingOver(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	c := s.Create("cache", 3, 1)
	before := c.Settle(60*time.Second, 3, 1)
	w := c.Write(20*time.Millisecond, 64)
	mark := s.Mark()
	s.Operator.CutOff("n1")
	s.Operator.CutOff("n2")
	time.Sleep(35 * time.Second) // seven node timeouts
	for _, write := range s.Writes(mark, "leases", "events") {
		if write.Verb == "delete" || write.Verb == "create" {
			t.Errorf("while it was cut off, the operator did: %v", write)
		}
	}
	s.Operator.Reconnect()
	c.WaitActive(30 * time.Second)
	after := c.AssertShape(3, 1)
	for _, n := range before.Nodes {
		if now := after.Node(n.Name()); now == nil || now.ID() != n.ID() || now.Slots() != n.Slots() {
			t.Errorf("%s is not what it was", n.Name())
		}
	}
	if failovers := c.Watch().Failovers(); len(failovers) > 0 {
		t.Errorf("there were failovers: %+v", failovers)
	}
	if gap := w.LongestGap(time.Now().Add(-35*time.Second), slot.All()); gap.Length > 2*time.Second {
		t.Errorf("writes to slot %d stood still for %v", gap.Slot, gap.Length)
	}
	w.FinishComplete()
}

// Two clusters in one namespace; a pod of one gets the address of a dead pod of the other, which still
// tries to reach it there. Not in parallel: the pod of another test could take the address.
func TestClustersNeverMergeWhenAnAddressIsReused(t *testing.T) {
	s := lab.NewSite(t, lab.Options{})
	a := s.Create("a", 3, 1)
	sample := a.Settle(60*time.Second, 3, 1)
	s.Operator.Kill() // nobody forgets the dead node
	victim := sample.Replicas(sample.Primaries()[0])[0]
	lab.PodForceDeleted.Do(a, victim.Pod)
	a.WaitPodsGone(20*time.Second, victim.Pod)
	s.NextPodIP(victim.Pod.Spec.NodeName, victim.Pod.Status.PodIP)
	b := s.Create("b", 2, 0, onNode(victim.Pod.Spec.NodeName))
	s.Operator.Start()
	bSample := b.Settle(90*time.Second, 2, 0)
	reused := false
	for _, n := range bSample.Nodes {
		reused = reused || n.Pod.Status.PodIP == victim.Pod.Status.PodIP
	}
	if !reused {
		t.Errorf("no pod of b got the address %s of a's dead pod: the test shows nothing", victim.Pod.Status.PodIP)
	}
	aSample := a.Settle(90*time.Second, 3, 1)
	for _, n := range bSample.Nodes {
		for _, m := range aSample.Nodes {
			if _, known := m.Server.View.Find(n.ID()); known {
				t.Errorf("%s of a knows %s of b", m.Name(), n.Name())
			}
		}
	}
	fmt.Fprintln(t.Output(), "the reused address is", victim.Pod.Status.PodIP)
}
