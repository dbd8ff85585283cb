package plan_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan/plantest"
)

var (
	oneSeed   = flag.Uint64("seed", 0, "simulate this seed only and print all that happens")
	seedCount = flag.Int("seeds", 200, "how many seeds to simulate")
	firstSeed = flag.Uint64("first", 1, "the first of them")
	until     = flag.Duration("until", 0, "with -seed: stop there and print the world")
	soak      = flag.Duration("soak", 0, "simulate seeds for so long instead")
)

// TestSimulation runs random worlds to their end. Every run must keep all invariants, come
// to the wanted shape within its bound, and stay quiet then.
func TestSimulation(t *testing.T) {
	if *oneSeed != 0 {
		simulate(t, *oneSeed, 100000)
		return
	}
	for i := range uint64(*seedCount) {
		t.Run(fmt.Sprint(*firstSeed+i), func(t *testing.T) {
			t.Parallel()
			simulate(t, *firstSeed+i, 60)
		})
	}
}

func simulate(t *testing.T, seed uint64, lines int) {
	s := plantest.NewSimulation(plantest.RandomScenario(seed), plantest.Real)
	s.Until = *until
	if err := s.Run(); err != nil {
		t.Errorf("%v\n%s\n%s\nreplay: go test ./pkg/valkey/plan/... -run TestSimulation -seed=%d",
			err, s.Scenario, s.Model.Transcript(lines), seed)
	} else if *oneSeed != 0 {
		t.Log(s.Model.Transcript(lines))
	}
}
