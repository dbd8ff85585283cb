package planner

import (
	"fmt"
	"testing"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

func formed(t *testing.T, shards, replicas int) *world {
	t.Helper()
	w := newWorld(t, shards, replicas)
	begin := time.Now()
	w.settle(30 * time.Second)
	w.assertShape()
	t.Logf("%d shards, %d replicas each: %d deeds in %s", shards, replicas, len(w.taken), time.Since(begin).Round(time.Millisecond))
	return w
}

func TestRealServersFormEveryShape(t *testing.T) {
	for _, c := range [][2]int{{1, 0}, {1, 2}, {3, 1}, {4, 2}, {10, 2}} {
		t.Run(fmt.Sprintf("%dx%d", c[0], c[1]), func(t *testing.T) { formed(t, c[0], c[1]) })
	}
}

// primaryOf is the node that owns the first slots, or a replica of it.
func (w *world) find(role topology.Role) plan.NodeName {
	w.t.Helper()
	for _, n := range w.look().Nodes {
		if n.Server != nil && n.Server.View.Me().Role == role && (role == topology.Replica || len(n.Server.View.Me().Slots) > 0) {
			return n.Name
		}
	}
	w.t.Fatalf("no %s", role)
	return ""
}

func TestRealServersHealAfterAKill(t *testing.T) {
	for _, c := range []struct {
		name             string
		shards, replicas int
		role             topology.Role
		within           time.Duration
	}{
		{"a primary with a replica and quorum", 3, 1, topology.Primary, 10 * time.Second},
		{"a primary with a replica and no quorum", 1, 1, topology.Primary, 20 * time.Second},
		{"a primary without replicas", 3, 0, topology.Primary, 20 * time.Second},
		{"the only node", 1, 0, topology.Primary, 20 * time.Second},
		{"a replica", 3, 1, topology.Replica, 20 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := formed(t, c.shards, c.replicas)
			w.servers[w.find(c.role)].Kill(t)
			begin, deeds := time.Now(), len(w.taken)
			w.settle(c.within)
			w.assertShape()
			t.Logf("healed in %s:\n%s", time.Since(begin).Round(time.Millisecond), (&world{taken: w.taken[deeds:]}).story())
		})
	}
}

func TestRealServersScale(t *testing.T) {
	for _, c := range []struct{ from, to [2]int }{
		{[2]int{3, 1}, [2]int{4, 1}},
		{[2]int{4, 0}, [2]int{3, 0}},
		{[2]int{1, 1}, [2]int{2, 1}},
		{[2]int{1, 1}, [2]int{1, 2}},
		{[2]int{6, 0}, [2]int{1, 0}},
		{[2]int{1, 0}, [2]int{1, 2}},
		{[2]int{2, 2}, [2]int{2, 0}},
	} {
		t.Run(fmt.Sprintf("%dx%d to %dx%d", c.from[0], c.from[1], c.to[0], c.to[1]), func(t *testing.T) {
			w := formed(t, c.from[0], c.from[1])
			w.target.Shards, w.target.Replicas = c.to[0], c.to[1]
			begin, deeds := time.Now(), len(w.taken)
			w.settle(30 * time.Second)
			w.assertShape()
			t.Logf("scaled in %s:\n%s", time.Since(begin).Round(time.Millisecond), (&world{taken: w.taken[deeds:]}).story())
		})
	}
}

func TestRealServersRoll(t *testing.T) {
	for _, replicas := range []int{0, 1, 2} {
		t.Run(fmt.Sprintf("3x%d", replicas), func(t *testing.T) {
			w := formed(t, 3, replicas)
			w.target.Revisions = []string{"r2"}
			begin, deeds := time.Now(), len(w.taken)
			w.settle(60 * time.Second)
			w.assertShape()
			failovers := 0
			for _, d := range w.taken[deeds:] {
				if _, ok := d.Action.(plan.Failover); ok {
					failovers++
				}
			}
			if failovers != 3 {
				t.Errorf("%d failovers for 3 shards\n%s", failovers, w.story())
			}
			t.Logf("rolled in %s:\n%s", time.Since(begin).Round(time.Millisecond), (&world{taken: w.taken[deeds:]}).story())
		})
	}
}
