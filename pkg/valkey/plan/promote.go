package plan

import (
	"slices"

	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// promote sees to a live primary for every shard that has a living replica:
//
//	no quorum                  ->  TAKEOVER on the best replica
//	process proven dead, fast  ->  FORCE on the best replica, once per two node timeouts
//	else                       ->  wait for the servers' own election, then FORCE
func (p *picture) promote() answer {
	var waiting answer
	for _, s := range p.shards {
		if s.slots().Empty() || s.primary.answering() {
			continue
		}
		a := p.promoteIn(s)
		if a.action != nil && IsDeed(a.action) {
			return a
		}
		if waiting.action == nil {
			waiting = a
		}
	}
	return waiting
}

func (p *picture) promoteIn(s *shard) answer {
	primary, best := s.primary, s.best()
	if best == nil {
		if !primary.gone() {
			return wait(later, "primary %s of shard %d to answer", primary.name(), s.index)
		}
		for _, u := range s.replicas {
			if u.silent() {
				return wait(later, "%s, the last that may hold slots %s, to answer", u.name(), s.slots())
			}
		}
		return answer{} // the shard is lost: forgetDeparted and giveSlots see to it
	}
	if sources := p.liveSources(primary); len(sources) > 0 {
		return do(CancelMoves{Sources: sources}, "slots move while primary %s is lost", primary.name())
	}
	tried := p.obs.attempts("PrimaryDown", string(primary.id))
	patience := 2 * p.target.NodeTimeout
	if tried.Count > 0 && tried.Ago < patience {
		return wait(soon, "%s to be promoted in place of %s (attempt %d)", best.name(), primary.name(), tried.Count)
	}
	if primary.dead() && p.quorumLost(primary, best) {
		if cut := p.cutOff(); cut != nil {
			return hold("operator cut off from %s, whose pod is Ready: it may be on the wrong side of a partition", cut.name())
		}
		return do(Failover{Replica: best.id, Primary: primary.id, Mode: Takeover},
			"primary %s is lost and too few primaries are left to elect its replica", primary.name())
	}
	force := Failover{Replica: best.id, Primary: primary.id, Mode: Force}
	switch {
	case p.target.Failover != FailoverNative && provenDead(primary, best):
		return do(force, "the process of primary %s is proven dead", primary.name())
	case primary.flagged() && primary.flaggedBy(best) && !best.server.LinkUp && best.server.LinkDownFor >= patience:
		return do(force, "primary %s is lost and nobody was elected for %s", primary.name(), patience)
	}
	return wait(soon, "%s: primary unhealthy but replicas exist, waiting for auto-failover", primary.name())
}

// handOver has a replica take over from a primary that is being removed while it still serves. The server does so
// itself when its process is asked to end, but first awaits a replica's next report, for up to a second while
// keys are written; the coordinated failover asks for it.
func (p *picture) handOver() answer {
	for _, s := range p.shards {
		u := s.primary
		if s.slots().Empty() || !u.ending() || !u.answering() || len(p.moving(u)) > 0 || p.obs.attempts("PrimaryEnding", string(u.id)).Count > 0 {
			continue
		}
		if heir := s.best(); heir != nil && !heir.ending() && inSync(heir, u) {
			return do(Failover{Replica: heir.id, Primary: u.id, Mode: Coordinated}, "primary %s of shard %d is being removed", u.name(), s.index)
		}
	}
	return answer{}
}

// provenDead says that the primary's process has ended, by the word of the API server and,
// where the pod is merely absent, of its own replica's broken link.
func provenDead(primary, replica *unit) bool {
	if primary.node == nil {
		return !primary.linked() && !replica.server.LinkUp
	}
	switch primary.node.Pod.Phase {
	case PodFailed, PodSucceeded:
		return true
	case PodAbsent:
		return !replica.server.LinkUp
	}
	return false
}

// cutOff finds a node that Kubernetes calls Ready and that the operator cannot reach.
func (p *picture) cutOff() *unit {
	for _, u := range p.units {
		if u.silent() && u.node != nil && u.node.Pod.Ready {
			return u
		}
	}
	return nil
}

// liveSources lists the answering primaries that export slots to the unit.
func (p *picture) liveSources(u *unit) []topology.NodeID {
	var out []topology.NodeID
	for _, m := range p.core {
		for _, job := range m.server.Migrations {
			if job.Export && job.State == topology.Running && job.Target == u.id && !slices.Contains(out, m.id) {
				out = append(out, m.id)
			}
		}
	}
	return out
}
