package plan_test

import (
	"flag"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan/plantest"
)

var (
	oneSeed   = flag.Uint64("seed", 0, "simulate this seed only and print all that happens")
	until     = flag.Duration("until", 0, "with -seed: stop there and print the world")
	seedCount = flag.Int("seeds", 30, "how many seeds to simulate")
	firstSeed = flag.Uint64("first", 1, "the first of them")
	soak      = flag.Duration("for", 0, "simulate seeds for so long instead, from -first on, and count the violations")
)

// TestSimulation runs random worlds to their end. Every run must keep all invariants, come
// to the wanted shape within its bound, and stay quiet then.
func TestSimulation(t *testing.T) {
	switch {
	case *oneSeed != 0:
		simulate(t, *oneSeed, 100000)
	case *soak > 0:
		soakFor(t, *soak)
	default:
		for i := range uint64(*seedCount) {
			t.Run(fmt.Sprint(*firstSeed+i), func(t *testing.T) {
				t.Parallel()
				simulate(t, *firstSeed+i, 60)
			})
		}
	}
}

// simulate runs a seed and says whether it kept all invariants.
func simulate(t *testing.T, seed uint64, lines int) bool {
	s := plantest.NewSimulation(plantest.RandomScenario(seed), plantest.Real)
	s.Until = *until
	err := s.Run()
	switch {
	case err != nil:
		shorter := plantest.Shrink(plantest.RandomScenario(seed), plantest.Real)
		t.Errorf("%v\n%s\n%s\nwith the fewest events: %s\nreplay: go test ./pkg/valkey/plan/... -run TestSimulation -seed=%d",
			err, s.Scenario, s.Model.Transcript(lines), shorter, seed)
	case *oneSeed != 0:
		t.Log(s.Model.Transcript(lines))
	}
	return err == nil
}

// soakFor takes one seed after the other on every core until the time is over, and counts those that fail.
func soakFor(t *testing.T, d time.Duration) {
	begin := time.Now()
	var next, done, failed atomic.Uint64
	next.Store(*firstSeed)
	told := func() {
		t.Logf("%d seeds from %d on in %s, %d violations", done.Load(), *firstSeed, time.Since(begin).Round(time.Second), failed.Load())
	}
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for time.Since(begin) < d {
				if !simulate(t, next.Add(1)-1, 60) {
					failed.Add(1)
				}
				if done.Add(1)%5000 == 0 {
					told()
				}
			}
		})
	}
	all.Wait()
	told()
}
