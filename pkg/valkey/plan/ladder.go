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
