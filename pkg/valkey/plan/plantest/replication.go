package plantest

import (
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
)

// Keys is how many keys the clients write, each in a slot of its own.
const Keys = 64

// slotOfKey spreads the keys evenly, away from round numbers.
func slotOfKey(k int) int { return k*(slot.Count/Keys) + 17 }

// writeSize is what one write adds to the replication offset: so many bytes that a replica
// which lags by some writes is not near its primary any more.
const writeSize = 2 << 20

// replicate moves data from primaries to replicas, a beat late, and lets syncs begin and end.
func (m *Model) replicate() {
	for _, r := range m.servers {
		if !r.running() || r.primary() {
			continue
		}
		p := m.servers[r.following]
		switch {
		case r.peer(r.following) == nil || !m.connected(r, p):
			r.loseLink()
		case !p.primary():
			r.chained(p)
		case r.linkUp:
			if m.now >= r.laggardTill {
				r.data, r.offset = p.sent, p.sentOff
			}
			r.libraries = p.libraries
		case r.syncing:
			r.endSync(p)
		default:
			r.startSync(p)
		}
	}
	for _, s := range m.servers {
		s.sent, s.sentOff = s.data, s.offset
	}
}

func (r *server) loseLink() {
	if r.linkUp || r.syncing {
		r.downSince = r.m.now
	}
	r.linkUp, r.syncing, r.loading = false, false, false
}

// chained: its primary follows another one; before Valkey 9.1 it stays so for long.
func (r *server) chained(p *server) {
	r.loseLink()
	if !r.m.traits.Chains && r.peer(p.following) != nil && p.following != r.n && r.m.chance(20) {
		r.follow(p.following)
	}
}

// startSync begins a sync: partial, where nothing of this server's own history is in the way,
// or full; a full one needs the primary's only child process.
func (r *server) startSync(p *server) {
	m := r.m
	if r.offset > 0 && r.offset <= p.sentOff && m.chance(60) {
		r.linkUp = true
		r.data, r.offset = p.sent, p.sentOff
		return
	}
	if m.now < p.childUntil {
		return
	}
	r.syncing = true
	r.syncedAt = m.now + m.beats(1, max(m.traits.SlowSync, 1))
	p.childUntil = r.syncedAt
}

// endSync: what was sent is loaded; for the time that takes the replica has nothing.
func (r *server) endSync(p *server) {
	if r.m.now < r.syncedAt {
		return
	}
	if !r.loading {
		r.loading = true
		r.data, r.offset = [Keys]uint32{}, 0
		return
	}
	r.syncing, r.linkUp, r.loading = false, true, false
	r.data, r.offset, r.libraries = p.sent, p.sentOff, p.libraries
}

// write lets clients write some keys: where a slot has two claimants, at the one with the
// newer config epoch.
func (m *Model) write() {
	if m.unused {
		return
	}
	for range 4 {
		k := m.rng.IntN(Keys)
		s := m.ownerOf(slotOfKey(k))
		if s == nil || !m.reaches(s) || m.now < s.pausedUntil {
			continue
		}
		if ok, _, _ := s.health(); !ok {
			continue
		}
		m.acked[k]++
		m.floor[k] = m.acked[k]
		s.data[k] = m.acked[k]
		s.offset += writeSize
	}
}

// ownerOf is the living server that claims a slot, the newest claim first; nil if none does.
func (m *Model) ownerOf(n int) *server {
	var best *server
	for _, s := range m.servers {
		if s.alive && s.object != nil && s.primary() && s.me().slots.set.Has(n) && (best == nil || s.me().epoch > best.me().epoch) {
			best = s
		}
	}
	return best
}

// mourn gives up what no living owner of a slot, and no living replica of one, has any more. It is
// called when fate destroys data: what the operator destroys is not given up and shows as lost.
func (m *Model) mourn() {
	var most [Keys]uint32
	for _, s := range m.servers {
		if o := s.object; !s.alive || o != nil && (o.deleting || o.pod == nil || o.gone(m.now)) {
			continue
		}
		owned := &s.me().slots.set
		if !s.primary() {
			owned = &m.servers[s.following].me().slots.set // also of one that is dead
		}
		for k, v := range s.data {
			if owned.Has(slotOfKey(k)) {
				most[k] = max(most[k], v)
			}
		}
	}
	for k := range m.floor {
		m.floor[k] = min(m.floor[k], most[k])
	}
}

// promoted lowers the floor to what a replica has that took over without its primary's help:
// asynchronous replication loses the last writes (contract §6). Whether it should have been told
// to is judged when it is told (judge.go). A planned failover loses nothing.
func (m *Model) promoted(r *server, old int, how string) {
	if o := m.servers[old].object; how == "failed over" && m.onFailover != nil && o != nil && !o.pod.deleting {
		m.onFailover(o.shard)
	}
	if how == "failed over" {
		return
	}
	m.functionsLost = m.functionsLost || r.libraries < m.servers[old].libraries
	lost := r.peer(old).slots
	for k := range m.floor {
		if lost.set.Has(slotOfKey(k)) {
			m.floor[k] = min(m.floor[k], r.data[k])
		}
	}
}

// lag makes a replica fall behind for a while.
func (r *server) lag(d time.Duration) { r.laggardTill = r.m.now + d }
