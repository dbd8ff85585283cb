package plan

import (
	"slices"

	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// seedEpoch gives the node that all others will meet a config epoch of its own, while it is
// still alone: later it cannot be set.
func (p *picture) seedEpoch() answer {
	if len(p.core) == 0 {
		return answer{}
	}
	seed := p.core[0]
	if len(seed.server.View.Peers) > 1 || seed.me().Epoch > 0 || !seed.slots.Empty() || tooOld(seed) {
		return answer{}
	}
	return do(SetEpoch{seed.node.Name, seed.id, p.maxEpoch(seed) + 1}, "it is the first node of the cluster")
}

// meetMissing makes every node known to every other: first one newcomer a tick, which meets
// all that have entered before it at once (a mesh forms faster than a star), then pairs of
// which one side does not know the other: a handshake can stay one-sided (#1251).
func (p *picture) meetMissing() answer {
	entered := slices.Clone(p.core)
	for _, u := range p.strangers {
		if len(u.greeting) > 0 && u.slots.Empty() && !p.spoiled(u) {
			entered = append(entered, u)
		}
	}
	for _, u := range p.strangers {
		if tooOld(u) || u.ending() || !u.slots.Empty() || len(u.greeting) > 0 || p.spoiled(u) {
			continue
		}
		return do(Meet{Node: u.node.Name, ID: u.id, Epoch: p.epochToJoin(u), With: ids(entered)}, "no member knows it")
	}
	return p.meetGaps()
}

// epochToJoin is the config epoch that a node without one gets while it knows nobody yet: above all that are known, also
// those of the dead. 0: it has one, or it is too late to set it.
func (p *picture) epochToJoin(u *unit) uint64 {
	if u.me().Epoch > 0 || len(u.server.View.Peers) > 1 {
		return 0
	}
	return p.maxEpoch(u) + 1
}

func (p *picture) meetGaps() answer {
	for _, u := range p.core {
		if len(u.told) == len(p.core)-1 {
			continue
		}
		knownBy := make(map[*unit]bool, len(u.told))
		for _, t := range u.told {
			knownBy[t.by] = true
		}
		m := Meet{Node: u.node.Name, ID: u.id, Epoch: p.epochToJoin(u)}
		for _, v := range p.core {
			if v == u || knownBy[v] {
				continue
			}
			if u.greeting[v.node.Pod.IP] || v.greeting[u.node.Pod.IP] {
				return wait(soon, "%s and %s to shake hands", u.name(), v.name())
			}
			if epoch := p.epochToJoin(v); epoch > 0 { // it meets the other, or would be met without one
				return do(Meet{Node: v.node.Name, ID: v.id, Epoch: epoch, With: []topology.NodeID{u.id}}, "it knows nobody")
			}
			m.With = append(m.With, v.id)
		}
		return do(m, "%d members do not know it", len(m.With))
	}
	for _, u := range p.units {
		if u.answering() && len(u.greeting) > 0 {
			return wait(soon, "%s to end %d handshakes", u.name(), len(u.greeting))
		}
	}
	return answer{}
}

func ids(units []*unit) []topology.NodeID {
	out := make([]topology.NodeID, len(units))
	for i, u := range units {
		out[i] = u.id
	}
	return out
}
