package plantest

import (
	"fmt"
	"strings"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
)

// Kind is what happens to a world.
type Kind string

// The kinds of events. N chooses the victim, For is how long it lasts.
const (
	KillPrimary Kind = "kill primary" // its process
	KillReplica Kind = "kill replica"
	KillShard   Kind = "kill shard" // all processes of it
	KillAll     Kind = "kill all"
	KillNewest  Kind = "kill newest" // the server that started last
	DeletePod   Kind = "delete pod"  // gracefully
	ForceDelete Kind = "force delete pod"
	DeleteAll   Kind = "delete all pods"
	Evict       Kind = "evict pod" // the pod fails, nobody's fault
	Drain       Kind = "drain host"
	HostDown    Kind = "host down"
	HostCut     Kind = "host cut off"
	PairCut     Kind = "two servers cut off from each other"
	Sleep       Kind = "server stops for a while"
	Lag         Kind = "replica lags"
	Deaf        Kind = "votes are lost"
	BreakJobs   Kind = "migrations fail"
	NoRoom      Kind = "no room for pods"
	OldCache    Kind = "pod cache stands still"
	CutOperator Kind = "operator cut off from a host"
	CrashNow    Kind = "operator dies between passes"
	CrashBefore Kind = "operator dies before its next deed"
	CrashAmid   Kind = "operator dies amid its next deed"
	CrashAfter  Kind = "operator dies after its next deed"
	Flush       Kind = "somebody empties all servers" // FLUSHALL
	HandMove    Kind = "somebody moves slots by hand"
	LoadLibrary Kind = "somebody loads a function library"
	Quota       Kind = "no pod can be created" // a quota, a webhook
	Foreign     Kind = "a foreign server gets the address of one that died"
	Merge       Kind = "somebody lets a foreign server meet ours"
	Edit        Kind = "edit" // of the spec: see Event.Edit
)

// Event is one thing that happens at a time, or, with On, once that rule decides after the time.
type Event struct {
	At   time.Duration
	On   plan.RuleName
	Kind Kind
	N    int
	For  time.Duration
	Edit Change
}

// Change is an edit of the spec; a zero field changes nothing.
type Change struct {
	Shards   int
	Replicas *int
	Revision string
	Restart  string
	Failover plan.FailoverMode
	Paused   *bool
}

// breaks is how many migrations fail after a BreakJobs.
func breaks(e Event) int { return 1 + e.N%6 }

func (e Event) String() string {
	s := fmt.Sprintf("%s %s", e.At, e.Kind)
	if e.On != "" {
		s = fmt.Sprintf("%s on %s: %s", e.At, e.On, e.Kind)
	}
	if e.Kind == Edit {
		return s + e.Edit.String()
	}
	s += fmt.Sprintf(" #%d", e.N)
	if e.For > 0 {
		s += fmt.Sprintf(" for %s", e.For)
	}
	return s
}

func (c Change) String() string {
	var b strings.Builder
	if c.Shards > 0 {
		fmt.Fprintf(&b, " shards=%d", c.Shards)
	}
	if c.Replicas != nil {
		fmt.Fprintf(&b, " replicas=%d", *c.Replicas)
	}
	for _, f := range []struct{ key, value string }{
		{"revision", c.Revision}, {"restart", c.Restart}, {"failover", string(c.Failover)},
	} {
		if f.value != "" {
			fmt.Fprintf(&b, " %s=%s", f.key, f.value)
		}
	}
	if c.Paused != nil {
		fmt.Fprintf(&b, " paused=%t", *c.Paused)
	}
	return b.String()
}

// fire lets an event happen.
func (s *Simulation) fire(e Event) {
	m, op := s.Model, s.Operator
	m.note("! %s", e)
	if e.Kind == Edit {
		if e.Edit.Revision != "" || e.Edit.Restart != "" { // a new roll begins
			clear(s.failovers)
			op.disturbed = m.now < op.disturbedUntil || !op.calm
			for _, last := range s.told { // one that is under way belongs to the roll before
				op.disturbed = op.disturbed || m.now-last.at < Timeout
			}
		}
		op.apply(e.Edit)
		return
	}
	op.calm, op.disturbed = false, true
	until := m.now + e.For
	op.disturbedUntil, s.still = max(op.disturbedUntil, until), max(s.still, until)
	switch e.Kind {
	case NoRoom:
		m.noRoomUntil = until
	case Quota:
		m.quotaUntil = until
	case Flush, HandMove, LoadLibrary, Foreign, Merge:
		m.meddle(e)
	case OldCache:
		m.lagUntil = until
	case Deaf:
		m.deafUntil = until
	case BreakJobs:
		m.brokenJobs = breaks(e)
	case CrashNow:
		op.dies(e.For)
	case CrashBefore:
		op.crash = crashBefore
	case CrashAmid:
		op.crash = crashAmid
	case CrashAfter:
		op.crash = crashAfter
	case HostDown, HostCut, Drain, CutOperator:
		m.hitHost(e, until)
	case DeletePod, ForceDelete, DeleteAll, Evict:
		m.hitPods(e)
	default:
		m.hitServers(e, until)
	}
	op.wake()
}

func (o *Operator) apply(c Change) {
	if c.Shards > 0 {
		o.Spec.Shards = c.Shards
	}
	if c.Replicas != nil {
		o.Spec.Replicas = *c.Replicas
	}
	if c.Revision != "" {
		o.Spec.Revisions = []string{c.Revision}
	}
	if c.Restart != "" {
		o.Spec.Restart = c.Restart
	}
	if c.Failover != "" {
		o.Spec.Failover = c.Failover
	}
	if c.Paused != nil {
		o.Spec.Paused = *c.Paused
	}
	o.wake()
}
