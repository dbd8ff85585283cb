package plantest

import (
	"slices"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
)

// Planner is what decides, and what refuses. Mutants are planners too.
type Planner struct {
	Plan  func(plan.Observation, plan.Target) plan.Decision
	Guard func(plan.Observation, plan.Action) error
	// Act sees each command before it is sent and may change it: a wrong actor. Nil: the right one.
	Act func(plan.Action) plan.Action
}

// Real is the planner of this project.
var Real = Planner{Plan: plan.Plan, Guard: plan.Allowed}

// Operator is the controller of one cluster: it looks, plans, remembers, asks the guard, acts.
type Operator struct {
	m       *Model
	planner Planner
	// Spec is the spec in force; snapshot is the shape that a bootstrap began with.
	Spec     plan.Target
	snapshot *plan.Snapshot
	formed   bool
	attempts []attempt

	next      time.Duration // the next pass
	downUntil time.Duration
	crash     crash // how it will die in its next deed
	last      plan.Decision
	calm      bool // no fault since everything was as wanted
	// disturbed says that a fault came since a roll was asked for last.
	disturbed bool
	// disturbedUntil is when the last fault ends.
	disturbedUntil time.Duration
	check          func(plan.Observation, plan.Target, plan.Decision)
}

// crash is where in its next deed an operator dies.
type crash int

const (
	noCrash     crash = iota
	crashBefore       // the status is written, nothing is done
	crashAmid         // half of what the deed consists of is done
	crashAfter        // all is done and nobody knows
)

type attempt struct {
	plan.Attempt
	at time.Duration
}

// Target is what the planner is to reach: while a bootstrap lasts, the shape it began with.
func (o *Operator) Target() plan.Target {
	t := o.Spec
	if o.snapshot != nil {
		t.Shards, t.Replicas = o.snapshot.Shards, o.snapshot.Replicas
	}
	return t
}

func (o *Operator) observation() plan.Observation {
	obs := plan.Observation{Creating: o.snapshot != nil, Formed: o.formed, Nodes: o.m.Observe()}
	for _, a := range o.attempts {
		a.Attempt.Ago = o.m.now - a.at
		obs.Attempts = append(obs.Attempts, a.Attempt)
	}
	return obs
}

// Tick makes a pass if one is due; false if not.
func (o *Operator) Tick() bool {
	m := o.m
	if m.now < o.downUntil || m.now < o.next {
		return false
	}
	obs, target := o.observation(), o.Target()
	d := o.planner.Plan(obs, target)
	m.decided(obs, target, d)
	o.remember(plan.Remember(obs, target, d))
	o.record(obs)
	o.last = d
	o.next = m.now + 2*time.Second
	switch a := d.Action.(type) {
	case plan.Wait:
		o.next = m.now + max(a.Again, Beat)
		return true
	case plan.Hold, plan.Done:
		o.calm = o.calm || d.Rule == plan.InShape && !m.unsettled() && m.now >= o.disturbedUntil
		return true
	}
	o.next = m.now + Beat
	if err := o.planner.Guard(obs, d.Action); err != nil {
		m.violate(GuardAgrees, "%s is refused: %v", d, err)
		return true
	}
	o.check(obs, target, d)
	if m.violation == nil {
		o.act(d.Action)
	}
	return true
}

// record keeps the IDs of servers that answered in the status of their nodes.
func (o *Operator) record(obs plan.Observation) {
	for _, n := range obs.Nodes {
		if obj := o.m.object(n.Name); obj != nil && n.Server != nil && obj.knownID == "" {
			obj.knownID = n.Server.View.Self
		}
	}
}

func (o *Operator) remember(all []plan.Attempt) {
	var out []attempt
	for _, a := range all {
		out = append(out, attempt{a, o.m.now - a.Ago})
	}
	o.attempts = out
}

// dies ends the operator; the next one begins after a while and knows what was written only.
func (o *Operator) dies(d time.Duration) {
	o.m.note("the operator dies")
	o.crash = noCrash
	o.downUntil = o.m.now + d
}

func (m *Model) object(name plan.NodeName) *object {
	i := slices.IndexFunc(m.objects, func(o *object) bool { return o.name == name })
	if i < 0 {
		return nil
	}
	return m.objects[i]
}
