package plantest

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Beat is the step of the model's clock: servers gossip and pods change once a beat.
const Beat = 250 * time.Millisecond

// Timeout is the servers' cluster-node-timeout, which the operator forces (contract §3).
const Timeout = 5 * time.Second

// Model is a Kubernetes cluster with the servers of one Valkey cluster and their clients.
type Model struct {
	rng     *rand.Rand
	now     time.Duration
	servers []*server // all that ever ran, by number
	objects []*object // ValkeyNodes that exist
	hosts   []*host
	serial  int  // of names, UIDs and addresses
	unused  bool // no client writes
	traits  Traits

	// What faults have set, each with its end.
	noRoomUntil     time.Duration         // no pod can be scheduled
	quotaUntil      time.Duration         // no pod can be created
	deafUntil       time.Duration         // votes are lost on their way
	brokenJobs      int                   // how many migration jobs will fail
	cutPairs        map[[2]int]cut        // servers that do not reach each other
	operatorCutFrom map[int]time.Duration // hosts that the operator does not reach
	lagUntil        time.Duration         // the operator's pod cache stands still

	// acked is the newest value of each key that a client was told to be written; floor is the
	// newest that must never be lost: lower than acked where fate took the rest.
	acked, floor [Keys]uint32
	// functionsLost: a replica that had not synced yet had to take over.
	functionsLost bool

	onFailover func(index int) // a planned failover succeeded
	merged     bool            // a foreign server was met

	log       *transcript
	violation *Violation
}

type cut struct{ until time.Duration }

// Traits are what is true of a whole run.
type Traits struct {
	// Hosts is the number of Kubernetes nodes.
	Hosts int
	// OneSided and Lost are how many MEETs of 100 end one-sided or not at all.
	OneSided, Lost int
	// Chains: a replica whose primary became a replica stays with it (before Valkey 9.1).
	Chains bool
	// Remeets: a server that another one does not know meets it again after the node timeout, even
	// if it was forgotten there: as Valkey 9.1 does (measured).
	Remeets bool
	// ForgetSpreads: servers tell each other whom they were told to forget.
	ForgetSpreads bool
	// SlowSync is how many beats a full sync may take.
	SlowSync int
	// ReuseIPs: a new pod gets the address of one that has ended.
	ReuseIPs bool
	// SlowStart is how many beats a server may take until it answers.
	SlowStart int
	// Libraries is how many function libraries the users have loaded.
	Libraries int
}

// Violation is a broken invariant.
type Violation struct {
	At   time.Duration
	Name string // which invariant
	What string
}

func (v *Violation) Error() string { return fmt.Sprintf("%s: %s (at %s)", v.Name, v.What, v.At) }

// NewModel makes an empty world; a seed decides what is left to chance.
func NewModel(seed uint64, traits Traits) *Model {
	m := &Model{
		rng:             rand.New(rand.NewPCG(seed, 0x5eed)),
		traits:          traits,
		cutPairs:        map[[2]int]cut{},
		operatorCutFrom: map[int]time.Duration{},
		log:             &transcript{},
	}
	for i := range max(traits.Hosts, 1) {
		m.hosts = append(m.hosts, &host{name: fmt.Sprintf("h%d", i), n: i, ready: true, up: true})
	}
	return m
}

// Step lets one beat pass.
func (m *Model) Step() {
	m.now += Beat
	m.tickHosts()
	m.tickPods()
	m.greet()
	m.gossip()
	m.elect()
	m.replicate()
	m.migrate()
	m.write()
}

func (m *Model) violate(name, format string, args ...any) {
	if m.violation == nil {
		m.violation = &Violation{m.now, name, fmt.Sprintf(format, args...)}
	}
}

// chance is true in that many of 100 cases.
func (m *Model) chance(percent int) bool { return m.rng.IntN(100) < percent }

// beats is a random time from low to high beats.
func (m *Model) beats(low, high int) time.Duration {
	return time.Duration(low+m.rng.IntN(high-low+1)) * Beat
}

// at is the server that listens at an address; nil if none does.
func (m *Model) at(ip string) *server {
	for _, s := range m.servers {
		if s.ip == ip && s.alive {
			return s
		}
	}
	return nil
}

// connected says whether packets go between two servers.
func (m *Model) connected(a, b *server) bool {
	if !a.running() || !b.running() {
		return false
	}
	if a.host != b.host && (m.hosts[a.host].cut(m.now) || m.hosts[b.host].cut(m.now)) {
		return false
	}
	c, found := m.cutPairs[pair(a.n, b.n)]
	return !found || m.now >= c.until
}

func pair(a, b int) [2]int { return [2]int{min(a, b), max(a, b)} }

// byID finds a server that ever ran.
func (m *Model) byID(id string) *server {
	for _, s := range m.servers {
		if string(s.id) == id {
			return s
		}
	}
	return nil
}

// reaches says whether the operator, or a client, gets through to a server.
func (m *Model) reaches(s *server) bool {
	return s.running() && !m.hosts[s.host].cut(m.now)
}

// Now is the model's time since its beginning.
func (m *Model) Now() time.Duration { return m.now }
