package bench

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/test/e2e/lab"
)

// rounds is how often each failure and each formation is measured.
const rounds = 3

func TestFailing(t *testing.T) {
	for _, mode := range []string{"fast", "native"} {
		t.Run(mode, func(t *testing.T) { failing(t, mode) })
	}
}

func failing(t *testing.T, mode string) {
	s := lab.NewSite(t, lab.Options{Plain: true, OperatorEnv: []string{"FAILOVER=" + mode}})
	c := s.Create("bench", 3, 1)
	c.Settle(120*time.Second, 3, 1)
	heading("a primary of 3 x 2 fails, failover: " + mode)
	proven, graceful := "<= 1.50 s", "<= 250 ms"
	if mode == "native" {
		proven = "(node timeout)"
	}
	for _, kind := range []struct {
		kill       lab.Kill
		goal, lost string
	}{
		{lab.ProcessKilled, proven, "replication window"},
		{lab.PodForceDeleted, proven, "replication window"},
		{lab.PodDeleted, graceful, "0"},
	} {
		back, lost, acked := measure(c, kind.kill.Do)
		add(kind.kill.Name+": writes back", milliseconds(median(back)), "max "+milliseconds(back[len(back)-1]), kind.goal)
		add("  acknowledged writes lost", fmt.Sprintf("%d of %d", lost, acked), "", kind.lost)
	}
	if mode == "fast" {
		drain(t, c, graceful)
	}
}

// measure fails the primary of the lowest slots several times, and tells how long its shard took no writes.
func measure(c *lab.Cluster, fail func(*lab.Cluster, ...*corev1.Pod)) (back []time.Duration, lost, acked int) {
	for range rounds {
		w := c.Follow(10*time.Millisecond, 64)
		time.Sleep(2 * time.Second)
		sample := c.AssertShape(3, 1)
		victim := sample.Primaries()[0]
		at := time.Now()
		fail(c, victim.Pod)
		time.Sleep(100 * time.Millisecond)
		w.Back(40*time.Second, time.Now())
		time.Sleep(time.Second)
		c.WaitPodsGone(90*time.Second, victim.Pod)
		back = append(back, w.LongestGap(at, victim.Slots()).Length)
		c.Settle(120*time.Second, 3, 1)
		lost += len(w.Finish())
		acked += w.Acknowledged()
	}
	return back, lost, acked
}

func drain(t *testing.T, c *lab.Cluster, goal string) {
	w := c.Follow(10*time.Millisecond, 64)
	time.Sleep(2 * time.Second)
	at := time.Now()
	c.Drain(c.AssertShape(3, 1).Primaries()[0].Pod.Spec.NodeName)
	c.Settle(150*time.Second, 3, 1)
	gap := w.LongestGap(at, slot.All())
	add("kubectl drain: longest gap", milliseconds(gap.Length), "", goal)
	add("  acknowledged writes lost", fmt.Sprintf("%d of %d", len(w.Finish()), w.Acknowledged()), "", "0")
}
