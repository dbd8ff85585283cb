package plan

// RuleName says what trouble a rule is about. It is the reason of the condition and of the
// Event, and the label of the metric, so it never changes once released.
type RuleName string

// Decision is the answer: the rule that gave it, its reason in words, and the one action.
// Action is never nil.
type Decision struct {
	Rule   RuleName
	Why    string
	Action Action
}

func (d Decision) String() string { return string(d.Rule) + ": " + d.Action.String() + " — " + d.Why }

// Verdict is one rule's answer for people; Action is nil where the rule had nothing to say.
type Verdict struct {
	Group  Group
	Rule   RuleName
	Why    string
	Action Action
}

// Group is a part of the ladder; the order of the groups is the contract's (§6).
type Group string

// The groups, in the order of the ladder.
const (
	Safety    Group = "safety"    // look, or ask a person, before anything is touched
	Bootstrap Group = "bootstrap" // while no live node owns a slot
	Stability Group = "stability" // a healthy primary for every shard, then its replicas
	Topology  Group = "topology"  // as many shards as wanted, slots even
	Updates   Group = "updates"   // roll outdated nodes
	Cleanup   Group = "cleanup"   // what nobody needs
)

// answer is what a rule says; the zero answer is "not my case".
type answer struct {
	action Action
	why    string
}

type rule struct {
	name RuleName
	ask  func(*picture) answer
}

// rung is one group of the ladder with its rules in order.
type rung struct {
	group Group
	rules []rule
}

// safety rules stop everything below them.
var safety = rung{Safety, []rule{
	{"Paused", (*picture).holdWhilePaused},
	{"ForeignNode", (*picture).holdBeforeStrangers},
	{"SplitCluster", (*picture).holdBeforeRivals},
	{"NodeSilent", (*picture).awaitMemory},
}}

// bootstrap rules form a cluster from nothing; the first that answers wins, waits included:
// no node is met before every pod runs. As soon as a live node owns slots, the facts are those
// of a cluster, and the other groups go on (they know how to assign, attach and complete).
var bootstrap = rung{Bootstrap, []rule{
	{"NoCluster", (*picture).begin},
	{"UnwantedNode", (*picture).dropUnborn},
	{"DeadNode", (*picture).dropDead},
	{"CrashedNode", (*picture).retryCrashed},
	{"DepartedMember", (*picture).forgetDeparted},
	{"StrandedNode", (*picture).dropStranded},
	{"MissingNodes", (*picture).createMissing},
	{"EngineTooOld", (*picture).refuseOld},
	{"NodeNotRunning", (*picture).awaitNodes},
	{"NodeSilent", (*picture).awaitSilent},
	{"SeedWithoutEpoch", (*picture).seedEpoch},
	{"UnknownNode", (*picture).meetMissing},
	{"UnassignedSlots", (*picture).giveSlots},
}}

// stability rules are repairs. Here a deed outranks a wait: one shard's wait does not hold up
// another's repair; but what waits here holds up every later group.
var stability = rung{Stability, []rule{
	{"PrimaryDown", (*picture).promote},
	{"PrimaryEnding", (*picture).handOver},
	{"UnwantedNode", (*picture).dropUnborn},
	{"DepartedMember", (*picture).forgetDeparted},
	{"DeadNode", (*picture).dropDead},
	{"CrashedNode", (*picture).retryCrashed},
	{"StrandedNode", (*picture).dropStranded},
	{"UnknownNode", (*picture).meetMissing},
	{"UnassignedSlots", (*picture).giveSlots},
	{"MissingNodes", (*picture).repairStrength},
	{"UnattachedReplica", (*picture).attachReplicas},
	{"EngineTooOld", (*picture).refuseOld},
	{"NodeNotRunning", (*picture).awaitNodes},
	{"NodeEnding", (*picture).awaitEnding},
	{"NodeSilent", (*picture).awaitSilent},
	{"ViewsDisagree", (*picture).awaitAgreement},
	{"ReplicaNotInSync", (*picture).awaitSync},
	{"NodeJoined", (*picture).welcome},
	{"Formed", (*picture).complete},
}}

var topologyRules = rung{Topology, []rule{
	{"SlotsMoving", (*picture).awaitMoves},
	{"ShardCount", (*picture).chooseLeaving},
	{"DrainedShard", (*picture).retireDrained},
	{"SlotsUneven", (*picture).rebalance},
	{"MissingShards", (*picture).addShards},
}}

var updates = rung{Updates, []rule{
	{"OutdatedNodes", (*picture).roll},
}}

var cleanup = rung{Cleanup, []rule{
	{"ExcessReplicas", (*picture).dropExcess},
	{"IdleNodes", (*picture).dropIdle},
}}

// InShape is the rule that answers when no other did.
const InShape RuleName = "InShape"

// ladder chooses the rules from facts, never from a recorded state.
func ladder(p *picture) []rung {
	if !p.hasData() {
		return []rung{safety, bootstrap}
	}
	return []rung{safety, stability, topologyRules, updates, cleanup}
}

// Plan answers with the one next action. Of two troubles the higher rule answers.
func Plan(obs Observation, target Target) Decision {
	p := look(obs, target)
	for _, g := range ladder(p) {
		var waiting *Decision
		for _, r := range g.rules {
			a := r.ask(p)
			if a.action == nil {
				continue
			}
			d := Decision{r.name, a.why, a.action}
			if g.group != Stability || IsDeed(a.action) && allowedWhileWaiting(waiting, a.action) {
				return d
			}
			if waiting == nil {
				waiting = &d
			}
		}
		if waiting != nil {
			return *waiting
		}
	}
	return Decision{InShape, "nothing differs from the target", Done{}}
}

// allowedWhileWaiting keeps the last steps of joining in order: a cluster is not complete,
// and a node has not joined, while anything is awaited.
func allowedWhileWaiting(waiting *Decision, a Action) bool {
	switch a.(type) {
	case SetLifecycle, Complete:
		return waiting == nil
	}
	return true
}

// Trace is every rule's answer, for people.
func Trace(obs Observation, target Target) []Verdict {
	p := look(obs, target)
	var out []Verdict
	for _, g := range ladder(p) {
		for _, r := range g.rules {
			a := r.ask(p)
			out = append(out, Verdict{g.group, r.name, a.why, a.action})
		}
	}
	return out
}
