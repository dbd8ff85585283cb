package plan_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan/plantest"
)

var exhaustive = flag.Bool("exhaustive", false, "run all single faults at all steps; without it, some of each course")

// sampling is which part of the search is run without the flag.
const sampling = 211

// course is one of the things that an operator does with a cluster.
type course struct {
	name string
	// begin is when it begins; what is done before is not searched.
	begin time.Duration
	world func(shards, replicas int) plantest.Scenario
}

var courses = []course{
	{"bootstrap", 0, func(shards, replicas int) plantest.Scenario { return world(shards, replicas) }},
	{"scale-out", later, func(shards, replicas int) plantest.Scenario {
		return world(shards, replicas, edit(plantest.Change{Shards: shards + 1}))
	}},
	{"scale-in", later, func(shards, replicas int) plantest.Scenario {
		return world(shards+1, replicas, edit(plantest.Change{Shards: shards}))
	}},
	{"roll", later, func(shards, replicas int) plantest.Scenario {
		return world(shards, replicas, edit(plantest.Change{Revision: "r1"}))
	}},
}

// searched are the faults of the search: each hits each server, pod or host that it can hit.
var searched = []plantest.Event{
	{Kind: plantest.KillPrimary}, {Kind: plantest.KillReplica}, {Kind: plantest.KillNewest}, {Kind: plantest.KillShard},
	{Kind: plantest.KillAll}, {Kind: plantest.DeletePod}, {Kind: plantest.ForceDelete}, {Kind: plantest.DeleteAll}, {Kind: plantest.Drain},
	{Kind: plantest.Sleep, For: 3 * time.Second}, {Kind: plantest.Sleep, For: 20 * time.Second},
	{Kind: plantest.HostCut, For: 20 * time.Second}, {Kind: plantest.HostDown}, {Kind: plantest.BreakJobs},
	{Kind: plantest.CrashBefore}, {Kind: plantest.CrashAmid}, {Kind: plantest.CrashAfter}, {Kind: plantest.CutOperator, For: 15 * time.Second},
}

// TestEverySingleFault runs each course once undisturbed, then again with one fault right
// before each of its deeds: every fault, every victim.
func TestEverySingleFault(t *testing.T) {
	shapes := [][2]int{{1, 0}, {1, 1}, {2, 0}, {2, 1}, {3, 0}, {3, 1}}
	i := 0
	for _, c := range courses {
		for _, shape := range shapes {
			t.Run(fmt.Sprintf("%s of %d×%d", c.name, shape[0], shape[1]+1), func(t *testing.T) {
				sc := c.world(shape[0], shape[1])
				for _, at := range deeds(t, sc, c.begin) {
					for _, fault := range searched {
						for n := range victims(fault.Kind, shape) {
							if i++; !*exhaustive && i%sampling != 0 {
								continue
							}
							fault.At, fault.N = at, n
							t.Run(fmt.Sprint(fault), func(t *testing.T) {
								t.Parallel()
								one := sc
								one.Events = append(append([]plantest.Event{}, sc.Events...), fault)
								s := plantest.NewSimulation(one, plantest.Real)
								if err := s.Run(); err != nil {
									t.Errorf("%v\n%s\n%s", err, one, s.Model.Transcript(60))
								}
							})
						}
					}
				}
			})
		}
	}
}

// deeds are the moments right before each deed of an undisturbed run.
func deeds(t *testing.T, sc plantest.Scenario, from time.Duration) []time.Duration {
	var out []time.Duration
	s := plantest.NewSimulation(sc, plantest.Real)
	s.OnDeed = func(plan.Decision) {
		if at := s.Model.Now() - plantest.Beat; at >= from {
			out = append(out, at)
		}
	}
	if err := s.Run(); err != nil {
		t.Fatalf("undisturbed: %v\n%s", err, s.Model.Transcript(60))
	}
	if len(out) < 3 {
		t.Fatalf("only %d deeds", len(out))
	}
	return out
}

// victims counts whom a fault can hit.
func victims(kind plantest.Kind, shape [2]int) int {
	n := 1
	switch kind {
	case plantest.KillPrimary, plantest.KillShard:
		n = shape[0]
	case plantest.KillReplica:
		n = shape[0] * shape[1]
	case plantest.DeletePod, plantest.ForceDelete, plantest.Sleep:
		n = shape[0] * (shape[1] + 1)
	case plantest.Drain, plantest.HostCut, plantest.HostDown, plantest.CutOperator:
		n = 3
	case plantest.BreakJobs:
		n = 6 // how many jobs fail
	}
	return n
}
