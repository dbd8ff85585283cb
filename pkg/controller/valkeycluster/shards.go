package valkeycluster

import (
	"cmp"
	"slices"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// serving is one owner of slots with its replicas, as the servers tell.
type serving struct {
	primary topology.NodeID
	name    plan.NodeName // empty where no ValkeyNode of ours has that ID
	// answers: the owner itself says that it owns them. An owner that is silent owns what its peers say.
	answers  bool
	slots    slot.Set
	replicas []plan.NodeName
}

// servings joins the views: what an answering server says of itself counts, and its peers'
// word only about those that are silent. They are ordered by their lowest slot.
func servings(obs plan.Observation) []serving {
	byID := map[topology.NodeID]*serving{}
	var owners []*serving
	answered := map[topology.NodeID]bool{}
	names := map[topology.NodeID]plan.NodeName{}
	var taken slot.Set
	for _, n := range obs.Nodes {
		names[n.ID()] = n.Name
		if n.Server == nil {
			continue
		}
		answered[n.ID()] = true
		me := n.Server.View.Me()
		if me.Role != topology.Primary || len(me.Slots) == 0 {
			continue
		}
		s := &serving{primary: n.ID(), name: n.Name, answers: true, slots: slot.Of(me.Slots...)}
		taken = taken.Union(s.slots)
		byID[s.primary] = s
		owners = append(owners, s)
	}
	for _, p := range silentOwners(obs, answered) {
		left := slot.Of(p.Slots...).Minus(taken)
		if left.Empty() {
			continue
		}
		s := &serving{primary: p.ID, name: names[p.ID], slots: left}
		taken = taken.Union(left)
		byID[p.ID] = s
		owners = append(owners, s)
	}
	for _, n := range obs.Nodes {
		if n.Server == nil || n.Server.View.Me().Role != topology.Replica {
			continue
		}
		if s := byID[n.Server.View.Me().PrimaryID]; s != nil {
			s.replicas = append(s.replicas, n.Name)
		}
	}
	slices.SortFunc(owners, func(a, b *serving) int {
		return cmp.Or(cmp.Compare(lowest(a.slots), lowest(b.slots)), cmp.Compare(a.primary, b.primary))
	})
	out := make([]serving, len(owners))
	for i, s := range owners {
		slices.Sort(s.replicas)
		out[i] = *s
	}
	return out
}

// silentOwners are the peers' lines about owners of slots that did not answer, the newest
// epoch of each, in a fixed order with newer epochs first: of two claims the newer counts.
func silentOwners(obs plan.Observation, answered map[topology.NodeID]bool) []topology.Peer {
	newest := map[topology.NodeID]topology.Peer{}
	for _, n := range obs.Nodes {
		if n.Server == nil {
			continue
		}
		for _, p := range n.Server.View.Peers {
			if len(p.Slots) == 0 || answered[p.ID] {
				continue
			}
			if known, ok := newest[p.ID]; !ok || p.Epoch > known.Epoch {
				newest[p.ID] = p
			}
		}
	}
	var out []topology.Peer
	for _, p := range newest {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b topology.Peer) int {
		return cmp.Or(cmp.Compare(b.Epoch, a.Epoch), cmp.Compare(a.ID, b.ID))
	})
	return out
}

func lowest(s slot.Set) int {
	ranges := s.Ranges()
	if len(ranges) == 0 {
		return slot.Count
	}
	return ranges[0].First
}

// served is the set of slots whose owner answers and finds the cluster in order.
func served(obs plan.Observation) slot.Set {
	var out slot.Set
	for _, n := range obs.Nodes {
		if n.Server == nil || !n.Server.StateOK {
			continue
		}
		if me := n.Server.View.Me(); me.Role == topology.Primary {
			out = out.Union(slot.Of(me.Slots...))
		}
	}
	return out
}

func shardStatuses(all []serving) []v1alpha1.ShardStatus {
	out := make([]v1alpha1.ShardStatus, 0, len(all))
	for _, s := range all {
		one := v1alpha1.ShardStatus{
			ID:        string(s.primary),
			Primary:   string(s.name),
			SlotCount: int32(s.slots.Len()),
		}
		for _, r := range s.replicas {
			one.Replicas = append(one.Replicas, string(r))
		}
		for _, r := range s.slots.Ranges() {
			one.Slots = append(one.Slots, r.String())
		}
		out = append(out, one)
	}
	return out
}

// nodeSummaries lists the nodes by name. A silent one keeps the role that it had.
func nodeSummaries(old []v1alpha1.NodeSummary, obs plan.Observation) []v1alpha1.NodeSummary {
	roles := map[string]v1alpha1.NodeRole{}
	for _, n := range old {
		roles[n.Name] = n.Role
	}
	out := make([]v1alpha1.NodeSummary, 0, len(obs.Nodes))
	for _, n := range obs.Nodes {
		one := v1alpha1.NodeSummary{
			Name:       string(n.Name),
			ShardIndex: int32(n.Shard),
			NodeID:     string(n.ID()),
			PodIP:      n.Pod.IP,
			Zone:       n.Pod.Zone,
			Role:       roles[string(n.Name)],
		}
		if n.Server != nil {
			one.Role = v1alpha1.NodeRole(n.Server.View.Me().Role)
		}
		out = append(out, one)
	}
	return out
}
