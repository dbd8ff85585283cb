package plantest

import (
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
)

const (
	banTime      = 60 * time.Second // how long a forgotten server is not taken back from gossip
	rumors       = 3                // how many others one packet tells of
	reportMemory = 2 * Timeout      // how long a failure report counts
)

// greeting is a MEET under way.
type greeting struct {
	ip        string
	due, ends time.Duration
}

// greet ends the handshakes that are due: well, one-sided (valkey#1251), or not at all.
func (m *Model) greet() {
	for _, a := range m.servers {
		if !a.running() || len(a.greetings) == 0 {
			continue
		}
		open := a.greetings[:0]
		for _, g := range a.greetings {
			switch {
			case m.now >= g.ends:
			case m.now < g.due || !m.handshake(a, g.ip):
				open = append(open, g)
			}
		}
		a.greetings = open
	}
}

// handshake says whether it came to an end.
func (m *Model) handshake(a *server, ip string) bool {
	b := m.at(ip)
	if b == nil || !m.connected(a, b) || m.chance(m.traits.Lost) {
		return false
	}
	if b == a {
		return true
	}
	m.merged = m.merged || (a.object == nil) != (b.object == nil)
	sides := 3
	if m.chance(m.traits.OneSided) {
		sides = 1 + m.rng.IntN(2)
	}
	if sides&1 != 0 {
		delete(a.bans, b.n)
		a.learn(b.n, b.ip)
		a.hear(b)
	}
	if sides&2 != 0 {
		delete(b.bans, a.n)
		b.learn(a.n, a.ip)
		b.hear(a)
	}
	return true
}

// gossip lets every server ping one or two others and those it has not heard for long.
func (m *Model) gossip() {
	for _, a := range m.servers {
		if !a.running() {
			continue
		}
		known := a.known()
		for n, p := range a.view {
			if p == nil || n == a.n {
				continue
			}
			if m.now-p.pong > Timeout/2 || m.rng.IntN(known) < 2 {
				a.ping(n, p)
			}
			a.judge(n, p)
		}
	}
}

// ping exchanges one packet each way with whoever is at the address that the server knows.
func (a *server) ping(n int, p *peer) {
	b := a.m.at(p.ip)
	switch {
	case b != nil && b.n != n:
		p.linked, p.noaddr = false, true // another server answers there: the address was reused
	case b == nil:
		p.linked = false
	case a.m.connected(a, b):
		switch {
		case b.peer(a.n) != nil:
			p.mutual = a.m.now
		case a.m.traits.Remeets && a.m.now-p.mutual > Timeout:
			p.mutual = a.m.now
			a.meet(b.ip)
		}
		b.receive(a)
		a.receive(b)
	case a.m.now-p.pong > Timeout/2:
		p.linked = false
	}
}

// receive takes a packet: what the sender says of itself, and rumors.
func (a *server) receive(from *server) {
	if a.peer(from.n) == nil {
		return // the word of a stranger does not count
	}
	a.hear(from)
	a.forgetToo(from)
	tell := func(n int, q *peer) {
		p := a.peer(n)
		if p == nil {
			if a.m.now >= a.bans[n] && n != a.n {
				a.learn(n, q.ip)
			}
			return
		}
		a.report(p, from, q.pfail || q.fail)
	}
	start := a.m.rng.IntN(len(from.view))
	told := 0
	for i := range from.view {
		n := (start + i) % len(from.view)
		q := from.view[n]
		if q == nil || n == from.n || n == a.n || q.noaddr {
			continue
		}
		if q.pfail || q.fail {
			tell(n, q)
		} else if told < rumors && (q.linked || q.slots.n > 0) {
			told++
			tell(n, q)
		}
	}
}

// forgetToo: what one server was told to forget it tells the others for as long as the ban lasts;
// they forget it too, but for their own primary (since Valkey 7.2; measured on 9.1.2).
func (a *server) forgetToo(from *server) {
	if !a.m.traits.ForgetSpreads {
		return
	}
	for n, until := range from.bans {
		if a.m.now < until && a.peer(n) != nil && n != a.n && n != a.following {
			a.drop(n, until)
		}
	}
}

// drop forgets a server and does not take it back from gossip before a time.
func (a *server) drop(n int, until time.Duration) {
	a.view[n] = nil
	a.tables++
	a.bans[n] = until
	for _, q := range a.view {
		if q != nil {
			delete(q.reports, n)
			if q.of == n {
				q.of = nobody
			}
		}
	}
}

// report notes that a primary calls a peer failing, or does not any more.
func (a *server) report(p *peer, by *server, failing bool) {
	switch {
	case !by.voter():
	case failing:
		if p.reports == nil {
			p.reports = map[int]time.Duration{}
		}
		p.reports[by.n] = a.m.now
	default:
		delete(p.reports, by.n)
	}
}

