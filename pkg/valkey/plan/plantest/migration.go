package plantest

import (
	"fmt"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// stage is how far a migration job is: waiting for a child process, sending the snapshot,
// streaming what is written meanwhile, handing over.
type stage int

const (
	waiting stage = iota
	snapshot
	streaming
	handover
)

// job is one migration job; source and target list it until they end.
type job struct {
	name           string
	source, target *server
	slots          slot.Set
	state          topology.MigrationState
	stage          stage
	next           time.Duration // when the stage ends
	fails          bool
	byHand         bool // somebody else than the operator asked for it
	failsAt        stage
	created        time.Duration
	updated        time.Duration
	message        string
}

func (j *job) end(state topology.MigrationState, message string) {
	j.state, j.message, j.updated = state, message, j.source.m.now
	if j.stage >= snapshot && j.source.m.now < j.source.childUntil {
		j.source.childUntil = j.source.m.now
	}
	j.source.m.note("job %s from %s to %s ends: %s %s", j.name, j.source.id, j.target.id, state, message)
}

func (m *Model) startJob(source, target *server, slots slot.Set) *job {
	m.serial++
	j := &job{name: fmt.Sprintf("job%d", m.serial), source: source, target: target, slots: slots,
		state: topology.Running, created: m.now, updated: m.now, next: m.now + m.beats(0, 2)}
	if m.brokenJobs > 0 {
		m.brokenJobs--
		j.fails, j.failsAt = true, stage(m.rng.IntN(int(handover)+1))
	}
	source.jobs = append([]*job{j}, source.jobs...)
	target.jobs = append([]*job{j}, target.jobs...)
	return j
}

// breakJobs fails the server's running jobs.
func (s *server) breakJobs(why string) {
	for _, j := range s.jobs {
		if j.state == topology.Running {
			j.end(topology.Failed, why)
		}
	}
}

func (s *server) moving() bool {
	for _, j := range s.jobs {
		if j.state == topology.Running {
			return true
		}
	}
	return false
}

// migrate lets every job go on.
func (m *Model) migrate() {
	for _, s := range m.servers {
		for _, j := range s.jobs {
			if j.source == s && j.state == topology.Running {
				m.step(j)
			}
		}
	}
}

func (m *Model) step(j *job) {
	source, target := j.source, j.target
	kept := source.me().slots.set.Intersect(j.slots)
	switch {
	case !source.alive || !target.alive, !m.connected(source, target) && m.chance(20):
		j.end(topology.Failed, "connection lost")
	case !m.connected(source, target):
	case !source.primary() || !target.primary() || kept != j.slots || source.peer(target.n) == nil || target.peer(source.n) == nil:
		j.end(topology.Failed, "topology changed")
	case m.now < j.next:
	case j.fails && j.stage == j.failsAt:
		j.end(topology.Failed, "invalid CRLF")
	case j.stage == waiting && m.now < source.childUntil:
	case j.stage == handover:
		m.handOver(j)
	default:
		j.stage++
		j.next = m.now + m.beats(1, 3)
		j.updated = m.now
		if j.stage == snapshot {
			source.childUntil = j.next
		}
		if j.stage == handover {
			source.pausedUntil = j.next + Beat
		}
	}
}

// handOver gives the target all keys and the slots at a config epoch above all that it knows.
func (m *Model) handOver(j *job) {
	source, target := j.source, j.target
	for k := range source.data {
		if j.slots.Has(slotOfKey(k)) {
			target.data[k] = source.data[k]
		}
	}
	target.offset += writeSize
	j.end(topology.Success, "")
	target.current = max(target.current, source.current) + 1
	target.me().epoch = target.current
	// From the target's own table the slots go at once: it knows that they are its own now.
	for n, p := range target.view {
		if p == nil || n == target.n || p.slots.n == 0 {
			continue
		}
		if overlap := p.slots.set.Intersect(j.slots); !overlap.Empty() {
			p.slots = claimOf(p.slots.set.Minus(overlap))
		}
	}
	target.setOwn(target.me().slots.set.Union(j.slots))
	source.hear(target)
	target.broadcast()
}
