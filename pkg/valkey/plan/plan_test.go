package plan_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan/plantest"
)

// collect runs some simulations and gives every tenth of the worlds that were looked at.
func collect(seeds int) []plan.World {
	var out []plan.World
	n := 0
	planner := plantest.Real
	planner.Plan = func(obs plan.Observation, target plan.Target) plan.Decision {
		if n++; n%10 == 0 {
			out = append(out, plan.World{Observation: obs, Target: target})
		}
		return plan.Plan(obs, target)
	}
	for seed := range seeds {
		s := plantest.NewSimulation(plantest.RandomScenario(uint64(seed)+1), planner)
		s.Until = 90 * time.Second
		_ = s.Run() // TestSimulation is where it must succeed
	}
	return out
}

// TestPlanIsPure: planning changes nothing that it is given, gives the same answer to the same
// question, and does not depend on the order in which nodes and peers are listed.
func TestPlanIsPure(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, w := range collect(8) {
		before := w.String()
		want := plan.Plan(w.Observation, w.Target)
		_ = plan.Trace(w.Observation, w.Target)
		_ = plan.Remember(w.Observation, w.Target, want)
		_ = plan.Allowed(w.Observation, want.Action)
		if diff := cmp.Diff(before, w.String()); diff != "" {
			t.Fatalf("planning changed what it was given (-before +after):\n%s", diff)
		}
		if got := plan.Plan(w.Observation, w.Target); !reflect.DeepEqual(want, got) {
			t.Fatalf("the same world, another decision: %s, then %s\n%s", want, got, before)
		}
		mixed := seen(w.Observation)
		r.Shuffle(len(mixed.Nodes), func(i, j int) { mixed.Nodes[i], mixed.Nodes[j] = mixed.Nodes[j], mixed.Nodes[i] })
		for _, n := range mixed.Nodes {
			if n.Server != nil {
				p := n.Server.View.Peers
				r.Shuffle(len(p), func(i, j int) { p[i], p[j] = p[j], p[i] })
			}
		}
		if got := plan.Plan(mixed, w.Target); !reflect.DeepEqual(want, got) {
			t.Fatalf("shuffled, another decision: %s, then %s\n%s", want, got, before)
		}
	}
}

// TestWorldsComeBackFromTheirText: what the operator logs is what a test reads.
func TestWorldsComeBackFromTheirText(t *testing.T) {
	for _, w := range collect(4) {
		again, err := plan.ParseWorld(w.String())
		if err != nil {
			t.Fatalf("%v\n%s", err, w)
		}
		if diff := cmp.Diff(w, again); diff != "" {
			t.Fatalf("the world is another one (-want +got):\n%s\n%s", diff, w)
		}
	}
}

// FuzzParseWorld: no text makes the parser or the planner panic, and what can be read can be
// written and read again.
func FuzzParseWorld(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txt")
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, c := range cases(string(raw)) {
			f.Add(c.world)
		}
	}
	f.Add("target shards=0 replicas=-1\nnode a shard=-1 id=A pod=what\npeer A of=A replica slots=0-99999\nsees a -A\n")
	f.Add("node a id=A\njob a - source=A target=B slots=7 state=running export\nattempt SlotsUneven A>B count=99 ago=-1s\nformed")
	f.Fuzz(func(t *testing.T, text string) {
		w, err := plan.ParseWorld(text)
		if err != nil {
			return
		}
		if w.Target.Shards > 1000 || w.Target.Replicas > 1000 {
			return // the API refuses more; a plan of them only takes memory
		}
		d := plan.Plan(w.Observation, w.Target)
		if d.Action == nil {
			t.Fatal("a decision without an action")
		}
		_ = plan.Allowed(w.Observation, d.Action)
		_ = plan.Remember(w.Observation, w.Target, d)
		if _, err := plan.ParseWorld(w.String()); err != nil {
			t.Fatalf("%v\nread from:\n%s\nwritten:\n%s", err, text, w)
		}
	})
}

// BenchmarkPlan is one decision for a whole cluster; the goals are 1 ms for 30 nodes and 20 ms
// for 300.
func BenchmarkPlan(b *testing.B) {
	for _, nodes := range []int{30, 300} {
		w := plantest.Formed(nodes/3, 2)
		rolled := w.Target
		rolled.Revisions = []string{"new"}
		wider := w.Target
		wider.Shards++
		for _, c := range []struct {
			name   string
			target plan.Target
		}{{"idle", w.Target}, {"roll", rolled}, {"scale", wider}} {
			b.Run(fmt.Sprintf("%d nodes/%s", nodes, c.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					plan.Plan(w.Observation, c.target)
				}
			})
		}
	}
}
