package valkeycluster

import (
	"fmt"
	"strings"
	"testing"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/client"
)

// scenarios are what the operator is killed in the middle of. Each begins with a cluster of 2 shards
// with a replica each, but for the first.
var scenarios = []struct {
	name   string
	formed bool
	change func(b *bench)
	// every: with so many calls, not each is a point to die at.
	every int
}{
	{"bootstrap", false, func(*bench) {}, 3},
	{"scale-out", true, func(b *bench) { b.edit(func(c *v1alpha1.ValkeyCluster) { c.Spec.Shards = 3 }) }, 7},
	{"scale-in", true, func(b *bench) { b.edit(func(c *v1alpha1.ValkeyCluster) { c.Spec.Shards = 1 }) }, 5},
	{"roll", true, func(b *bench) {
		b.editConfig(func(c *v1alpha1.ValkeyConfig) { c.Spec.Valkey = map[string]string{"maxmemory": "1gb"} })
	}, 23},
	{"lost primary", true, (*bench).killPrimary, 5},
	{"lost shard", true, func(b *bench) {
		s := b.cluster().Status.Shards[0]
		b.killPod(s.Primary)
		b.kill(s.Replicas[0])
	}, 7},
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

func begin(t *testing.T, formed bool) *bench {
	b := newBench(t, 2, 1)
	if formed {
		b.settle()
	}
	return b
}

func TestDyingAtAnyCallEndsInTheUndisturbedState(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			calm := begin(t, s.formed)
			never := &killer{}
			calm.api.fault, calm.valkey.fault = never.fault, never.fault
			s.change(calm)
			calm.settle()
			want := calm.shape()
			if never.calls < 10 {
				t.Fatalf("only %d calls: is anything done at all?", never.calls)
			}
			for at := 1; at <= never.calls; at += s.every {
				for _, after := range []bool{false, true} {
					if t.Failed() {
						return
					}
					b := begin(t, s.formed)
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