// judge marks a peer that was not heard for the node timeout, and calls it failed once a
// majority of the primaries says so.
func (a *server) judge(n int, p *peer) {
	now := a.m.now
	if now-p.pong <= Timeout {
		return
	}
	p.pfail = true
	if p.fail {
		return
	}
	votes := 0
	if a.voter() {
		votes++
	}
	for by, when := range p.reports {
		if q := a.peer(by); q != nil && !q.replica && q.slots.n > 0 && now-when <= reportMemory {
			votes++
		}
	}
	if votes <= a.owners()/2 {
		return
	}
	for _, b := range a.m.servers { // FAIL is told to everybody at once
		if q := b.peer(n); q != nil && b.n != n && (b == a || b.peer(a.n) != nil && a.m.connected(a, b)) && !q.fail {
			q.fail, q.failAt = true, now
		}
	}
}

// hear takes in what a known server says of itself.
func (b *server) hear(a *server) {
	p := b.peer(a.n)
	if p == nil {
		return
	}
	p.pong, p.linked, p.noaddr, p.ip = b.m.now, true, false, a.ip
	p.pfail = false
	// A primary with slots that comes back too soon stays failed: its replica may just be elected.
	if p.fail && (p.replica || p.slots.n == 0 || b.m.now-p.failAt > 2*Timeout) {
		p.fail = false
	}
	b.current = max(b.current, a.current, a.me().epoch)
	if !a.primary() {
		if !p.replica && p.slots.n > 0 {
			p.slots = nothing // it lost its slots to whoever says so later
			b.tables++
		}
		p.replica, p.of = true, a.following
		return
	}
	p.replica, p.of = false, nobody
	p.epoch = max(p.epoch, a.me().epoch)
	b.learnSlots(a, a.n, a.me().slots, a.me().epoch)
	b.settleEpochs(a)
}

// settleEpochs: of two primaries with one config epoch the one with the lower ID takes a new one.
func (b *server) settleEpochs(a *server) {
	if b.primary() && a.primary() && a.me().epoch == b.me().epoch && b.id < a.id {
		b.current++
		b.me().epoch = b.current
	}
}

// learnSlots takes in what an owner claims: a slot changes hands where it was nobody's, where its owner does not
// claim it any more, or where the claim has the greater config epoch. Where this view knows better, it tells `from`.
func (b *server) learnSlots(from *server, owner int, claimed *claim, epoch uint64) {
	p := b.peer(owner)
	if p.seen == claimed && (p.slots == claimed || p.seenEpoch == epoch && p.seenVersion == b.tables) {
		return
	}
	if p.seen != claimed {
		b.tables++ // what it does not claim any more is free for others
	}
	gained := claimed.set.Minus(p.slots.set)
	boss, lost := b.n, 0
	if !b.primary() {
		boss = b.following
	}
	for x, q := range b.view {
		if q == nil || x == owner || q.slots.n == 0 {
			continue
		}
		overlap := q.slots.set.Intersect(gained)
		if overlap.Empty() {
			continue
		}
		if q.epoch >= epoch {
			kept := overlap.Intersect(q.claims())
			gained, overlap = gained.Minus(kept), overlap.Minus(kept)
			if q.epoch > epoch && !kept.Empty() && from != nil && b.m.connected(b, from) {
				from.update(x, q)
			}
		}
		if overlap.Empty() {
			continue
		}
		if x == boss {
			lost += overlap.Len()
		}
		if x == b.n {
			b.setOwn(q.slots.set.Minus(overlap))
		} else {
			q.slots = claimOf(q.slots.set.Minus(overlap))
		}
	}
	if !gained.Empty() {
		p.slots = claimOf(p.slots.set.Union(gained))
		if p.slots.set == claimed.set {
			p.slots = claimed
		}
		b.tables++
	}
	p.seen, p.seenEpoch, p.seenVersion = claimed, epoch, b.tables
	// Failed over: whoever took all slots of this server, or of its primary, is the new primary.
	if lost > 0 && owner != b.n && b.peer(boss).slots.n == 0 && claimed.n == lost {
		b.follow(owner)
	}
}

// claims are the slots of a peer that it claimed itself when it was heard last: a view keeps others in its name too,
// until somebody else claims them.
func (p *peer) claims() slot.Set {
	if p.seen == nil {
		return p.slots.set
	}
	return p.slots.set.Intersect(p.seen.set)
}

// update tells a server that another one has a newer claim; what it knows already is not news.
func (a *server) update(n int, q *peer) {
	p := a.peer(n)
	if p == nil || n == a.n || p.epoch >= q.epoch {
		return
	}
	p.replica, p.of, p.epoch = false, nobody, q.epoch
	a.learnSlots(nil, n, q.slots, q.epoch)
}

// broadcast tells everybody in reach at once: a promotion or a move is not left to gossip.
func (a *server) broadcast() {
	for _, b := range a.m.servers {
		if b != a && a.peer(b.n) != nil && a.m.connected(a, b) && !a.m.chance(5) {
			b.hear(a)
		}
	}
}
