package plan_test

import (
	"testing"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan/plantest"
)

// TestNoLibraryIsLoadedWhileAShardIsDown: one primary is cut off and was replaced, another is killed.
// The slots of the first have two owners then; they do not make up for those of the other.
func TestNoLibraryIsLoadedWhileAShardIsDown(t *testing.T) {
	for victim := range 4 {
		sc := world(3, 1, fault(plantest.HostCut, 0, time.Minute),
			plantest.Event{At: later + 30*time.Second, Kind: plantest.KillPrimary, N: victim},
			plantest.Event{At: later + 30*time.Second, Kind: plantest.LoadLibrary})
		for sc.Seed = range 6 {
			if err := plantest.NewSimulation(sc, plantest.Real).Run(); err != nil {
				t.Errorf("victim %d, seed %d: %v", victim, sc.Seed, err)
			}
		}
	}
}
