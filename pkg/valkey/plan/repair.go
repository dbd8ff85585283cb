package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

func wait(again time.Duration, format string, args ...any) answer {
	a := Wait{For: fmt.Sprintf(format, args...), Again: again}
	return answer{action: a, why: "it happens by itself"}
}

func hold(format string, args ...any) answer {
	return answer{action: Hold{Because: fmt.Sprintf(format, args...)}, why: "somebody has to look"}
}

func do(a Action, format string, args ...any) answer {
	return answer{action: a, why: fmt.Sprintf(format, args...)}
}

// forgetDeparted removes ghosts from every member's view. It must not come before the
// promotion (op#103: a replica cannot be elected for a primary that is forgotten), not while
// the process may live (#2788: it would gossip itself back), and not while slots move to or
// from it (#3596).
func (p *picture) forgetDeparted() answer {
	var waiting answer
	for _, u := range p.ghosts {
		if a := p.forgetOne(u); a.action != nil {
			if IsDeed(a.action) {
				return a
			}
			waiting = a
		}
	}
	return waiting
}

func (p *picture) forgetOne(u *unit) answer {
	if !u.gone() {
		if u.node != nil {
			return answer{}
		}
		if u.namesake != nil {
			return wait(later, "%s to answer: it may be %s", u.namesake.name(), u.id)
		}
		if p.obs.attempts("ForeignNode", string(u.id)).Ago > 2*p.target.NodeTimeout {
			return hold("server %s is alive and is none of this cluster's: two clusters may have met; separate them by NetworkPolicy or TLS", u.id)
		}
		return wait(soon, "the last links to %s, which is none of our nodes, to end", u.id)
	}
	for _, m := range p.units {
		if m.answering() && m.following == u.id {
			if u.slots.Empty() {
				return answer{} // dropStranded removes the follower first
			}
			return wait(soon, "%s to leave its lost primary %s", m.name(), u.name())
		}
	}
	if !u.slots.Empty() {
		for _, v := range p.units {
			if v.silent() && v.following == u.id {
				return answer{} // promoteIn waits for it
			}
		}
	}
	if other := p.partial(u); other != nil {
		return wait(later, "%s to answer before %s is forgotten", other.name(), u.name())
	}
	if len(p.moving(u)) > 0 {
		return wait(soon, "slot migrations with %s to end", u.name())
	}
	f := Forget{ID: u.id}
	for _, t := range u.told {
		f.On = append(f.On, t.by.id)
	}
	if u.slots.Empty() {
		return do(f, "%s has departed", u.name())
	}
	if heir := p.unaware(u); heir != nil {
		return do(f, "%s has departed, and %s, which does not know yet that it took over slots %s, has a copy", u.name(), heir.name(), u.slots)
	}
	return do(f, "%s has departed and no replica of it is left: the keys in slots %s are lost", u.name(), u.slots)
}

// unaware finds a replica that still follows the former owner of all slots of a departed primary: it has not heard who took
// them over. The servers tell it only in answer to a request for votes, and not even then where the heir kept its config
// epoch at a TAKEOVER (9.1.2). Once all have forgotten the heir, the replica inherits from whom it follows.
func (p *picture) unaware(lost *unit) *unit {
	for _, u := range p.core {
		if u.role != topology.Replica {
			continue
		}
		former := p.byID[u.following]
		believed, _ := u.server.View.Find(u.following)
		rest := lost.slots.Minus(slot.Of(believed.Slots...))
		if former != nil && former.gone() && rest.Empty() {
			return u
		}
	}
	return nil
}

// dropDead removes ValkeyNodes whose pod is gone and whom no member lists any more.
func (p *picture) dropDead() answer {
	for _, u := range p.units {
		if u.node != nil && !u.node.Deleting && u.gone() && len(u.told) == 0 && !p.crashed(u) {
			return do(RemoveNodes{[]Removal{u.removal()}}, "its pod is %s: %s", u.node.Pod.Phase, cmp.Or(u.node.Pod.Reason, "it ended"))
		}
	}
	return answer{}
}

// crashed says that a node exited before it ever answered, made of the spec in force: most
// likely its configuration or engine is at fault, and the next one would do the same. Once
// the spec is corrected it is outdated, and replaced at once like every dead node.
func (p *picture) crashed(u *unit) bool {
	return u.gone() && u.node.Pod.Crashed && u.node.KnownID == "" && !p.outdated(u)
}

