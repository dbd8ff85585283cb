package plan_test

import (
	"testing"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan/plantest"
)

// TestAForeignServerThatWasMetIsToldAndLeftAlone: somebody lets another cluster's server, which
// owns all slots there, meet one of ours. From then on the operator only says so.
func TestAForeignServerThatWasMetIsToldAndLeftAlone(t *testing.T) {
	var last plan.Decision
	planner := plantest.Real
	planner.Plan = func(obs plan.Observation, target plan.Target) plan.Decision {
		last = plan.Plan(obs, target)
		return last
	}
	s := plantest.NewSimulation(world(2, 1, fault(plantest.Merge, 0, 0)), planner)
	s.Until = later + 2*time.Minute
	s.OnDeed = func(d plan.Decision) {
		if s.Model.Now() > later+5*time.Second {
			t.Errorf("%s: %s", s.Model.Now(), d)
		}
	}
	if err := s.Run(); err != nil {
		t.Log(err) // the foreign server takes our slots: no operator can undo that
	}
	if _, hold := last.Action.(plan.Hold); !hold || last.Rule != "ForeignNode" {
		t.Errorf("the last decision is %s\n%s", last, s.Model.Transcript(30))
	}
}
