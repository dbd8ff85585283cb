package plan

import (
	"cmp"
	"slices"
)

// rolling says that a shard has outdated nodes, and may for a while have one node more than
// the target.
func (p *picture) rolling(s *shard) bool {
	return slices.ContainsFunc(s.usable(), p.outdated)
}

// roll replaces outdated nodes, one shard at a time, in the order of the indices:
//
//	outdated replica, shard at strength    ->  create an up-to-date node
//	outdated replica, one node to spare    ->  retire it
//	only the primary is outdated           ->  coordinated failover to an up-to-date replica
//
// After the failover the old primary is an outdated replica. The shard never drops below
// its target; each step begins only when the stability rules have nothing to wait for,
// so the replacement is in sync before anything retires.
func (p *picture) roll() answer {
	for _, s := range p.shards {
		if !p.rolling(s) || s.leaving() {
			continue
		}
		return p.rollShard(s)
	}
	return answer{}
}

func (p *picture) rollShard(s *shard) answer {
	spare := len(s.usable()) - p.target.Replicas - 1
	create := CreateNodes{[]NewNode{{Shard: s.index, Join: JoinReplica}}}
	var old, fresh []*unit
	for _, u := range s.replicas {
		switch {
		case !u.core || u.ending():
		case p.outdated(u):
			old = append(old, u)
		case inSync(u, s.primary):
			fresh = append(fresh, u)
		}
	}
	switch {
	case len(old) > 0 && spare > 0:
		victim := slices.MinFunc(old, func(a, b *unit) int { return cmp.Compare(a.node.Name, b.node.Name) })
		return do(RemoveNodes{[]Removal{victim.removal()}}, "it is outdated and shard %d has a node to spare", s.index)
	case len(old) > 0 || len(fresh) == 0:
		return do(create, "shard %d has outdated nodes", s.index)
	}
	best := slices.MaxFunc(fresh, func(a, b *unit) int { return cmp.Compare(a.server.Offset, b.server.Offset) })
	tried := p.obs.attempts("OutdatedNodes", string(s.primary.id))
	if pause := backoff(tried.Count, 2*p.target.NodeTimeout, 8*p.target.NodeTimeout); tried.Count > 0 && tried.Ago < pause {
		return wait(soon, "%s to be promoted (attempt %d)", best.name(), tried.Count)
	}
	return do(Failover{Replica: best.id, Primary: s.primary.id, Mode: Coordinated},
		"failover to up-to-date replica for rolling upgrade of shard %d", s.index)
}
