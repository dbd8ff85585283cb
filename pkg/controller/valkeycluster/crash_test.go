package valkeycluster

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/client"
)

var everyCall = flag.Bool("exhaustive", false, "die at every call, not at every few")

type scenario struct {
	name             string
	shards, replicas int32
	formed           bool
	change           func(b *bench)
	// few: with so many calls, only each such one is a point to die at, unless -exhaustive is set.
	few int
}

func (s scenario) begin(t *testing.T) *bench {
	b := newBench(t, s.shards, s.replicas)
	if s.formed {
		b.settle()
	}
	return b
}

// scenarios are what the operator is killed in the middle of. The last four are the quadrants of failure: with a
// replica or without one, with a majority of the primaries or without.
var scenarios = []scenario{
	{"bootstrap", 2, 1, false, func(*bench) {}, 5},
	{"scale-out", 2, 1, true, func(b *bench) { b.edit(func(c *v1alpha1.ValkeyCluster) { c.Spec.Shards = 3 }) }, 11},
	{"scale-in", 2, 1, true, func(b *bench) { b.edit(func(c *v1alpha1.ValkeyCluster) { c.Spec.Shards = 1 }) }, 9},
	{"roll", 2, 1, true, func(b *bench) {
		b.editConfig(func(c *v1alpha1.ValkeyConfig) { c.Spec.Valkey = map[string]string{"maxmemory": "1gb"} })
	}, 41},
	{"lost shard", 2, 1, true, func(b *bench) {
		s := b.cluster().Status.Shards[0]
		b.killPod(s.Primary)
		b.kill(s.Replicas[0])
	}, 13},
	{"lost primary, replica, majority", 3, 1, true, func(b *bench) { b.killPrimaries(1) }, 19},
	{"lost primaries, replicas, no majority", 3, 1, true, func(b *bench) { b.killPrimaries(2) }, 37},
	{"lost primary, no replica, majority", 3, 0, true, func(b *bench) { b.killPrimaries(1) }, 11},
	{"lost primaries, no replica, no majority", 3, 0, true, func(b *bench) { b.killPrimaries(2) }, 17},
}

// killer ends the process at one call: before it is made or after it has been carried out. The
// rest of that pass then fails as well.
type killer struct {
	at    int
	after bool
	calls int
	dead  bool
	where string
}

func (k *killer) fault(call string, done bool) error {
	if k.dead {
		return k.silence()
	}
	if !done {
		k.calls++
	}
	if k.calls == k.at && done == k.after {
		k.dead, k.where = true, call
		return k.silence()
	}
	return nil
}

func (k *killer) silence() error {
	return &client.UnreachableError{Addr: "anywhere", Command: "any", Err: errCrash}
}

func (b *bench) killPrimaries(n int) {
	for _, s := range b.cluster().Status.Shards[:n] {
		b.killPod(s.Primary)
	}
	b.refresh()
}

func TestDyingAtAnyCallEndsInTheUndisturbedState(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			step := s.few
			if *everyCall {
				step = 1
			}
			calm := s.begin(t)
			never := &killer{}
			calm.api.fault, calm.valkey.fault = never.fault, never.fault
			s.change(calm)
			calm.settle()
			want := calm.shape()
			if never.calls < 10 {
				t.Fatalf("only %d calls: is anything done at all?", never.calls)
			}
			t.Logf("%d calls", never.calls)
			for at := 1; at <= never.calls; at += step {
				for _, after := range []bool{false, true} {
					if t.Failed() {
						return
					}
					b := s.begin(t)
					k := &killer{at: at, after: after}
					b.api.fault, b.valkey.fault = k.fault, k.fault
					s.change(b)
					for range 300 {
						b.step()
						if k.dead {
							break
						}
					}
					b.api.fault, b.valkey.fault = nil, nil
					b.restart()
					b.settle()
					if got := b.shape(); got != want {
						t.Errorf("killed at call %d (%s, after: %t):\n%s\nwant %s", at, k.where, after, got, want)
					}
				}
			}
		})
	}
}

func TestALaggingCacheNeverDoublesANode(t *testing.T) {
	for _, kind := range []string{"valkeyclusters", "valkeynodes", "pods", "services", "configmaps"} {
		for _, forgetful := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarts %t", kind, forgetful), func(t *testing.T) {
				t.Parallel()
				b := newBench(t, 2, 1)
				most := 0
				for i := range 400 {
					// The cache sees one in five of the passes' results.
					b.lagging[kind] = i%5 != 4
					b.step()
					if forgetful {
						b.restart()
					}
					most = max(most, len(b.nodes()))
				}
				b.lagging[kind] = false
				b.refresh()
				b.settle()
				if most != 4 || !strings.HasPrefix(b.shape(), "Active, 4 nodes, 4 pods, 4 servers, 16384 slots") {
					t.Errorf("up to %d nodes, then %s", most, b.shape())
				}
			})
		}
	}
}

func TestALaggingCacheEndsInTheUndisturbedState(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			calm := s.begin(t)
			s.change(calm)
			calm.settle()
			for kind := range calm.stores {
				b := s.begin(t)
				s.change(b)
				for i := range 200 {
					b.lagging[kind] = i%5 != 4
					b.step()
				}
				b.lagging[kind] = false
				b.refresh()
				b.settle()
				if got := b.shape(); got != calm.shape() {
					t.Errorf("the cache of %s lagged:\n%s\nwant %s", kind, got, calm.shape())
				}
			}
		})
	}
}
