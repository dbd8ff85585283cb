package plan

import (
	"fmt"

	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// allowedFailover: to a replica of that primary while no slots move; in sync and nothing else disturbed if coordinated, of
// a primary that is lost if not.
func allowedFailover(obs Observation, a Failover) error {
	r := find(obs, a.Replica)
	if r == nil || r.Server == nil || r.Server.View.Me().PrimaryID != a.Primary {
		return fmt.Errorf("failover to %s: it is not a replica of %s", a.Replica, a.Primary)
	}
	if jobsOf(obs, a.Primary) {
		return fmt.Errorf("failover to %s: slots move to or from its shard", r.Name)
	}
	p := find(obs, a.Primary)
	switch a.Mode {
	case Coordinated:
		if p == nil || p.Server == nil || !replicated(r, p) {
			return fmt.Errorf("failover to %s: it is not in sync", r.Name)
		}
		if p.Deleting || p.Pod.Deleting {
			return nil // the shard is disturbed already, and not by us
		}
		if other := unheard(obs, nil); other != nil {
			return fmt.Errorf("failover to %s: the view is partial, %s does not answer", r.Name, other.Name)
		}
		return otherWhole(obs, map[topology.NodeID]bool{a.Primary: true})
	case Force:
		if p != nil && p.Server != nil {
			return fmt.Errorf("failover to %s by force: primary %s answers", r.Name, p.Name)
		}
		if seen, ok := r.Server.View.Find(a.Primary); ok && p != nil && !p.Pod.Gone() && !seen.Failing && !seen.Failed {
			return fmt.Errorf("failover to %s by force: it does not find primary %s failing", r.Name, p.Name)
		}
	case Takeover:
		return allowedTakeover(obs, a, r, p)
	}
	return nil
}

// allowedTakeover counts anew: of the owners of slots in the replica's view half or more cannot vote, since they are gone, do
// not answer and are not Ready, own nothing, or do not know the primary. And no Ready pod may be out of our reach.
func allowedTakeover(obs Observation, a Failover, replica, primary *Node) error {
	for _, n := range obs.Nodes {
		if n.Server == nil && n.KnownID != "" && n.Pod.Ready && !n.Pod.Gone() {
			return fmt.Errorf("takeover by %s: cut off from %s, whose pod is Ready", a.Replica, n.Name)
		}
	}
	if primary != nil && primary.Server != nil {
		return fmt.Errorf("takeover by %s: primary %s answers", a.Replica, primary.Name)
	}
	owners, mute := 0, 0
	for _, p := range replica.Server.View.Peers {
		if len(p.Slots) == 0 {
			continue
		}
		owners++
		other := find(obs, p.ID)
		switch {
		case other == nil && p.Linked, other != nil && other.Server == nil && !other.Pod.Gone() && other.Pod.Ready:
		case other == nil || other.Server == nil:
			mute++
		default:
			if _, knows := other.Server.View.Find(a.Primary); !knows || len(other.Server.View.Me().Slots) == 0 {
				mute++
			}
		}
	}
	if 2*mute < owners {
		return fmt.Errorf("takeover by %s: only %d of %d owners of slots cannot vote", a.Replica, mute, owners)
	}
	return nil
}