// retryCrashed replaces crashed nodes, ever more slowly: all of them in one try, once the pause is over for one.
func (p *picture) retryCrashed() answer {
	pause := backoff(p.obs.attempts("CrashedNode", startSubject).Count, 10*time.Second, 5*time.Minute)
	var crashed []Removal
	var longest *unit
	for _, u := range p.units {
		if u.node == nil || u.node.Deleting || !p.crashed(u) {
			continue
		}
		crashed = append(crashed, u.removal())
		if longest == nil || u.node.Pod.EndedFor > longest.node.Pod.EndedFor {
			longest = u
		}
	}
	switch {
	case longest == nil:
		return answer{}
	case longest.node.Pod.EndedFor < pause:
		return wait(later, "a correction, or %s until the next try: %s exited before it answered: %s", pause, longest.node.Name, longest.node.Pod.Reason)
	case len(crashed) > 1:
		return do(RemoveNodes{crashed}, "they exited before they answered, %s: %s", longest.node.Name, longest.node.Pod.Reason)
	}
	return do(RemoveNodes{crashed}, "it exited before it answered: %s", longest.node.Pod.Reason)
}

// startSubject is the subject of attempts to start nodes.
const startSubject = "start"

// backoff doubles from a first step; none before the first failure.
func backoff(failures int, first, most time.Duration) time.Duration {
	if failures == 0 {
		return 0
	}
	return min(first<<min(failures-1, 20), most)
}

func (u *unit) removal() Removal { return Removal{u.node.Name, u.node.Pod.UID} }

// dropUnborn removes nodes that never joined and own nothing, where the spec in force would
// make them otherwise or not at all. This cures a bad image, request or placement.
func (p *picture) dropUnborn() answer {
	surplus := map[*unit]bool{}
	for _, s := range p.shards {
		// The last to come go first; a leaving shard needs nobody.
		extra := len(s.usable()) - p.target.Replicas - 1
		for i := len(s.coming) - 1; i >= 0 && extra > 0 && !p.rolling(s); i-- {
			surplus[s.coming[i]] = true
			extra--
		}
	}
	for i, u := range p.idle {
		surplus[u] = surplus[u] || p.unneeded(u, p.idle[:i])
	}
	for _, u := range p.units {
		if u.node == nil || u.node.Deleting || u.gone() || !u.unborn() {
			continue
		}
		switch {
		case p.outdated(u):
			return do(RemoveNodes{[]Removal{u.removal()}}, "it never joined and is made of an outdated spec")
		case surplus[u]:
			return do(RemoveNodes{[]Removal{u.removal()}}, "it never joined and is not needed any more")
		}
	}
	return answer{}
}

// unborn says that the node was never part of the cluster: not started, not answering yet, or
// still alone and empty.
func (u *unit) unborn() bool {
	if u.answering() {
		return u.slots.Empty() && u.role == topology.Primary && len(u.server.View.Peers) <= 1
	}
	return u.unseen() && len(u.told) == 0
}

// unneeded says whether a node without a shard would find no seat: the target has no shard
// for its index, or that shard is full.
func (p *picture) unneeded(u *unit, before []*unit) bool {
	mates := 0
	indices := map[int]bool{}
	for _, s := range p.shards {
		if !s.leaving() {
			indices[s.index] = true
		}
	}
	for _, v := range before {
		if !v.gone() && !v.ending() {
			indices[v.node.Shard] = true
			if v.node.Shard == u.node.Shard {
				mates++
			}
		}
	}
	if !indices[u.node.Shard] && len(indices) >= p.target.Shards {
		return true
	}
	return mates > p.target.Replicas
}

// dropStranded removes nodes that cannot find into the cluster by themselves and own
// nothing: a replica of an empty primary that is gone (it can never be elected), and a newcomer that
// somebody else's cluster has met or whose config epoch is in use.
func (p *picture) dropStranded() answer {
	var waiting answer
	for _, u := range p.units {
		if !u.answering() || u.node.Deleting || !u.slots.Empty() {
			continue
		}
		why := p.stranded(u)
		switch other := p.partial(u); {
		case why == "":
		case other != nil && len(u.server.View.Peers) > 1: // the one that is not heard may count on it
			waiting = wait(later, "%s to answer before %s is removed: %s", other.name(), u.name(), why)
		default:
			return do(RemoveNodes{[]Removal{u.removal()}}, "%s", why)
		}
	}
	return waiting
}

// stranded says why a node cannot find into the cluster; empty if it can.
func (p *picture) stranded(u *unit) string {
	if u.core && u.role == topology.Replica {
		// One that has a shard of its index is attached there. One that believes its
		// primary to own slots has not heard yet who took them over.
		believed, _ := u.server.View.Find(u.following)
		if u.shard == nil && len(believed.Slots) == 0 && p.orphaned(u) {
			return fmt.Sprintf("its primary %s is gone and owned nothing", u.following)
		}
	}
	// A replica apart may be a last copy, unless answering members own every slot.
	if !u.core && p.spoiled(u) && (u.role == topology.Primary || p.covered) {
		return "it knows servers that are not of this cluster, or has a config epoch in use"
	}
	return ""
}

