package plan

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// findShards lists the owners of slots, then fills up to the target with chosen empty
// primaries, and gives every shard its replicas.
func (p *picture) findShards() {
	for _, u := range p.units {
		if !u.slots.Empty() && (u.core || !u.answering()) {
			u.shard = &shard{index: p.indexOf(u), primary: u}
			p.shards = append(p.shards, u.shard)
		}
	}
	p.sortShards()
	p.chooseEmpty()
	p.sortShards()
	for _, u := range p.units {
		if u.shard == nil && u.role == topology.Replica {
			if s := p.shardOf(u.following); s != nil {
				u.shard = s
				s.replicas = append(s.replicas, u)
			}
		}
	}
}

func (p *picture) sortShards() {
	slices.SortStableFunc(p.shards, func(a, b *shard) int {
		return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(a.primary.name(), b.primary.name()))
	})
}

// indexOf is the scheduling index of an owner; of one without a ValkeyNode, that of a
// node which follows it, or else -1.
func (p *picture) indexOf(u *unit) int {
	if u.node != nil {
		return u.node.Shard
	}
	for _, v := range p.units {
		if v.node != nil && v.following == u.id {
			return v.node.Shard
		}
	}
	return -1
}

// shardOf follows replication up to a shard's primary; a replica of a replica exists for
// moments (engine.md, "Reading it").
func (p *picture) shardOf(id topology.NodeID) *shard {
	for range 3 {
		u := p.byID[id]
		switch {
		case u == nil:
			return nil
		case u.shard != nil && u.shard.primary == u:
			return u.shard
		}
		id = u.following
	}
	return nil
}

// chooseEmpty picks, for each scheduling index without an owner, the empty primary that
// will get slots, until there are as many shards as wanted. A node that is followed already
// was chosen before; then a node that was created to be a primary; then one on the host
// with the fewest primaries, so that one lost host costs few of them (G7).
func (p *picture) chooseEmpty() {
	free := map[int][]*unit{}
	followed := map[topology.NodeID]bool{}
	for _, u := range p.units {
		if u.answering() && u.following != "" {
			followed[u.following] = true
		}
	}
	for _, u := range p.core {
		if u.shard == nil && u.role == topology.Primary && !u.ending() && p.shardAt(u.node.Shard) == nil {
			free[u.node.Shard] = append(free[u.node.Shard], u)
		}
	}
	hosts := map[string]int{}
	for _, s := range p.shards {
		if s.primary.node != nil {
			hosts[s.primary.node.Pod.Host]++
		}
	}
	rank := func(u *unit) int {
		switch {
		case followed[u.id]:
			return 0
		case u.node.Join == JoinReplica:
			return 2
		}
		return 1
	}
	for _, i := range slices.Sorted(maps.Keys(free)) {
		best := slices.MinFunc(free[i], func(a, b *unit) int {
			return cmp.Or(cmp.Compare(rank(a), rank(b)),
				cmp.Compare(hosts[a.node.Pod.Host], hosts[b.node.Pod.Host]),
				cmp.Compare(a.node.Name, b.node.Name))
		})
		// A leaving shard keeps its primary until its nodes are removed, whatever the target.
		if len(p.shards)-p.leavingShards() >= p.target.Shards && best.node.Lifecycle != Leaving {
			continue
		}
		hosts[best.node.Pod.Host]++
		best.shard = &shard{index: i, primary: best}
		p.shards = append(p.shards, best.shard)
	}
}

func (p *picture) leavingShards() int {
	n := 0
	for _, s := range p.shards {
		if s.leaving() {
			n++
		}
	}
	return n
}

func (p *picture) shardAt(index int) *shard {
	for _, s := range p.shards {
		if s.index == index {
			return s
		}
	}
	return nil
}

// seatNodes gives every node of ours that follows nobody a seat in the shard of its index.
func (p *picture) seatNodes() {
	for _, u := range p.units {
		if u.shard != nil || u.node == nil {
			continue
		}
		if s := p.neediest(u.node.Shard); s != nil {
			u.shard = s
			s.coming = append(s.coming, u)
			continue
		}
		p.idle = append(p.idle, u)
	}
}

// callHome gives a replica that another shard has too many back to the shard of its index, which lacks it. A primary that
// loses its last slots follows who took them, and its replicas go with it: after a failover on both sides of a partition
// that may be another shard. It comes once another replica there is in sync; until then its seat is kept.
func (p *picture) callHome() {
	for _, s := range p.shards {
		for _, u := range slices.Clone(s.replicas) {
			away := u.core && !u.ending() && u.node.Lifecycle != Leaving && u.node.Shard != s.index
			if !away || !s.primary.answering() || !s.leaving() && p.room(s) >= 0 {
				continue
			}
			home := p.neediest(u.node.Shard)
			switch {
			case home == nil || home.leaving() || !home.primary.core || p.room(home) <= 0:
			case !s.slots().Empty() && !s.hasOther(u):
				home.expected++
			default:
				s.replicas = slices.DeleteFunc(s.replicas, func(v *unit) bool { return v == u })
				u.shard, home.coming = home, append(home.coming, u)
			}
		}
	}
}

