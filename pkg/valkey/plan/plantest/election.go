package plantest

import (
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
)

// election is a replica's way to the votes of the primaries.
type election struct {
	at    time.Duration // when it asks for votes
	retry time.Duration // before that it does not ask again
}

// manual is a CLUSTER FAILOVER under way.
type manual struct {
	at, ends time.Duration
	force    bool
}

// elect lets replicas of failed primaries, and those that were told to, ask for votes.
func (m *Model) elect() {
	for _, r := range m.servers {
		if !r.running() || r.primary() {
			continue
		}
		if r.manual != nil {
			r.failOver()
			continue
		}
		p := r.peer(r.following)
		if p == nil || !p.fail || p.slots.n == 0 {
			r.election = nil
			continue
		}
		switch e := r.election; {
		case e == nil:
			delay := m.beats(2, 4) + time.Duration(r.rank())*time.Second
			r.election = &election{at: m.now + delay, retry: m.now + delay + 4*Timeout}
		case m.now >= e.retry:
			r.election = nil
		case e.at != 0 && m.now >= e.at:
			e.at = 0
			if r.askForVotes(false) {
				r.promote("elected")
			}
		}
	}
}

// rank counts the other replicas of the same primary that have more data.
func (r *server) rank() int {
	n := 0
	for _, s := range r.m.servers {
		if s != r && s.running() && s.following == r.following && s.offset > r.offset {
			n++
		}
	}
	return n
}

// failOver goes on with a CLUSTER FAILOVER: forced, or once the primary has paused its
// writes and the replica has all of them.
func (r *server) failOver() {
	mf, m := r.manual, r.m
	if m.now >= mf.ends {
		r.manual = nil
		return
	}
	if m.now < mf.at {
		return
	}
	if !mf.force {
		p := m.servers[r.following]
		if !r.linkUp || !m.connected(r, p) || !p.primary() {
			return
		}
		p.breakJobs("failover")
		r.data, r.offset, r.libraries = p.data, p.offset, p.libraries
	}
	mf.at = m.now + 2*Timeout // one round of votes
	if !r.askForVotes(true) {
		return
	}
	word := "failed over"
	if mf.force {
		word = "forced"
	}
	r.promote(word)
}

// askForVotes begins an epoch of its own and counts the votes of the primaries.
func (r *server) askForVotes(force bool) bool {
	m := r.m
	r.current++
	votes, owners := 0, r.owners()
	for _, v := range m.servers {
		if p := r.peer(v.n); p == nil || !m.connected(r, v) || m.now < m.deafUntil {
			continue
		}
		if v.vote(r, force) {
			votes++
		}
	}
	return votes > owners/2
}

// votesAfter is how long after its start a primary finds it unsafe to vote (measured on 9.1.2).
const votesAfter = 2 * time.Second

// vote is refused for every reason that a real primary has. Who asks for slots that another one has claimed since is told of it;
// in pings nobody tells a replica.
func (v *server) vote(r *server, force bool) bool {
	asks := v.peer(r.n)
	if !v.voter() || asks == nil || r.current < v.current || v.m.now-v.bornAt < votesAfter {
		return false
	}
	v.current = r.current
	if v.lastVote >= r.current || !asks.replica || asks.of != r.following {
		return false
	}
	lost := v.peer(r.following)
	if lost == nil || !lost.fail && !force {
		return false
	}
	if when, voted := v.voted[r.following]; voted && v.m.now-when < 2*Timeout {
		return false
	}
	claimed := r.peer(r.following)
	for n, q := range v.view {
		if q == nil || n == r.following || q.slots.n == 0 || q.epoch <= claimed.epoch {
			continue
		}
		overlap := q.claims().Intersect(claimed.slots.set)
		if !overlap.Empty() {
			r.update(n, q)
			return false
		}
	}
	v.lastVote = r.current
	v.voted[r.following] = v.m.now
	return true
}

// promote makes the replica the owner of its primary's slots, at the epoch that it asked with.
func (r *server) promote(how string) {
	old := r.following
	lost := r.peer(old)
	r.m.note("%s %s in place of %s", r.id, how, r.m.servers[old].id)
	r.m.promoted(r, old, how)
	taken := lost.slots.set.Union(r.unowned())
	lost.slots = nothing
	r.following, r.election, r.manual, r.linkUp, r.syncing, r.loading = nobody, nil, nil, false, false, false
	me := r.me()
	me.replica, me.of, me.epoch = false, nobody, r.current
	r.setOwn(taken)
	r.broadcast()
}

// unowned are the slots of its keys that nobody owns as far as it knows: a server that becomes a primary takes them
// ("I have keys for unassigned slot", 9.1.2), and drops keys of slots that others own.
func (r *server) unowned() slot.Set {
	var owned, out slot.Set
	for _, p := range r.view {
		if p != nil {
			owned = owned.Union(p.slots.set)
		}
	}
	for k, v := range r.data {
		if n := slotOfKey(k); v != 0 && !owned.Has(n) {
			out = out.Union(slot.Of(slot.Range{First: n, Last: n}))
		}
	}
	return out
}

// follow makes the server a replica of another one; what it has of its own goes at the sync.
func (s *server) follow(n int) {
	if s.n == n {
		return
	}
	wasPrimary := s.primary()
	s.following, s.election, s.manual = n, nil, nil
	s.me().replica, s.me().of = true, n
	s.setOwn(nothing.set)
	s.linkUp, s.syncing, s.loading = false, false, false
	s.downSince = s.m.now
	if wasPrimary {
		s.breakJobs("it became a replica")
	}
}
