package plantest

import (
	"fmt"
	"strings"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
)

// Scenario is a world with all that will happen to it.
type Scenario struct {
	Seed   uint64
	Traits Traits
	Start  plan.Target
	Events []Event // in order of time
}

func (s Scenario) String() string {
	out := fmt.Sprintf("seed %d: %d shards with %d replicas, %+v\n", s.Seed, s.Start.Shards, s.Start.Replicas, s.Traits)
	for _, e := range s.Events {
		out += "  " + e.String() + "\n"
	}
	return out
}

// Simulation is one run of a scenario.
type Simulation struct {
	Scenario Scenario
	Model    *Model
	Operator *Operator
	// Deeds counts what the operator did; a hook may look at each before it is done.
	Deeds  int
	OnDeed func(d plan.Decision)
	// told is when a failover of a primary was asked for last; failovers counts those that came
	// about in this roll, by scheduling index.
	told      map[command]order
	failovers map[int]int
	still     time.Duration // when the last effect of an event has ended
	// Took is how long after the last event's end the world came to its shape; Bound is how long it might take.
	Took, Bound time.Duration
	// Until ends the run early where it is not 0.
	Until time.Duration
}

// NewSimulation makes a run that has not begun.
func NewSimulation(sc Scenario, planner Planner) *Simulation {
	m := NewModel(sc.Seed, sc.Traits)
	s := &Simulation{
		Scenario: sc, Model: m, Operator: &Operator{m: m, planner: planner, Spec: sc.Start},
		told: map[command]order{}, failovers: map[int]int{},
	}
	s.Operator.check = func(obs plan.Observation, target plan.Target, d plan.Decision) {
		s.Deeds++
		s.beforeDeed(obs, target, d)
		if s.OnDeed != nil {
			s.OnDeed(d)
		}
	}
	m.onFailover = func(index int) {
		s.failovers[index]++
	}
	return s
}

// quietPasses is how many passes after the end must find nothing to do, quietPace apart.
const (
	quietPasses = 100
	quietPace   = time.Second
)

// Run goes on until the world is as wanted and stays so, or an invariant is broken: then the
// error is a *Violation.
func (s *Simulation) Run() error {
	m, op := s.Model, s.Operator
	events := s.Scenario.Events
	deadline, quiet := time.Duration(0), 0
	for m.violation == nil && (s.Until == 0 || m.now < s.Until) {
		for len(events) > 0 && s.due(events[0]) {
			s.fire(events[0])
			events = events[1:]
		}
		if len(events) == 0 && deadline == 0 && m.now >= s.still {
			s.Bound = s.bound()
			deadline = m.now + s.Bound
		}
		m.Step()
		passed := op.Tick()
		s.afterBeat()
		if deadline == 0 || !passed || m.now <= deadline && m.unsettled() {
			continue
		}
		switch {
		case op.last.Rule == plan.InShape:
			if quiet++; quiet == 1 {
				s.Took = m.now - (deadline - s.Bound)
			}
			op.next = m.now + quietPace
		case quiet > 0:
			m.violate(StaysQuiet, "after %d quiet passes: %s", quiet, op.last)
		case m.now > deadline && m.merged && holds(op.last):
			return nil // two clusters have met and the operator tells: nobody can undo that but people
		case m.now > deadline:
			m.violate(Converges, "not as wanted %s after the last event: %s", s.bound(), op.last)
		}
		if quiet == quietPasses {
			s.finish()
			break
		}
	}
	if m.violation == nil {
		return nil
	}
	return m.violation
}

func holds(d plan.Decision) bool {
	_, hold := d.Action.(plan.Hold)
	return hold
}

// unsettled says that something is still under way that nobody needs to do anything for now: a pod
// ends, or has ended and its kubelet has not told yet.
func (m *Model) unsettled() bool {
	for _, v := range m.servers {
		if v.running() && v.manual != nil {
			return true // the primary may have come back, and be replaced all the same
		}
	}
	for _, o := range m.objects {
		switch {
		case o.deleting, o.pod == nil, o.shown == nil, *o.shown != *o.pod:
			return true
		case o.pod.phase.live() && (o.pod.deleting || o.pod.server != nil && !o.pod.server.alive):
			return true
		}
	}
	return false
}

// latest is how long an event waits for its rule before it happens anyway.
const latest = time.Minute

