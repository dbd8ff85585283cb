package plan_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan/plantest"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// mutant is a wrong planner: what it sees or what it decides is not as it should be. The
// simulation must find it out by one of the invariants in `caught`.
type mutant struct {
	name   string
	world  plantest.Scenario
	see    func(plan.Observation, plan.Target) (plan.Observation, plan.Target)
	decide func(plan.Observation, plan.Target, plan.Decision) plan.Decision
	guard  bool // the guard is on duty: it is the one to catch this mutant
	caught []string
}

func (m mutant) planner() plantest.Planner {
	p := plantest.Planner{
		Plan: func(obs plan.Observation, target plan.Target) plan.Decision {
			seen, wanted := obs, target
			if m.see != nil {
				seen, wanted = m.see(obs, target)
			}
			d := plan.Plan(seen, wanted)
			if m.decide != nil {
				d = m.decide(obs, target, d)
			}
			return d
		},
		Guard: func(plan.Observation, plan.Action) error { return nil },
	}
	if m.guard {
		p.Guard = plan.Allowed
	}
	return p
}

// TestMutants: every wrong planner that engine.md and faults.md warn of is caught by name, and
// the right one passes in the same worlds.
func TestMutants(t *testing.T) {
	all := slices.Concat(failoverMutants, repairMutants, scaleMutants, rollMutants, formMutants)
	if len(all) < 20 {
		t.Fatalf("only %d mutants", len(all))
	}
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			if err := plantest.NewSimulation(m.world, plantest.Real).Run(); err != nil {
				t.Fatalf("the right planner fails in this world: %v", err)
			}
			// A mutant may be lucky: chance is drawn anew a few times.
			var err error
			for range 8 {
				if err = plantest.NewSimulation(m.world, m.planner()).Run(); err != nil {
					break
				}
				m.world.Seed++
			}
			var found *plantest.Violation
			if !errors.As(err, &found) {
				t.Fatal("nothing catches it")
			}
			if !slices.Contains(m.caught, found.Name) {
				t.Errorf("caught by another invariant than %q: %v", strings.Join(m.caught, ", "), found)
			}
		})
	}
}

// world is a friendly one: 3 hosts, prompt syncs; the seed decides the rest.
func world(shards, replicas int, events ...plantest.Event) plantest.Scenario {
	return plantest.Scenario{
		Seed: 7, Traits: plantest.Traits{Hosts: 3, OneSided: 5, Lost: 5, SlowSync: 8, Libraries: 1},
		Start:  plan.Target{Shards: shards, Replicas: replicas, Revisions: []string{"r0"}, Failover: plan.FailoverFast, NodeTimeout: plantest.Timeout},
		Events: events,
	}
}

// later is when the cluster has formed.
const later = 40 * time.Second

func fault(kind plantest.Kind, n int, lasting time.Duration) plantest.Event {
	return plantest.Event{At: later, Kind: kind, N: n, For: lasting}
}

func edit(c plantest.Change) plantest.Event {
	return plantest.Event{At: later, Kind: plantest.Edit, Edit: c}
}

func native(sc plantest.Scenario) plantest.Scenario {
	sc.Start.Failover = plan.FailoverNative
	return sc
}

func replicas(n int) *int { return &n }

// seen copies an observation so that a mutant may see things differently.
func seen(obs plan.Observation) plan.Observation {
	obs.Nodes = slices.Clone(obs.Nodes)
	for i := range obs.Nodes {
		if s := obs.Nodes[i].Server; s != nil {
			copied := *s
			copied.View.Peers = slices.Clone(s.View.Peers)
			obs.Nodes[i].Server = &copied
		}
	}
	return obs
}

// find is the first node that fits; nil if none does.
func find(obs plan.Observation, fits func(plan.Node) bool) *plan.Node {
	for i := range obs.Nodes {
		if fits(obs.Nodes[i]) {
			return &obs.Nodes[i]
		}
	}
	return nil
}

func me(n plan.Node) topology.Peer {
	if n.Server == nil {
		return topology.Peer{}
	}
	return n.Server.View.Me()
}

func owns(n plan.Node) bool { return len(me(n).Slots) > 0 }

func follows(id topology.NodeID) func(plan.Node) bool {
	return func(n plan.Node) bool { return n.Server != nil && id != "" && me(n).PrimaryID == id }
}

// instead makes a decision of another action.
func instead(d plan.Decision, a plan.Action) plan.Decision {
	d.Action = a
	return d
}
