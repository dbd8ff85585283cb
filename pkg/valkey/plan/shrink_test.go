package plan_test

import (
	"testing"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan/plantest"
)

// TestAFailingScenarioIsShrunkToTheEventsThatMatter uses a wrong planner, which only a pause
// shows to be wrong.
func TestAFailingScenarioIsShrunkToTheEventsThatMatter(t *testing.T) {
	sc := world(2, 1,
		fault(plantest.OldCache, 0, time.Second),
		edit(plantest.Change{Paused: yes(true)}),
		plantest.Event{At: later + time.Second, Kind: plantest.KillReplica},
		plantest.Event{At: later + 2*time.Second, Kind: plantest.CrashNow, For: time.Second},
		plantest.Event{At: later + 20*time.Second, Kind: plantest.Edit, Edit: plantest.Change{Paused: yes(false)}})
	got := plantest.Shrink(sc, mutant{see: ignorePause}.planner())
	var kinds []plantest.Kind
	for _, e := range got.Events {
		kinds = append(kinds, e.Kind)
	}
	if len(kinds) != 2 || kinds[0] != plantest.Edit || kinds[1] != plantest.KillReplica {
		t.Errorf("the events left are %v", kinds)
	}
}

// TestTheSameSeedIsTheSameRun: what a failing seed prints can be had again.
func TestTheSameSeedIsTheSameRun(t *testing.T) {
	for seed := uint64(1); seed <= 3; seed++ {
		run := func() string {
			s := plantest.NewSimulation(plantest.RandomScenario(seed), plantest.Real)
			_ = s.Run() // TestSimulation is where it must succeed
			return s.Model.Transcript(1 << 20)
		}
		if first := run(); first != run() {
			t.Errorf("seed %d gives another run each time", seed)
		}
	}
}
