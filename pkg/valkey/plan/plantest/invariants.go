package plantest

import (
	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
)

// The invariants by name. Each is checked against what is true in the model, not against what
// the operator saw.
const (
	GuardAgrees    = "the guard agrees with the planner"
	NoDeedPaused   = "no deed while paused"
	OwnerStays     = "no owner of slots is removed"
	SyncedFirst    = "a replacement is in sync before a replica retires"
	OneShard       = "one shard is disturbed at a time"
	OneFailover    = "at most one failover a shard a roll"
	LivingStay     = "no living node is forgotten"
	HeirFirst      = "no dead primary is forgotten before its replica is promoted"
	OneNodeASeat   = "one node for one seat"
	SlotsStay      = "no slot is given away while its owner may be alive"
	TakeoverOnly   = "takeover only without a quorum"
	NoForce        = "no forced failover while the primary serves"
	BestReplica    = "the replica with the most data is promoted"
	OneCommand     = "one failover command, then its outcome is awaited"
	NoMoveFailover = "no failover while slots move"
	OneJobAPair    = "one migration job for a source and target"
	FewMoves       = "no slot moves that need not"
	BacksOff       = "a failed migration is not retried at once"
	JoinsAbove     = "a newcomer joins above every config epoch"
	FormedWhole    = "a cluster is whole when it is called formed"
	Covered        = "the operator never reduces slot coverage"
	NothingLost    = "no acknowledged write is lost"
	Converges      = "converges within the bound"
	StaysQuiet     = "stays quiet once converged"
	InShape        = "ends in the wanted shape"
)

// beforeDeed judges a deed by the truth.
func (s *Simulation) beforeDeed(obs plan.Observation, target plan.Target, d plan.Decision) {
	m := s.Model
	if target.Paused {
		m.violate(NoDeedPaused, "%s", d)
	}
	switch a := d.Action.(type) {
	case plan.RemoveNodes:
		s.judgeRemoval(target, d.Rule, a)
	case plan.Failover:
		s.judgeFailover(a)
	case plan.Forget:
		s.judgeForget(a)
	case plan.Assign:
		s.judgeAssign(a)
	case plan.CreateNodes:
		s.judgeCreate(target, a)
	case plan.MoveSlots:
		s.judgeMoves(target, a)
	case plan.Meet:
		s.judgeMeet(a)
	case plan.Complete:
		s.judgeComplete(target)
	}
}

func (s *Simulation) judgeRemoval(target plan.Target, rule plan.RuleName, a plan.RemoveNodes) {
	m := s.Model
	going := map[*object]bool{}
	for _, r := range a.Nodes {
		going[m.object(r.Node)] = true
	}
	for _, r := range a.Nodes {
		o := m.object(r.Node)
		if o == nil || o.pod == nil || o.pod.server == nil || !o.pod.server.alive || o.gone(m.now) {
			continue
		}
		v := o.pod.server
		if v.voter() {
			m.violate(OwnerStays, "%s owns %s", r.Node, v.me().slots.set)
		}
		if v.primary() || !v.linkUp || o.lifecycle == plan.Leaving {
			continue
		}
		p := m.servers[v.following]
		if !p.running() || !p.voter() {
			continue
		}
		left := 0
		for _, f := range m.servers {
			if f.running() && f.following == p.n && f.linkUp && f.object != nil && !f.object.deleting && !going[f.object] {
				left++
			}
		}
		if left < target.Replicas {
			m.violate(SyncedFirst, "%s retires and leaves %d replicas in sync of %d", r.Node, left, target.Replicas)
		}
		if rule == "OutdatedNodes" || rule == "ExcessReplicas" {
			s.judgeOthers(p)
		}
	}
}

// judgeOthers: a voluntary deed in one shard needs all others whole.
func (s *Simulation) judgeOthers(touched *server) {
	m := s.Model
	for _, o := range m.objects {
		if o.pod == nil || o.deleting || o.lifecycle != plan.Active {
			continue
		}
		v := o.pod.server
		switch {
		case v == nil || v == touched || v.following == touched.n:
		case !v.alive, !v.primary() && !v.linkUp && m.servers[v.following].voter():
			m.violate(OneShard, "the shard of %s is touched while %s is not whole", touched.id, o.name)
		}
	}
}

func (s *Simulation) judgeForget(a plan.Forget) {
	m := s.Model
	v := m.byID(string(a.ID))
	if v != nil && v.alive && v.object != nil && !v.object.removed && !v.object.gone(m.now) {
		m.violate(LivingStay, "%s is alive", a.ID)
	}
	for _, r := range m.servers {
		if v != nil && r.following == v.n && r.inherits() && !r.lost() {
			m.violate(HeirFirst, "%s may still become the heir of %s", r.id, a.ID)
		}
	}
}

func (s *Simulation) judgeAssign(a plan.Assign) {
	m := s.Model
	for _, v := range m.servers {
		if !v.alive || string(v.id) == string(a.Primary) || !v.voter() || v.object == nil || v.object.removed || v.object.gone(m.now) {
			continue
		}
		if taken := v.me().slots.set.Intersect(a.Slots); !taken.Empty() {
			m.violate(SlotsStay, "%s owns %s and is alive", v.id, taken)
		}
	}
}

func (s *Simulation) judgeCreate(target plan.Target, a plan.CreateNodes) {
	m := s.Model
	want := map[int]int{}
	for _, n := range a.Nodes {
		want[n.Shard]++
	}
	for index, n := range want {
		owners, heirs, rolling := map[int]bool{}, 0, 0
		for _, o := range m.objects {
			// A node that cannot start keeps its seat until it is tried again, after a pause.
			hopeless := o.pod != nil && o.pod.crashed && o.knownID == "" && o.revision == target.Revisions[0] && o.restart == target.Restart
			if o.shard != index || o.deleting || o.lifecycle == plan.Leaving || o.pod != nil && o.gone(m.now) && !hopeless {
				continue
			}
			if o.pod != nil && o.pod.server != nil && o.pod.server.voter() {
				owners[o.pod.server.n] = true
			}
			if o.pod != nil && o.pod.deleting {
				continue // its successor gets a seat while it ends
			}
			n++
			if o.pod != nil && o.pod.server != nil && o.pod.server.inherits() {
				heirs++
			}
			if o.revision != target.Revisions[0] || o.restart != target.Restart {
				rolling = 1
			}
		}
		if len(owners) > 0 {
			n -= heirs // theirs is another shard of this index, which nobody can join yet
		}
		if seats := (target.Replicas + 1) * max(len(owners), 1); n > seats+rolling {
			m.violate(OneNodeASeat, "%d nodes for the %d seats of shard %d", n, seats, index)
		}
	}
}

// inherits says whether the server is a replica of a dead owner whose slots nobody else has: of them it will make a shard.
func (s *server) inherits() bool {
	if s.primary() || !s.alive || s.m.servers[s.following].alive || s.peer(s.following) == nil {
		return false
	}
	left := s.peer(s.following).slots.set
	for _, v := range s.m.servers {
		if v.alive && v.voter() && v.object != nil {
			left = left.Minus(v.me().slots.set)
		}
	}
	return !left.Empty()
}
