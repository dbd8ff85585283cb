package plantest

import (
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// claim is a set of slots with its ranges. It is never changed once made, so that two equal
// claims are mostly the same pointer and gossip is cheap.
type claim struct {
	set    slot.Set
	ranges []slot.Range
	n      int
}

var nothing = &claim{}

func claimOf(s slot.Set) *claim {
	if s.Empty() {
		return nothing
	}
	return &claim{s, s.Ranges(), s.Len()}
}

// peer is what one server believes of another, or of itself.
type peer struct {
	ip          string
	replica     bool
	of          int // the server that it follows, or nobody
	epoch       uint64
	slots       *claim
	pfail, fail bool
	failAt      time.Duration
	pong        time.Duration // when it was heard last
	linked      bool
	noaddr      bool
	mutual      time.Duration         // when the other side was seen to know this one, too
	reports     map[int]time.Duration // primaries that call it failing, and when they did last

	// What of it was taken into account last, to skip what is known.
	seen        *claim
	seenEpoch   uint64
	seenVersion int
}

const nobody = -1

// server is one Valkey process.
type server struct {
	m       *Model
	n       int // its place in Model.servers
	id      topology.NodeID
	ip      string
	host    int
	version string
	alive   bool
	object  *object // nil: of another cluster
	// asleepUntil: stopped by a signal or a stall; it neither hears nor speaks.
	asleepUntil time.Duration
	answersAt   time.Duration
	bornAt      time.Duration

	view      []*peer // by server number; nil: not known
	greetings []greeting
	bans      map[int]time.Duration // forgotten servers are not taken back from gossip until then
	tables    int                   // version of the slot table

	current  uint64 // current epoch
	lastVote uint64
	voted    map[int]time.Duration // primaries for whose place it voted, and when
	election *election
	manual   *manual

	following   int
	linkUp      bool
	syncing     bool
	loading     bool
	syncedAt    time.Duration // when the sync under way ends
	downSince   time.Duration // since when the link to the primary is down
	laggardTill time.Duration
	pausedUntil time.Duration // no writes until then

	data      [Keys]uint32
	offset    int64
	sent      [Keys]uint32 // the data a beat ago: what replicas have
	sentOff   int64
	libraries int

	childUntil time.Duration // a child process (sync, snapshot) is at work
	jobs       []*job        // newest first
}

func (m *Model) startServer(ip string, host int, version string) *server {
	s := &server{
		m: m, n: len(m.servers), ip: ip, host: host, version: version, alive: true,
		following: nobody, bans: map[int]time.Duration{}, voted: map[int]time.Duration{},
		bornAt: m.now, answersAt: m.now + m.beats(0, 4+m.traits.SlowStart),
	}
	s.id = topology.NodeID(idOf(m.rng.IntN(256), s.n))
	m.servers = append(m.servers, s)
	s.setPeer(s.n, &peer{ip: ip, of: nobody, slots: nothing, linked: true})
	return s
}

// idOf puts a random part first, so that the order of IDs is not the order of age.
func idOf(random, n int) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[random>>4], digits[random&15], '.', digits[n/100%10], digits[n/10%10], digits[n%10]})
}

func (s *server) running() bool { return s.alive && s.m.now >= s.asleepUntil }

func (s *server) me() *peer { return s.view[s.n] }

// peer is what the server knows of another one; nil if nothing.
func (s *server) peer(n int) *peer {
	if n < 0 || n >= len(s.view) {
		return nil
	}
	return s.view[n]
}

func (s *server) setPeer(n int, p *peer) {
	for len(s.view) <= n {
		s.view = append(s.view, nil)
	}
	s.view[n] = p
}

// learn makes another server known.
func (s *server) learn(n int, ip string) {
	if s.peer(n) == nil {
		s.setPeer(n, &peer{ip: ip, of: nobody, slots: nothing, pong: s.m.now, mutual: s.m.now})
	}
}

func (s *server) primary() bool { return s.following == nobody }

// known counts the servers in its view, itself included.
func (s *server) known() int {
	n := 0
	for _, p := range s.view {
		if p != nil {
			n++
		}
	}
	return n
}

// voter says whether it has a say in elections.
func (s *server) voter() bool { return s.primary() && s.me().slots.n > 0 }

// owners counts the primaries with slots in the server's view: a majority of them elects.
func (s *server) owners() int {
	n := 0
	for _, p := range s.view {
		if p != nil && p.slots.n > 0 {
			n++
		}
	}
	return n
}

// health is the server's cluster_state, cluster_slots_assigned and cluster_slots_ok.
func (s *server) health() (ok bool, assigned, fine int) {
	owners, reachable, failed := 0, 0, false
	for _, p := range s.view {
		if p == nil || p.slots.n == 0 {
			continue
		}
		owners++
		assigned += p.slots.n
		failed = failed || p.fail
		if !p.fail && !p.pfail {
			reachable++
			fine += p.slots.n
		}
	}
	return assigned == slot.Count && !failed && reachable > owners/2, assigned, fine
}

// die ends the process: its memory is gone.
func (s *server) die() {
	s.alive = false
	s.m.mourn()
}

// setOwn changes the slots that the server claims; keys of slots that it no longer owns go.
func (s *server) setOwn(set slot.Set) {
	s.me().slots = claimOf(set)
	s.tables++
	if s.primary() {
		s.dropForeignKeys()
	}
}

func (s *server) dropForeignKeys() {
	own := &s.me().slots.set
	for k := range s.data {
		if s.data[k] != 0 && !own.Has(slotOfKey(k)) {
			s.data[k] = 0
		}
	}
}
