package plantest

import (
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// command is a failover that can be asked for.
type command struct {
	primary int
	mode    plan.Mode
}

// order is when it was, and of whom.
type order struct {
	at      time.Duration
	replica int
}

func (s *Simulation) judgeFailover(a plan.Failover) {
	m := s.Model
	r, p := m.byID(string(a.Replica)), m.byID(string(a.Primary))
	if r == nil || p == nil || r.following != p.n {
		return
	}
	if p.alive && m.isKnownToMove(p) {
		m.violate(NoMoveFailover, "%s takes part in a running migration", p.id)
	}
	// A stronger command after a weaker one is another matter: the primary may have died since.
	key := command{p.n, a.Mode}
	if last, told := s.told[key]; told && m.now-last.at < Timeout && m.servers[last.replica].alive {
		m.violate(OneCommand, "%s of %s was asked for %s ago", a.Mode, p.id, m.now-last.at)
	}
	s.told[key] = order{m.now, r.n}
	switch a.Mode {
	case plan.Coordinated:
		if p.object != nil && (p.object.deleting || p.object.pod.deleting) {
			return // its shard is disturbed by who removes it
		}
		s.judgeOthers(p)
		if p.object != nil {
			s.judgeSecond(p.object.shard)
		}
		return
	case plan.Force:
		s.judgeForce(r, p)
	case plan.Takeover:
		s.judgeTakeover(r, p)
	}
	for _, f := range m.servers {
		if f != r && f.following == p.n && m.answers(f) && f.offset > r.offset &&
			f.object != nil && !f.object.removed && !f.object.pod.deleting && f.peer(p.n) != nil {
			m.violate(BestReplica, "%s is told to promote itself, %s has more", r.id, f.id)
		}
	}
}

// outcomes drops the forced failovers whose primary serves again and says so: if it fails then, that is another matter.
func (s *Simulation) outcomes() {
	for key := range s.told {
		if p := s.Model.servers[key.primary]; key.mode == plan.Force && p.primary() && s.Model.answers(p) {
			delete(s.told, key)
		}
	}
}

// isKnownToMove says whether slots move to or from a server: by the operator's own order, or by that of somebody else if
// one of the two servers can tell the operator.
func (m *Model) isKnownToMove(s *server) bool {
	for _, j := range s.jobs {
		if j.state == topology.Running && (!j.byHand || m.answers(j.source) || m.answers(j.target)) {
			return true
		}
	}
	return false
}

// answers says whether the operator hears of a server.
func (m *Model) answers(s *server) bool {
	return m.reaches(s) && m.now >= m.operatorCutFrom[s.host] && m.now >= s.answersAt
}

// lost is the word of design.md: there is no pod any more that could run the server.
func (s *server) lost() bool {
	o := s.object
	return o == nil || o.removed || o.pod == nil || o.gone(s.m.now)
}

// judgeForce: the primary is gone, or a majority of those who would vote finds it failing. Where
// nobody can vote the command has no effect.
func (s *Simulation) judgeForce(r, p *server) {
	m := s.Model
	if p.lost() || !p.primary() {
		return
	}
	against, voters := 0, 0
	for _, v := range m.servers {
		if !v.voter() || v == p || !m.connected(r, v) {
			continue
		}
		voters++
		if q := v.peer(p.n); q == nil || q.pfail || q.fail {
			against++
		}
	}
	if m.connected(r, p) || voters > 0 && 2*against <= voters {
		m.violate(NoForce, "the process of %s is not ended and %d of %d others find it failing", p.id, against, voters)
	}
}

// judgeTakeover: half or more of the owners must be unable to vote for the replica, by its own view, which counts the votes.
func (s *Simulation) judgeTakeover(r, p *server) {
	m := s.Model
	owners, out := 0, 0
	for n, q := range r.view {
		if q == nil || q.slots.n == 0 {
			continue
		}
		owners++
		if v := m.servers[n]; !m.connected(r, v) || !v.voter() || v.peer(p.n) == nil {
			out++
		}
	}
	serves := p.primary() && !p.lost() && m.connected(r, p)
	if serves || 2*out < owners {
		m.violate(TakeoverOnly, "%d of %d owners cannot vote for %s", out, owners, r.id)
	}
}

func (s *Simulation) judgeSecond(index int) {
	if s.failovers[index] > 0 && !s.Operator.disturbed {
		s.Model.violate(OneFailover, "shard %d is failed over again", index)
	}
}

func (s *Simulation) judgeMeet(a plan.Meet) {
	m := s.Model
	v := m.byID(string(a.ID))
	if v == nil || v.me().epoch > 0 || v.known() > 1 {
		return
	}
	for _, other := range m.servers {
		// What does not answer yet, and what has no node any more, the operator cannot know.
		if other == v || !m.answers(other) || other.object == nil || other.object.removed || other.object.gone(m.now) {
			continue
		}
		if max(other.me().epoch, other.current) >= a.Epoch {
			m.violate(JoinsAbove, "%s joins at epoch %d, %s knows epoch %d", a.ID, a.Epoch, other.id, max(other.me().epoch, other.current))
		}
	}
}

// judgeComplete: all slots are served and every owner has its replicas in sync.
func (s *Simulation) judgeComplete(target plan.Target) {
	m := s.Model
	var served slot.Set
	owners := 0
	for _, v := range m.servers {
		if !v.running() || !v.voter() || v.object == nil || v.object.removed {
			continue
		}
		served = served.Union(v.me().slots.set)
		owners++
		n := 0
		for _, r := range m.servers {
			if r.running() && r.following == v.n && r.linkUp {
				n++
			}
		}
		if n < target.Replicas {
			m.violate(FormedWhole, "%s has %d replicas in sync", v.id, n)
		}
	}
	if served.Len() < slot.Count || owners != target.Shards {
		m.violate(FormedWhole, "%d slots are served by %d primaries", served.Len(), owners)
	}
}

func (s *Simulation) judgeMoves(target plan.Target, a plan.MoveSlots) {
	m := s.Model
	pairs := map[string]bool{}
	total := 0
	for _, v := range a.Moves {
		key := string(v.From) + ">" + string(v.To)
		if pairs[key] {
			m.violate(OneJobAPair, "%s has two jobs", key)
		}
		pairs[key] = true
		total += v.Slots.Len()
		if from := m.byID(string(v.From)); from != nil {
			s.judgeRetry(from, v)
		}
	}
	if most := s.surplus(target); total > most {
		m.violate(FewMoves, "%d slots move where %d would do", total, most)
	}
}

// judgeRetry: the newest job of the pair, if it failed, ended a second ago at least.
func (s *Simulation) judgeRetry(from *server, v plan.Move) {
	m := s.Model
	for _, j := range from.jobs {
		if j.source != from || j.target.id != v.To || j.byHand {
			continue
		}
		if j.state == topology.Failed && m.now-j.created < time.Second {
			m.violate(BacksOff, "%s failed %s after it was asked for, and is tried again", j.name, j.updated-j.created)
		}
		return
	}
}

// surplus is how many slots must move: all of leaving shards, and what is above the even share.
func (s *Simulation) surplus(target plan.Target) int {
	m := s.Model
	leaving, over := 0, 0
	for _, v := range m.servers {
		if !v.alive || v.object == nil || v.object.removed || !v.primary() {
			continue
		}
		n := v.me().slots.n
		if v.object.lifecycle == plan.Leaving {
			leaving += n
			continue
		}
		over += max(n-slot.Count/max(target.Shards, 1), 0)
	}
	return leaving + over
}