func (s *Simulation) due(e Event) bool {
	now := s.Model.now
	return now >= e.At && (e.On == "" || s.Operator.last.Rule == e.On || now >= e.At+latest)
}

// bound is how long it may take to come to the wanted shape once nothing happens any more: each
// node that may have to be replaced costs a pod, a sync and a failover, one after the other; each
// fault an election that has to be asked for twice; a lost Kubernetes node its eviction; nodes that
// crash the longest pause between two tries.
func (s *Simulation) bound() time.Duration {
	traits := s.Scenario.Traits
	nodes := len(s.Model.objects) + s.Operator.Spec.Shards*(s.Operator.Spec.Replicas+1)
	d := 60*time.Second + time.Duration(nodes)*(6*time.Second+time.Duration(traits.SlowSync+traits.SlowStart)*Beat)
	lostHost, crashes := time.Duration(0), time.Duration(0)
	for _, e := range s.Scenario.Events {
		switch e.Kind {
		case HostDown, HostCut:
			lostHost = hostGrace + evictAfter + 2*podGrace
		case BreakJobs:
			d += time.Duration(breaks(e)) * time.Minute // the longest pause before another try
		case Edit:
			if strings.HasPrefix(e.Edit.Revision, BadConfig) {
				crashes = 5 * time.Minute
			}
		default:
			d += 4 * Timeout
		}
	}
	return d + lostHost + crashes
}

// afterBeat checks what must hold at every moment.
func (s *Simulation) afterBeat() {
	m, op := s.Model, s.Operator
	s.outcomes()
	if !op.calm || !op.formed {
		return
	}
	var served slot.Set
	for _, v := range m.servers {
		if v.running() && v.voter() && v.object != nil {
			served = served.Union(v.me().slots.set)
		}
	}
	if served.Len() < slot.Count {
		m.violate(Covered, "nobody serves slots %s and nothing but the operator was at work", slot.All().Minus(served))
	}
	if op.last.Rule == plan.InShape {
		s.checkData()
	}
}

func (s *Simulation) checkData() {
	m := s.Model
	for k := range Keys {
		o := m.ownerOf(slotOfKey(k))
		if o != nil && o.data[k] < m.floor[k] {
			m.violate(NothingLost, "key %d of slot %d is %d at %s, %d was acknowledged", k, slotOfKey(k), o.data[k], o.id, m.floor[k])
			return
		}
	}
}

// finish checks the end: the truth is what was wanted.
func (s *Simulation) finish() {
	m, want := s.Model, s.Operator.Spec
	s.checkData()
	owners, alive := 0, 0
	for _, v := range m.servers {
		if !v.running() || v.object == nil || v.object.removed {
			continue
		}
		alive++
		if v.object.revision != want.Revisions[0] || v.object.restart != want.Restart {
			m.violate(InShape, "%s is outdated", v.object.name)
		}
		if v.primary() {
			s.finishOwner(v)
			owners++
		}
	}
	if owners != want.Shards || alive != want.Shards*(want.Replicas+1) || alive != len(m.objects) {
		m.violate(InShape, "%d shards, %d servers, %d nodes; wanted %d shards with %d replicas", owners, alive, len(m.objects), want.Shards, want.Replicas)
	}
}

func (s *Simulation) finishOwner(v *server) {
	m, want := s.Model, s.Operator.Spec
	if low := slot.Count / want.Shards; v.me().slots.n < low || v.me().slots.n > low+1 {
		m.violate(InShape, "%s owns %d slots of an even share of %d", v.object.name, v.me().slots.n, low)
	}
	for _, other := range m.servers {
		if other.running() && other.object != nil && other.libraries > v.libraries && !m.functionsLost {
			m.violate(InShape, "%s has %d function libraries, %s has %d", v.object.name, v.libraries, other.object.name, other.libraries)
		}
	}
	followers := 0
	for _, r := range m.servers {
		if r.running() && r.following == v.n && r.linkUp {
			followers++
		}
	}
	if followers != want.Replicas {
		m.violate(InShape, "%s has %d replicas in sync", v.object.name, followers)
	}
	for n, p := range v.view {
		if p != nil && !m.servers[n].alive {
			m.violate(InShape, "%s still lists %s, which is dead", v.object.name, m.servers[n].id)
		}
	}
}
