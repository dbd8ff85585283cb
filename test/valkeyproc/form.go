package valkeyproc

import (
	"fmt"
	"testing"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// Form makes one cluster of fresh servers: the first ones are the primaries
// of that many shards, the others their replicas in turn. It returns when every server
// sees the whole cluster ok and every replica is in sync.
func Form(t testing.TB, servers []*Server, shards int) {
	t.Helper()
	ids := make([]topology.NodeID, len(servers))
	for i, s := range servers {
		ids[i] = s.ID(t)
		must(t, s.Node(t).SetConfigEpoch(t.Context(), uint64(i+1)))
	}
	for i, s := range servers[1:] {
		// Denser than a star: gossip has less to do.
		for _, other := range servers[:min(i+1, shards)] {
			must(t, s.Node(t).Meet(t.Context(), other.IP, Port, BusPort))
		}
	}
	all, left := slot.All(), slot.All()
	for i := range shards {
		share := left.First(slot.Share(i, shards))
		left = left.Minus(share)
		must(t, servers[i].Node(t).AddSlots(t.Context(), share))
	}
	for i, s := range servers[shards:] {
		Eventually(t, 20*time.Second, fmt.Sprintf("%s to know its primary", s.IP), func() bool {
			return s.Node(t).Replicate(t.Context(), ids[i%shards]) == nil
		})
	}
	Eventually(t, 30*time.Second, "every server to see the whole cluster", func() bool {
		for i, s := range servers {
			seen := s.Look(t)
			if !seen.StateOK || seen.SlotsOK != all.Len() || len(seen.View.Peers) != len(servers) || i >= shards && !seen.LinkUp {
				return false
			}
			for _, p := range seen.View.Peers {
				if p.Handshake || !p.Linked {
					return false
				}
			}
		}
		return true
	})
}

// Eventually asks again and again until it holds; after the time it fails the test.
func Eventually(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case <-deadline.C:
			t.Fatalf("waited %v for %s", within, what)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
