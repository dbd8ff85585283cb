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
		return allowedTakeover(obs, a, p)
	}
	return nil
}

// allowedTakeover counts anew: half or more of the owners must be gone, or flagged by every
// answering primary and not Ready; and no Ready pod may be out of our reach.
func allowedTakeover(obs Observation, a Failover, primary *Node) error {
	owners, lost := map[topology.NodeID]bool{}, map[topology.NodeID]bool{}
	for _, n := range obs.Nodes {
		if n.Server == nil {
			if n.KnownID != "" && n.Pod.Ready && !n.Pod.Gone() {
				return fmt.Errorf("takeover by %s: cut off from %s, whose pod is Ready", a.Replica, n.Name)
			}
			continue
		}
		for _, p := range n.Server.View.Peers {
			if len(p.Slots) == 0 || p.Handshake {
				continue
			}
			owners[p.ID] = true
			other := find(obs, p.ID)
			if other == nil && !p.Linked || other != nil && other.Server == nil && (other.Pod.Gone() || !other.Pod.Ready) {
				lost[p.ID] = true
			}
		}
	}
	for id := range owners { // a counted owner that claims nothing itself is none
		if n := find(obs, id); n != nil && n.Server != nil && len(n.Server.View.Me().Slots) == 0 {
			delete(owners, id)
		}
	}
	if primary != nil && primary.Server != nil {
		return fmt.Errorf("takeover by %s: primary %s answers", a.Replica, primary.Name)
	}
	if 2*len(lost) < len(owners) {
		return fmt.Errorf("takeover by %s: only %d of %d owners of slots are lost", a.Replica, len(lost), len(owners))
	}
	return nil
}
