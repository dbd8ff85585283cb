package plan_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan/plantest"
)

// TestTheLadderHasTheContractsOrder: stability, topology, updates, cleanup (contract §6). Whoever
// adds a rule says here where it stands.
func TestTheLadderHasTheContractsOrder(t *testing.T) {
	order := func(w plan.World) string {
		var b strings.Builder
		for _, v := range plan.Trace(w.Observation, w.Target) {
			b.WriteString(string(v.Group) + " " + string(v.Rule) + "\n")
		}
		return b.String()
	}
	const safety = "safety Paused\nsafety ForeignNode\nsafety SplitCluster\nsafety NodeSilent\n"
	formed := safety + `stability PrimaryDown
stability PrimaryEnding
stability UnwantedNode
stability DepartedMember
stability DeadNode
stability CrashedNode
stability StrandedNode
stability UnknownNode
stability UnassignedSlots
stability MissingNodes
stability UnattachedReplica
stability EngineTooOld
stability NodeNotRunning
stability NodeEnding
stability NodeSilent
stability ViewsDisagree
stability ReplicaNotInSync
stability NodeJoined
stability Formed
topology SlotsMoving
topology ShardCount
topology DrainedShard
topology SlotsUneven
topology MissingShards
updates OutdatedNodes
cleanup ExcessReplicas
cleanup IdleNodes
`
	if diff := cmp.Diff(formed, order(plantest.Formed(3, 1))); diff != "" {
		t.Errorf("the ladder of a cluster (-want +got):\n%s", diff)
	}
	beginning := safety + `bootstrap NoCluster
bootstrap UnwantedNode
bootstrap DeadNode
bootstrap CrashedNode
bootstrap DepartedMember
bootstrap StrandedNode
bootstrap MissingNodes
bootstrap EngineTooOld
bootstrap NodeNotRunning
bootstrap NodeSilent
bootstrap SeedWithoutEpoch
bootstrap UnknownNode
bootstrap UnassignedSlots
`
	if diff := cmp.Diff(beginning, order(plan.World{Target: plan.Target{Shards: 1}})); diff != "" {
		t.Errorf("the ladder of a bootstrap (-want +got):\n%s", diff)
	}
}

// TestOfTwoTroublesTheHigherRuleAnswers: each world of testdata/ladder.txt has two troubles; its
// title names their rules, and the first of them must answer.
func TestOfTwoTroublesTheHigherRuleAnswers(t *testing.T) {
	raw, err := os.ReadFile("testdata/ladder.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases(string(raw)) {
		t.Run(c.title, func(t *testing.T) {
			higher, lower, found := strings.Cut(c.title, " before ")
			if !found {
				t.Fatal("the title names no two rules")
			}
			w, err := plan.ParseWorld(c.world)
			if err != nil {
				t.Fatal(err)
			}
			answers := map[string]bool{}
			for _, v := range plan.Trace(w.Observation, w.Target) {
				answers[string(v.Rule)] = v.Action != nil
			}
			if !answers[higher] || !answers[lower] {
				t.Errorf("%s answers: %t, %s answers: %t; both should\n%s", higher, answers[higher], lower, answers[lower], trace(w))
			}
			if d := plan.Plan(w.Observation, w.Target); string(d.Rule) != higher {
				t.Errorf("the decision is %s\n%s", d, trace(w))
			}
		})
	}
}
