package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// begin takes the snapshot of the wanted shape. Nothing alive holds data of this cluster:
// either it is new, or every member is gone.
func (p *picture) begin() answer {
	if p.obs.Creating {
		return answer{}
	}
	s := Snapshot{p.target.Shards, p.target.Replicas}
	if p.obs.Formed {
		return do(s, "every node that held slots is gone: all keys are lost, a fresh cluster is formed")
	}
	return do(s, "the cluster does not exist yet")
}

// createMissing creates the nodes that shards lack, all at once and spread evenly over the
// indices: a pod costs nothing until it is met.
func (p *picture) createMissing() answer {
	return p.create(p.missing(JoinNone))
}

// repairStrength creates the replicas that shards lack and the nodes of lost shards, whose
// slots nobody owns. Shards that are merely wanted in addition come later.
func (p *picture) repairStrength() answer {
	if !p.contested.Empty() {
		return answer{} // a primary that was failed over and does not know yet has no shard to fill
	}
	if p.obs.Creating {
		return p.createMissing()
	}
	missing := p.missing(JoinPrimary)
	if p.unassigned.Empty() {
		missing = slices.DeleteFunc(missing, func(n NewNode) bool { return p.shardAt(n.Shard) == nil })
	}
	return p.create(missing)
}

func (p *picture) create(missing []NewNode) answer {
	if len(missing) == 0 {
		return answer{}
	}
	return do(CreateNodes{missing}, "shards lack %d nodes", len(missing))
}

// missing lists the nodes that the wanted shape lacks. The first node of a new shard gets
// the join type, the others are replicas; in a bootstrap (JoinNone) nobody has one.
func (p *picture) missing(join JoinType) []NewNode {
	replica := JoinReplica
	if join == JoinNone {
		replica = JoinNone
	}
	per := p.target.Replicas + 1
	staying := 0
	taken := map[int]bool{}
	var lacks []NewNode
	for _, s := range p.shards {
		taken[s.index] = true
		if s.leaving() {
			continue
		}
		staying++
		if s.primary.node == nil || s.primary.gone() {
			continue // no replica can join before it is promoted or forgotten
		}
		for range per - p.strength(s) {
			lacks = append(lacks, NewNode{s.index, replica})
		}
	}
	have := map[int]int{} // nodes of indices that have no shard yet
	for _, u := range p.idle {
		if (!u.gone() || p.crashes([]*unit{u}) > 0) && !u.ending() && u.node.Lifecycle != Leaving {
			have[u.node.Shard]++
		}
	}
	for i := 0; staying < p.target.Shards; i++ {
		if taken[i] {
			continue
		}
		staying++
		for n := have[i]; n < per; n++ {
			if n == 0 {
				lacks = append(lacks, NewNode{i, join})
			} else {
				lacks = append(lacks, NewNode{i, replica})
			}
		}
	}
	return spread(lacks)
}

// strength counts the nodes that have a seat in a shard.
func (p *picture) strength(s *shard) int { return len(s.usable()) + p.crashes(s.all()) + s.expected }

// crashes counts nodes that exited before they answered: retryCrashed sees to them, ever more
// slowly, and until then they keep their seats.
func (p *picture) crashes(units []*unit) int {
	n := 0
	for _, u := range units {
		if u.node != nil && !u.ending() && p.crashed(u) {
			n++
		}
	}
	return n
}

// spread puts the first node of every shard first, then the second of every shard, and so on.
func spread(nodes []NewNode) []NewNode {
	round := map[int]int{}
	rounds := map[int][]NewNode{}
	for _, n := range nodes {
		rounds[round[n.Shard]] = append(rounds[round[n.Shard]], n)
		round[n.Shard]++
	}
	var out []NewNode
	for r := range len(rounds) {
		out = append(out, rounds[r]...)
	}
	return out
}

// awaitNodes waits for pods that do not run yet and for servers that never answered. It tells
// why, in the scheduler's or the kubelet's words.
func (p *picture) awaitNodes() answer {
	var first *unit
	n := 0
	for _, u := range p.units {
		if u.node != nil && !u.gone() && (u.unseen() || u.node.Pod.IP == "") {
			n++
			if first == nil || first.node.Pod.Reason == "" && u.node.Pod.Reason != "" {
				first = u
			}
		}
	}
	if first == nil {
		return answer{}
	}
	why := first.node.Pod.Reason
	switch {
	case why != "":
		blocked := "pod cannot be scheduled or started"
		if p.obs.Creating {
			blocked = "bootstrap blocked: " + blocked // the contract's words
		}
		a := wait(later, "%d nodes to run; %s: %s: %s", n, blocked, first.node.Name, why)
		a.why = "it goes on once the cause is gone"
		return a
	case first.node.Pod.Phase == PodRunning:
		return wait(soon, "%d nodes to run and answer; %s does not answer yet", n, first.node.Name)
	}
	if first.node.Pod.Phase == PodNone {
		return wait(later, "%d nodes to run; %s has no pod yet", n, first.node.Name)
	}
	return wait(later, "%d nodes to run; %s is %s", n, first.node.Name, first.node.Pod.Phase)
}

// awaitEnding waits for nodes that are being removed: nothing voluntary begins meanwhile.
func (p *picture) awaitEnding() answer {
	for _, u := range p.units {
		if u.ending() && !u.gone() {
			return wait(later, "%s to end", u.name())
		}
	}
	return answer{}
}

// awaitSilent waits for nodes that answered before and do not now.
func (p *picture) awaitSilent() answer {
	for _, u := range p.units {
		if u.silent() && u.node != nil {
			return wait(later, "%s to answer (%s)", u.name(), u.node.Silence)
		}
	}
	return answer{}
}

