package plan

import "github.com/momentohq/valkey-operator/pkg/valkey/slot"

// holdWhilePaused respects the owner's annotation.
func (p *picture) holdWhilePaused() answer {
	if p.target.Paused {
		a := hold("the cluster is paused by annotation")
		a.why = "it goes on once the annotation is removed"
		return a
	}
	return answer{}
}

// holdBeforeStrangers stops where a live server that is not ours owns slots in our view:
// two clusters have merged through a reused address (C4), and whatever we moved or gave away might
// be another team's data. A foreign server without slots is left alone: never met, never
// forgotten as ours.
func (p *picture) holdBeforeStrangers() answer {
	for _, u := range p.ghosts {
		if u.node == nil && u.linked() && !u.slots.Empty() {
			return hold("server %s is alive, owns slots %s in this cluster's view and is not ours: two clusters may have met; separate them by NetworkPolicy or TLS and remove it by hand", u.id, u.slots)
		}
	}
	return answer{}
}

// holdBeforeRivals stops where two groups that do not know each other both own slots (A13).
func (p *picture) holdBeforeRivals() answer {
	if len(p.rivals) == 0 {
		return answer{}
	}
	return hold("nodes %s own slots apart from the rest of the cluster: joining them would lose one side's data", names(p.rivals))
}

// awaitMemory waits where nobody who remembers the cluster answers, say while the operator is cut
// off. Nothing follows from what no view lists then: neither that a dead node was forgotten nor
// that a shard lacks nodes.
func (p *picture) awaitMemory() answer {
	u := p.blind()
	if u == nil || p.obs.Creating { // at the beginning there is nothing to remember
		return answer{}
	}
	return wait(later, "%s to answer (%s): nobody who does knows of an owner of slots", u.name(), u.node.Silence)
}

// blind finds a silent node that may know the owners of slots, where nobody who answers knows of any.
func (p *picture) blind() *unit {
	if p.unassigned != slot.All() {
		return nil
	}
	for _, u := range p.units {
		if u.silent() && u.node != nil {
			return u
		}
	}
	return nil
}
