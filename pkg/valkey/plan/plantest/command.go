package plantest

import (
	"fmt"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// The commands of a server, and what it refuses in a real server's words.

func (s *server) setConfigEpoch(epoch uint64) error {
	for n, p := range s.view {
		if p != nil && n != s.n {
			return refusal("ERR The user can assign a config epoch only when the node does not know any other node.")
		}
	}
	if s.me().epoch != 0 {
		return refusal("ERR Node config epoch is already non-zero")
	}
	s.me().epoch = epoch
	s.current = max(s.current, epoch)
	return nil
}

// meet only begins a handshake: OK means scheduled.
func (s *server) meet(ip string) {
	for _, g := range s.greetings {
		if g.ip == ip {
			return
		}
	}
	m := s.m
	s.greetings = append(s.greetings, greeting{ip: ip, due: m.now + m.beats(1, 4), ends: m.now + Timeout})
}

// addSlots is all or nothing.
func (s *server) addSlots(set slot.Set) error {
	if !s.primary() {
		return refusal("ERR a replica cannot own slots")
	}
	for _, p := range s.view {
		if p == nil || p.slots.n == 0 {
			continue
		}
		if busy := p.slots.set.Intersect(set); !busy.Empty() {
			return fmt.Errorf("ERR Slot %s is already busy", busy.First(1))
		}
	}
	s.setOwn(s.me().slots.set.Union(set))
	return nil
}

// delSlots makes the server believe that nobody owns the slots: its own view changes and no other.
func (s *server) delSlots(set slot.Set) {
	for n, p := range s.view {
		switch {
		case p == nil:
		case n == s.n:
			s.setOwn(p.slots.set.Minus(set))
		default:
			p.slots = claimOf(p.slots.set.Minus(set))
		}
	}
	s.tables++
}

func (s *server) replicateFrom(id topology.NodeID) error {
	n, p := s.lookup(id)
	switch {
	case p == nil:
		return fmt.Errorf("ERR Unknown node %s", id)
	case n == s.n:
		return refusal("ERR Can't replicate myself")
	case p.replica:
		return refusal("ERR I can only replicate a primary, not a replica.")
	case s.primary() && (s.me().slots.n > 0 || s.keys() > 0):
		return refusal("ERR To set a primary the node must be empty and without assigned slots.")
	case s.following == n:
		return nil
	}
	s.follow(n)
	return nil
}

func (s *server) forget(id topology.NodeID) error {
	n, p := s.lookup(id)
	banned := s.m.byID(string(id))
	switch {
	case p == nil && banned != nil && s.m.now < s.bans[banned.n]:
		return nil // forgotten already
	case p == nil:
		return fmt.Errorf("ERR Unknown node %s", id)
	case n == s.n:
		return refusal("ERR I tried hard but I can't forget myself...")
	case s.following == n:
		return refusal("ERR Can't forget my primary!")
	}
	for _, j := range s.jobs {
		if j.state == topology.Running && (j.source.n == n || j.target.n == n) {
			s.m.violate("no forgetting while slots move", "%s crashes: it was told to forget %s during %s (valkey#3596)", s.id, id, j.name)
			s.die()
			return nil
		}
	}
	s.drop(n, s.m.now+banTime)
	return nil
}

// failover refuses, begins, or, for a takeover, does it at once and asks nobody.
func (s *server) failover(mode string) error {
	m := s.m
	if s.primary() {
		return refusal("ERR You should send CLUSTER FAILOVER to a replica")
	}
	p := s.peer(s.following)
	if p == nil {
		return refusal("ERR I'm a replica but my primary is unknown to me")
	}
	switch mode {
	case "TAKEOVER":
		if s.me().epoch == 0 || s.me().epoch != s.maxEpoch() {
			s.current++ // one that has the newest epoch from before keeps it
		}
		s.promote("took over")
		return nil
	case "FORCE":
		at := m.now
		if s.election != nil && s.election.at == 0 {
			at = min(s.election.retry, at+Timeout/2) // votes are on their way already (valkey#3996)
		}
		s.manual = &manual{at: at, ends: m.now + Timeout, force: true}
	default:
		if p.fail || !s.linkUp {
			return refusal("ERR Primary is down or failed, please use CLUSTER FAILOVER FORCE")
		}
		s.manual = &manual{at: m.now + m.beats(0, 1), ends: m.now + Timeout}
		m.servers[s.following].pausedUntil = m.now + 2*Beat
	}
	return nil
}

// maxEpoch is the newest config epoch that the server knows of.
func (s *server) maxEpoch() uint64 {
	top := s.current
	for _, p := range s.view {
		if p != nil {
			top = max(top, p.epoch)
		}
	}
	return top
}

func (s *server) migrateSlots(set slot.Set, target topology.NodeID) error {
	n, p := s.lookup(target)
	mine := set.Minus(s.me().slots.set)
	switch {
	case !s.primary():
		return refusal("ERR Only primaries can migrate slots")
	case p == nil:
		return fmt.Errorf("ERR Unknown node %s", target)
	case n == s.n: // a replica is taken, and the job fails
		return refusal("ERR Slots can only be migrated to another primary")
	case !mine.Empty():
		return refusal("ERR Slots are not served by this node")
	}
	for _, j := range s.jobs {
		if j.state == topology.Running && j.source == s {
			if both := j.slots.Intersect(set); !both.Empty() {
				return refusal("ERR Slots are already being migrated")
			}
		}
	}
	s.m.startJob(s, s.m.servers[n], set)
	return nil
}

func (s *server) cancelMigrations() {
	for _, j := range s.jobs {
		if j.source == s && j.state == topology.Running {
			j.end(topology.Cancelled, "cancelled by user")
		}
	}
}

func (s *server) lookup(id topology.NodeID) (int, *peer) {
	for n, p := range s.view {
		if p != nil && s.m.servers[n].id == id {
			return n, p
		}
	}
	return nobody, nil
}

func (s *server) keys() int64 {
	var n int64
	for _, v := range s.data {
		if v != 0 {
			n++
		}
	}
	return n
}

// refusal is an error in the real server's own words, punctuation included.
type refusal string

func (r refusal) Error() string { return string(r) }
