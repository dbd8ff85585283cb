package plantest

import (
	"slices"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
)

func (m *Model) hitHost(e Event, until time.Duration) {
	h := m.hosts[e.N%len(m.hosts)]
	switch e.Kind {
	case HostCut:
		h.cutUntil = until
	case CutOperator:
		m.operatorCutFrom[h.n] = until
	case Drain:
		for _, o := range m.objects {
			if o.pod != nil && o.pod.host == h.n && o.pod.phase.live() && !o.pod.deleting {
				o.pod.delete(m.now)
			}
		}
	case HostDown:
		h.up, h.backAt = false, 0
		switch {
		case e.For > 0:
			h.backAt = until
		case !slices.ContainsFunc(m.hosts, func(o *host) bool { return o.up || o.backAt > 0 }):
			h.backAt = m.now + time.Minute // without any host nothing could ever be as wanted
		}
		for _, s := range m.servers {
			if s.alive && s.host == h.n {
				s.alive = false
			}
		}
		m.mourn()
	}
}

// hitPods takes pods away through the API server.
func (m *Model) hitPods(e Event) {
	var live []*object
	for _, o := range m.objects {
		if o.pod != nil && o.pod.phase.live() && !o.pod.deleting {
			live = append(live, o)
		}
	}
	if len(live) == 0 {
		return
	}
	o := live[e.N%len(live)]
	switch e.Kind {
	case DeleteAll:
		for _, o := range live {
			o.pod.delete(m.now)
		}
	case DeletePod:
		o.pod.delete(m.now)
	case ForceDelete:
		o.pod.phase = phase(plan.PodAbsent)
		if s := o.pod.server; s != nil && s.alive {
			s.die() // the kubelet kills it within moments
		}
	case Evict:
		if s := o.pod.server; s != nil && s.alive {
			s.die()
		}
		m.ended(o, false)
	}
}

func (m *Model) hitServers(e Event, until time.Duration) {
	victims := m.victims(e.Kind)
	if len(victims) == 0 {
		return
	}
	v := victims[e.N%len(victims)]
	m.note("  hits %s", v.id)
	switch e.Kind {
	case KillPrimary, KillReplica, KillNewest:
		v.die()
	case KillShard:
		for _, s := range m.servers {
			if s.alive && (s == v || s.following == v.n) {
				s.alive = false
			}
		}
		m.mourn()
	case KillAll:
		for _, s := range m.servers {
			s.alive = false
		}
		m.mourn()
	case Sleep:
		v.asleepUntil = until
	case Lag:
		v.lag(e.For)
	case PairCut:
		other := victims[(e.N/7+1)%len(victims)]
		if other != v {
			m.cutPairs[pair(v.n, other.n)] = cut{until}
		}
	}
}

// victims are the living servers that an event may hit.
func (m *Model) victims(kind Kind) []*server {
	var out []*server
	for _, s := range m.servers {
		fits := s.alive && s.object != nil
		switch kind {
		case KillPrimary, KillShard:
			fits = fits && s.voter()
		case KillReplica, Lag:
			fits = fits && !s.primary()
		}
		if fits {
			out = append(out, s)
		}
	}
	if kind == KillNewest && len(out) > 0 {
		return out[len(out)-1:]
	}
	return out
}