// floor is the oldest engine that may join: slots move by CLUSTER MIGRATESLOTS (contract §8).
const floor = 9

// tooOld says whether the running binary, whatever its image declares, is below the floor.
func tooOld(u *unit) bool {
	major, err := strconv.Atoi(strings.SplitN(u.server.Version, ".", 2)[0])
	return err == nil && major < floor
}

// refuseOld reports engines below the floor; such a node is never met.
func (p *picture) refuseOld() answer {
	for _, u := range p.strangers {
		if tooOld(u) {
			return p.oldEngine(u)
		}
	}
	for _, u := range p.core {
		if tooOld(u) && len(u.server.View.Peers) <= 1 && u.slots.Empty() {
			return p.oldEngine(u)
		}
	}
	return answer{}
}

func (p *picture) oldEngine(u *unit) answer {
	return hold("%s runs Valkey %s, and at least %d.0.0 is needed: correct the image", u.name(), u.server.Version, floor)
}

// attachReplicas makes the nodes that came to a shard replicas of its primary, one a tick,
// and takes a replica off another replica.
func (p *picture) attachReplicas() answer {
	var waiting answer
	if p.obs.Creating && !p.unassigned.Empty() {
		return answer{} // a bootstrap assigns all slots first (contract §6)
	}
	for _, s := range p.shards {
		if !s.primary.core {
			continue
		}
		for _, u := range slices.Concat(s.coming, s.replicas) {
			if !u.core || u.following == s.primary.id || u.ending() || u.node.Lifecycle == Leaving && !(s.leaving() && p.orphaned(u)) {
				continue
			}
			if u.server.Keys > 0 && u.role == topology.Primary {
				waiting = hold("%s owns no slots and has %d keys: look at them, then remove the ValkeyNode", u.name(), u.server.Keys)
				continue
			}
			if peer, ok := u.server.View.Find(s.primary.id); !ok || peer.Role != topology.Primary || !p.mingled(u) {
				waiting = wait(soon, "%s and every member to know each other", u.name())
				continue
			}
			return do(Attach{Replica: u.id, Primary: s.primary.id}, "shard %d lacks a replica", s.index)
		}
	}
	return waiting
}

// orphaned says that the primary that a replica follows is gone and owns nothing: nobody can forget it before the replica
// follows another one.
func (p *picture) orphaned(u *unit) bool {
	lost := p.byID[u.following]
	return u.role == topology.Replica && (lost == nil || lost.gone() && lost.slots.Empty())
}

// mingled says that every member knows the node and has no handshake with it under way. The
// news of what it does next then reaches all at once; whoever it is not linked with would hear
// of it by gossip, half a node timeout later.
func (p *picture) mingled(u *unit) bool {
	return len(u.greeting) == 0 && len(u.told) == len(p.core)-1 &&
		!slices.ContainsFunc(p.core, func(v *unit) bool { return v.greeting[u.node.Pod.IP] })
}

// awaitSync waits until every replica has all that its primary has.
func (p *picture) awaitSync() answer {
	for _, s := range p.shards {
		for _, u := range s.replicas {
			if u.core && s.primary.core && !inSync(u, s.primary) {
				return wait(soon, "%s to be in sync with %s", u.name(), s.primary.name())
			}
		}
	}
	return answer{}
}

// welcome ends the joining of nodes that do their work now.
func (p *picture) welcome() answer {
	var done []NodeName
	for _, s := range p.shards {
		for _, u := range append([]*unit{s.primary}, s.replicas...) {
			if u.core && u.node.Lifecycle == Joining && !u.node.Deleting {
				done = append(done, u.node.Name)
			}
		}
	}
	if len(done) == 0 {
		return answer{}
	}
	slices.Sort(done)
	return do(SetLifecycle{done, Active}, "%d nodes have joined", len(done))
}

// awaitAgreement waits until every member says that all is well and sees every other member
// as that one sees itself: a cluster is not formed while one view is wrong.
func (p *picture) awaitAgreement() answer {
	if !p.contested.Empty() {
		return wait(soon, "two nodes to settle who owns slots %s", p.contested)
	}
	if !p.adrift.Empty() {
		return wait(soon, "the new owner of slots %s to say so", p.adrift)
	}
	for _, u := range p.core {
		if s := u.server; !s.StateOK || s.SlotsAssigned != slot.Count || s.SlotsOK != slot.Count {
			return wait(soon, "%s to report ok with all slots (assigned %d, ok %d)", u.name(), s.SlotsAssigned, s.SlotsOK)
		}
	}
	for _, u := range p.core {
		me := u.me()
		for _, t := range u.told {
			if why := differs(me, *t.peer); why != "" {
				return wait(soon, "%s to see that %s %s", t.by.name(), u.name(), why)
			}
		}
	}
	return answer{}
}

func differs(own, peer topology.Peer) string {
	switch {
	case peer.Failed || peer.Failing:
		return "is alive"
	case own.Role != peer.Role:
		return "is a " + string(own.Role)
	case own.PrimaryID != peer.PrimaryID:
		return "follows " + string(own.PrimaryID)
	case !slices.Equal(own.Slots, peer.Slots):
		return fmt.Sprintf("owns slots %s", slot.Join(own.Slots, ","))
	}
	return ""
}

// complete ends a bootstrap: every rule above had nothing to say, and as many primaries own
// slots as were wanted. Where that is not so, the topology rules go on.
func (p *picture) complete() answer {
	owners := 0
	for _, s := range p.shards {
		if !s.slots().Empty() {
			owners++
		}
	}
	if !p.obs.Creating || owners != p.target.Shards {
		return answer{}
	}
	return do(Complete{}, "all %d slots are assigned and every replica is in sync", slot.Count)
}