// spoiled says that a stranger knows servers which are not ours, or that its config epoch is
// another's, or below a ghost's: its claims would lose for ever. Epochs cannot be set twice.
func (p *picture) spoiled(u *unit) bool {
	for _, peer := range u.server.View.Peers {
		if peer.ID != u.id && !peer.Handshake && p.byID[peer.ID] == nil {
			return true
		}
	}
	mine := u.me().Epoch
	if mine == 0 {
		return false
	}
	for _, v := range p.units {
		if v.server != nil && v != u && v.me().Epoch == mine {
			return true
		}
	}
	for _, g := range p.ghosts {
		for _, t := range g.told {
			if t.peer.Epoch >= mine {
				return true
			}
		}
	}
	return false
}

// names prints units by name.
func names(units []*unit) string {
	out := make([]string, len(units))
	for i, u := range units {
		out[i] = u.name()
	}
	return list(out)
}

// giveSlots assigns unowned slots to the primaries that wait for some, one primary a tick,
// evenly and in ranges. All views must agree how many slots have an owner: with gossip under
// way, what looks free may be owned already.
func (p *picture) giveSlots() answer {
	if a := p.takeBack(); a.action != nil {
		return a
	}
	if p.unassigned.Empty() {
		return answer{}
	}
	takers, parts := p.takers()
	if len(takers) == 0 {
		return answer{}
	}
	if other := p.partial(nil); other != nil {
		return wait(later, "%s to answer before slots %s are given away", other.name(), p.unassigned)
	}
	for _, u := range p.core {
		if len(u.greeting) > 0 || u.server.SlotsAssigned != slot.Count-p.unassigned.Len() {
			return wait(soon, "%s to agree that %d slots are assigned (it says %d)", u.name(), slot.Count-p.unassigned.Len(), u.server.SlotsAssigned)
		}
	}
	if a := p.copyFunctions(takers[0]); a.action != nil {
		return a
	}
	// Contiguous pieces: the first taker gets the lowest slots. One that has some gets what it lacks of an even
	// share: a part of what is left again and again would take a tick for each halving.
	n := (p.unassigned.Len() + parts - 1) / parts
	if own := takers[0].slots.Len(); own > 0 {
		n = (slot.Count+parts-1)/parts - own
	}
	return do(p.assign(takers[0], p.unassigned.First(n)), "%d slots have no owner", p.unassigned.Len())
}

// takeBack gives slots that nobody claims back to the primary that owned them last, while some views
// still have it so and its own knows of no owner: its heir died, and was forgotten, before all had
// heard of it. Views keep a slot where it was until another one claims it.
func (p *picture) takeBack() answer {
	if p.adrift.Empty() || p.partial(nil) != nil {
		return answer{}
	}
	for _, u := range p.core {
		slots := p.adrift
		for i := range u.server.View.Peers {
			slots = slots.Minus(slot.Of(u.server.View.Peers[i].Slots...))
		}
		var believed slot.Set
		for _, t := range u.told {
			believed = believed.Union(slot.Of(t.peer.Slots...))
		}
		slots = slots.Intersect(believed)
		if u.role != topology.Primary || slots.Empty() {
			continue
		}
		return do(p.assign(u, slots), "%d slots went to a node that has departed, and not all members have heard of it", slots.Len())
	}
	return answer{}
}

// assign gives slots to a member and has it tell all others.
func (p *picture) assign(to *unit, slots slot.Set) Assign {
	a := Assign{Primary: to.id, Slots: slots}
	for _, u := range p.core {
		if u != to {
			a.Tell = append(a.Tell, u.id)
		}
	}
	return a
}

// takers are the primaries that unowned slots go to, and into how many parts the slots are
// cut: the empty primaries that were chosen, by index, leaving a part for each shard that
// is still to come; if no shard is to come and none is empty, all owners, the smallest first.
func (p *picture) takers() (takers []*unit, parts int) {
	var owners []*unit
	for _, s := range p.shards {
		switch {
		case !s.primary.core || s.leaving():
		case s.slots().Empty():
			takers = append(takers, s.primary)
		default:
			owners = append(owners, s.primary)
		}
	}
	missing := max(p.target.Shards-(len(p.shards)-p.leavingShards()), 0)
	if len(takers)+missing > 0 {
		return takers, len(takers) + missing
	}
	slices.SortStableFunc(owners, func(a, b *unit) int { return cmp.Compare(a.slots.Len(), b.slots.Len()) })
	return owners, len(owners)
}