// hasOther says that a replica other than the one is in sync and stays.
func (s *shard) hasOther(u *unit) bool {
	return slices.ContainsFunc(s.replicas, func(v *unit) bool { return v != u && !v.ending() && inSync(v, s.primary) })
}

// neediest is the shard of an index that has most room, a leaving one only if there is no other. There are two of one
// index where a primary died, or came back after its replica was elected, and kept slots that the replica had not heard
// of. If one of them got all newcomers, what the other lacks would be created and dropped as superfluous for ever; and
// nobody can join one whose primary is gone: what was made for the other would be made again.
func (p *picture) neediest(index int) *shard {
	var best *shard
	for _, s := range p.shards {
		if s.index == index && (best == nil || cmp.Or(
			compareBool(s.leaving(), best.leaving()),
			compareBool(s.primary.gone(), best.primary.gone()),
			cmp.Compare(p.room(best), p.room(s))) < 0) {
			best = s
		}
	}
	return best
}

// room is how many nodes a shard may still get: one above the target while it is rolled.
func (p *picture) room(s *shard) int {
	room := p.target.Replicas + 1 - p.strength(s)
	if p.rolling(s) {
		room++
	}
	return room
}

// nearBytes is how far behind its primary a replica may be and still count as in sync: the
// two offsets are read at slightly different moments, while clients write.
const nearBytes = 16 << 20

// inSync says whether a replica has all that its primary has, proven from both sides:
// the replica's link is up and it is not loading, and the primary lists it as online.
// "The pod is ready" is no proof (engine.md, op#208).
func inSync(replica, primary *unit) bool {
	if replica.server == nil || primary.server == nil || replica.following != primary.id {
		return false
	}
	r := replica.server
	if !r.LinkUp || r.Syncing || r.Loading || primary.server.Offset-r.Offset > nearBytes {
		return false
	}
	for _, f := range primary.server.Followers {
		if f.Online && f.IP == replica.node.Pod.IP {
			return true
		}
	}
	return false
}

// best is the replica to promote: answering, not loading, and following the primary itself (what follows a former replica
// of it would inherit nothing); of those one that stays rather than one that is being deleted, and then the one with the
// highest offset.
func (s *shard) best() *unit {
	var out *unit
	for _, u := range s.replicas {
		if !u.core || u.server.Loading || u.following != s.primary.id {
			continue
		}
		if out == nil || cmp.Or(
			-compareBool(u.node.Pod.Deleting, out.node.Pod.Deleting),
			cmp.Compare(u.server.Offset, out.server.Offset)) > 0 {
			out = u
		}
	}
	return out
}

// moving lists the running migration jobs that a unit takes part in, by anybody's words.
func (p *picture) moving(u *unit) []topology.Migration {
	var out []topology.Migration
	for _, m := range p.core {
		for _, job := range m.server.Migrations {
			if job.State == topology.Running && (job.Source == u.id || job.Target == u.id) {
				out = append(out, job)
			}
		}
	}
	return out
}

// quorumLost says that the replica cannot be elected in place of its primary. Its own view decides how many votes it
// needs: those of more than half of the owners of slots (contract §6, design.md). The dead do not vote, nor does who
// has none any more, or does not know the primary: one that joined after its death never hears of it.
func (p *picture) quorumLost(primary, replica *unit) bool {
	owners, mute := 0, 0
	for i := range replica.server.View.Peers {
		peer := &replica.server.View.Peers[i]
		if len(peer.Slots) == 0 {
			continue
		}
		owners++
		u := p.byID[peer.ID]
		switch {
		case u.dead():
			mute++
		case u.answering():
			if _, knows := u.server.View.Find(primary.id); !knows || u.slots.Empty() {
				mute++
			}
		}
	}
	return 2*mute >= owners
}

// maxEpoch is the highest config epoch that anybody but the unit itself knows of.
func (p *picture) maxEpoch(except *unit) uint64 {
	var top uint64
	for _, u := range p.units {
		if u.server == nil || u == except {
			continue
		}
		top = max(top, u.server.CurrentEpoch)
		for _, peer := range u.server.View.Peers {
			top = max(top, peer.Epoch)
		}
	}
	return top
}

// soon, later are how long to wait before the next look: for the servers' gossip, and for
// Kubernetes or a human, whose changes wake the queue by themselves.
const (
	soon  = 50 * time.Millisecond
	later = 2 * time.Second
)
