package plantest

import (
	"fmt"
	"strings"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// object is a ValkeyNode.
type object struct {
	name      plan.NodeName
	shard     int
	join      plan.JoinType
	lifecycle plan.Lifecycle
	revision  string
	restart   string
	deleting  bool
	removed   bool // it does not exist any more
	knownID   topology.NodeID
	pod       *pod // nil: not created yet
	podAt     time.Duration
	refused   bool // the API server refuses its pod
	// shown is the pod as the operator's cache has it; it may lag.
	shown *pod
}

type phase plan.Phase

// live says whether a pod of this phase is there and has not ended.
func (p phase) live() bool { return p == phase(plan.PodPending) || p == phase(plan.PodRunning) }

// pod is a pod; one that the API server does not have any more has the phase absent.
type pod struct {
	uid      string
	phase    phase
	ip       string
	host     int
	server   *server
	next     time.Duration // when it is scheduled, then when it runs, then when it has ended
	reason   string
	deleting bool
	deadline time.Duration
	stopping bool // its kubelet has sent SIGTERM
	overdue  bool // it should have ended long ago; its host does not answer
	crashed  bool
	endedAt  time.Duration
}

func (p *pod) delete(now time.Duration) { p.deleting, p.deadline = true, now+podGrace }

// Revisions of these beginnings cannot run: the image cannot be pulled, the server exits at its
// configuration, or it is older than what the operator takes.
const (
	BadImage  = "bad-image"
	BadConfig = "bad-config"
	OldEngine = "old-engine"
)

func (m *Model) create(n plan.NewNode, revision, restart string) {
	m.serial++
	m.objects = append(m.objects, &object{
		name:  plan.NodeName(fmt.Sprintf("n%02x-%d", m.rng.IntN(256), m.serial)),
		shard: n.Shard, join: n.Join, lifecycle: plan.Joining,
		revision: revision, restart: restart, podAt: m.now + m.beats(0, 2),
	})
}

// tickPods lets kubelets and the ValkeyNode controller do their work.
func (m *Model) tickPods() {
	kept := m.objects[:0]
	for _, o := range m.objects {
		m.tickPod(o)
		if o.deleting && (o.pod == nil || o.gone(m.now)) {
			m.note("node %s is removed", o.name)
			o.removed = true
			continue
		}
		kept = append(kept, o)
	}
	m.objects = kept
	m.reap()
	for _, o := range m.objects {
		switch {
		case o.pod == nil:
		case o.shown == nil || m.now >= m.lagUntil || o.pod.phase == phase(plan.PodAbsent):
			shown := *o.pod
			o.shown = &shown
		}
	}
}

// reap ends processes whose nodes are removed: one on a lost Kubernetes node lives on until its
// kubelet hears of it.
func (m *Model) reap() {
	for _, s := range m.servers {
		if s.alive && s.object != nil && s.object.removed && m.hosts[s.host].heard(m.now) && m.chance(25) {
			s.die()
		}
	}
}

// gone is the word of design.md: absent, ended, or long overdue.
func (o *object) gone(now time.Duration) bool {
	return !o.pod.phase.live() || o.pod.deleting && now-o.pod.deadline > podGrace
}

func (m *Model) tickPod(o *object) {
	if o.pod == nil {
		o.refused = m.now < m.quotaUntil
		if m.now >= o.podAt && !o.deleting && !o.refused {
			m.serial++
			o.pod = &pod{uid: fmt.Sprintf("u%d", m.serial), phase: phase(plan.PodPending), host: nobody, next: m.now + m.beats(1, 4)}
		}
		return
	}
	p := o.pod
	if o.deleting && !p.deleting && p.phase.live() {
		p.delete(m.now)
	}
	if !p.overdue && p.phase.live() && o.gone(m.now) {
		p.overdue = true
		if !o.deleting {
			m.mourn() // somebody deleted it, and its host never answered
		}
	}
	switch {
	case !p.phase.live():
	case p.host == nobody:
		m.schedule(o)
	case !m.hosts[p.host].heard(m.now):
	case p.deleting:
		m.terminate(o)
	case p.phase == phase(plan.PodPending):
		m.start(o)
	case !p.server.alive: // also after its machine came back
		m.ended(o, true)
	}
}

func (m *Model) schedule(o *object) {
	p := o.pod
	switch {
	case p.deleting:
		p.phase = phase(plan.PodAbsent)
	case m.now < m.noRoomUntil:
		p.reason = "0/3 nodes are available: 3 Insufficient memory."
	case m.now >= p.next:
		if h := m.place(o.shard); h != nil {
			p.reason, p.host, p.next = "", h.n, m.now+m.beats(1, 8)
		}
	}
}

// start runs the container, unless its image or configuration cannot run.
func (m *Model) start(o *object) {
	p := o.pod
	switch {
	case m.now < p.next:
	case strings.HasPrefix(o.revision, BadImage):
		p.reason = "Back-off pulling image"
	case strings.HasPrefix(o.revision, BadConfig):
		p.ip = m.address()
		m.ended(o, true)
		p.reason = "exit code 1: Bad directive or wrong number of arguments"
	default:
		version := "9.1.2"
		if strings.HasPrefix(o.revision, OldEngine) {
			version = "8.1.1"
		}
		p.ip = m.address()
		p.phase = phase(plan.PodRunning)
		p.server = m.startServer(p.ip, p.host, version)
		p.server.object = o
	}
}

// address gives a new pod an IP: where addresses are reused, that of a pod that has ended.
func (m *Model) address() string {
	if m.traits.ReuseIPs {
		for _, s := range m.servers {
			if !s.alive && m.at(s.ip) == nil {
				return s.ip
			}
		}
	}
	m.serial++
	return fmt.Sprintf("10.0.0.%d", m.serial)
}

// ended: the container exited by itself, or was killed.
func (m *Model) ended(o *object, crashed bool) {
	o.pod.phase, o.pod.crashed, o.pod.endedAt = phase(plan.PodFailed), crashed, m.now
	o.pod.reason = "exit code 137"
}

// terminate ends a pod gracefully: SIGTERM hands the slots of a primary to a replica that is in sync
// (shutdown-on-sigterm failover, contract §3), then the process ends and the pod with it. A replica ends
// at once, also one that was the primary until then.
func (m *Model) terminate(o *object) {
	p := o.pod
	s := p.server
	switch {
	case s == nil:
		p.phase = phase(plan.PodAbsent)
		return
	case !p.stopping && m.chance(30):
		return // its kubelet has not come to it yet
	case !p.stopping:
		p.stopping = true
		p.next = m.now + m.beats(1, 6)
		s.hand()
	}
	switch {
	case s.alive && (m.now >= p.next || !s.primary() && s.running()):
		s.alive = false
		p.next = m.now + m.beats(0, 2)
		if !o.deleting || s.voter() {
			m.mourn() // not our deed, or it became an owner after it was
		}
	case m.now < p.next:
	default:
		p.phase = phase(plan.PodAbsent)
	}
}

// hand lets a primary that is shutting down promote its best replica.
func (s *server) hand() {
	if !s.running() || !s.voter() {
		return
	}
	var best *server
	for _, r := range s.m.servers {
		if r.running() && r.following == s.n && r.linkUp && (best == nil || r.offset > best.offset) {
			best = r
		}
	}
	if best != nil {
		s.breakJobs("shutdown")
		best.manual = &manual{at: s.m.now, ends: s.m.now + Timeout}
		s.pausedUntil = s.m.now + Timeout
	}
}
