package plan

import (
	"cmp"
	"slices"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// unit is one Valkey node with all that is known of it: the ValkeyNode, its own words if
// it answered, and what the members say of it if it did not.
type unit struct {
	id     topology.NodeID
	node   *Node            // nil: no ValkeyNode of ours stands behind this ID
	server *topology.Server // nil: it did not answer
	core   bool
	group  *unit // towards the one that stands for all that know each other: see root
	role   topology.Role
	// following is the ID that it replicates.
	following topology.NodeID
	// slots: by its own words if it answered, else by the members' newest claim for it,
	// less what answering members claim themselves.
	slots slot.Set
	// told is what other core members say of it; epoch is the newest config epoch among that.
	told  []told
	epoch uint64
	// namesake is a node of ours that never answered and has the address of this ID, which none of ours is known by: it may be
	// its server.
	namesake *unit
	// greeting are the addresses that it is shaking hands with.
	greeting map[string]bool
	shard    *shard
}

type told struct {
	by   *unit
	peer *topology.Peer
}

// root stands for the group of answering servers that the unit belongs to.
func (u *unit) root() *unit {
	for u.group != u.group.group {
		u.group = u.group.group // shorter for the next one
	}
	return u.group
}

// knownSlots counts the slots that have an owner in the view of an answering server.
func (u *unit) knownSlots() int {
	n := 0
	for i := range u.server.View.Peers {
		for _, r := range u.server.View.Peers[i].Slots {
			n += r.Len()
		}
	}
	return n
}

func (u *unit) answering() bool { return u.server != nil }

// gone is proof that the process does not run any more. For an ID without a ValkeyNode
// the proof is that none of its ValkeyNode or pod is left, also none that might be its own, and nobody has a link to it.
func (u *unit) gone() bool {
	if u.server != nil {
		return false
	}
	if u.node != nil {
		return u.node.Pod.Gone()
	}
	return !u.linked() && u.namesake == nil
}

// silent: it may be alive, it was heard of before, and it did not answer now.
func (u *unit) silent() bool {
	return u.server == nil && !u.gone() && u.id != ""
}

// unseen: its pod does not run yet, or its server never answered.
func (u *unit) unseen() bool {
	return u.server == nil && u.node != nil && !u.gone() && u.id == ""
}

// linked says whether any member has a live bus connection to it.
func (u *unit) linked() bool {
	for _, t := range u.told {
		if t.peer.Linked && !t.peer.Failing && !t.peer.Failed {
			return true
		}
	}
	return false
}

// failed: every answering primary flags it, and Kubernetes says that the pod is not Ready.
func (u *unit) failed() bool {
	return u.server == nil && u.node != nil && !u.node.Pod.Ready && u.flagged()
}

// flagged says that every answering primary believes that it has failed; where none answers, that everybody does.
func (u *unit) flagged() bool {
	voters, doubts := 0, 0
	for _, t := range u.told {
		lives := !t.peer.Failing && !t.peer.Failed
		switch {
		case lives && t.by.role == topology.Primary:
			return false
		case lives:
			doubts++
		case t.by.role == topology.Primary:
			voters++
		}
	}
	return voters > 0 || doubts == 0
}

// flaggedBy says that one of the servers believes so.
func (u *unit) flaggedBy(v *unit) bool {
	return slices.ContainsFunc(u.told, func(t told) bool { return t.by == v && (t.peer.Failing || t.peer.Failed) })
}

// ending: its ValkeyNode or its pod is being deleted; the process may still serve.
func (u *unit) ending() bool { return u.node != nil && (u.node.Deleting || u.node.Pod.Deleting) }

func (u *unit) dead() bool { return u.gone() || u.failed() }

// name is how texts call it: the node's name where there is one.
func (u *unit) name() string {
	if u.node != nil {
		return string(u.node.Name)
	}
	return string(u.id)
}

func (u *unit) me() topology.Peer { return u.server.View.Me() }

// shard is a primary that owns slots, or was chosen to, with the nodes that belong to it.
type shard struct {
	index   int // scheduling index; a hint
	primary *unit
	// replicas follow the primary, alive or not. coming are nodes of this index that do not yet.
	replicas, coming []*unit
	expected         int // replicas of another shard that will come home
}

func (s *shard) slots() *slot.Set { return &s.primary.slots }

func (s *shard) leaving() bool {
	return s.primary.node != nil && s.primary.node.Lifecycle == Leaving
}

// all lists the primary, the replicas and those that are coming.
func (s *shard) all() []*unit {
	return slices.Concat([]*unit{s.primary}, s.replicas, s.coming)
}

// usable lists the nodes that count for the shard's strength: ours, not gone, staying.
func (s *shard) usable() []*unit {
	var out []*unit
	for _, u := range s.all() {
		if u.node != nil && !u.gone() && !u.node.Deleting && u.node.Lifecycle != Leaving {
			out = append(out, u)
		}
	}
	return out
}

// picture is the join of everything in one observation. It is made once per plan.
type picture struct {
	obs    Observation
	target Target
	units  []*unit // nodes by name, then ghosts by ID
	byID   map[topology.NodeID]*unit
	core   []*unit // members, by name
	// rivals are groups of answering nodes apart from the core that own slots.
	rivals    []*unit
	strangers []*unit
	ghosts    []*unit // IDs that members list and no answering server has
	shards    []*shard
	// unassigned slots belong to nobody in any core member's view.
	unassigned slot.Set
	// contested slots are claimed by two answering members; adrift ones by none, though some
	// view gives them an answering owner: it is just changing.
	contested, adrift slot.Set
	// covered: answering members own every slot.
	covered bool
	// idle are nodes that belong to no shard of the target.
	idle []*unit
}

// look joins all views into one picture.
func look(obs Observation, target Target) *picture {
	p := &picture{obs: obs, target: target, byID: map[topology.NodeID]*unit{}}
	for i := range obs.Nodes {
		n := &obs.Nodes[i]
		u := &unit{id: n.ID(), node: n, server: n.Server, role: topology.Primary}
		p.units = append(p.units, u)
	}
	slices.SortStableFunc(p.units, func(a, b *unit) int { return cmp.Compare(a.node.Name, b.node.Name) })
	for _, u := range p.units {
		// An answering server outranks a record: a recorded ID may be stale.
		if u.id != "" && (p.byID[u.id] == nil || u.server != nil) {
			p.byID[u.id] = u
		}
	}
	p.ownWords()
	p.findCore()
	p.hearsay()
	p.claims()
	p.findShards()
	p.callHome()
	p.seatNodes()
	return p
}

// ownWords takes from each answering server what it says of itself.
func (p *picture) ownWords() {
	for _, u := range p.units {
		if u.server == nil {
			continue
		}
		me := u.me()
		u.role, u.following, u.slots = me.Role, me.PrimaryID, slot.Of(me.Slots...)
		for _, peer := range u.server.View.Peers {
			if peer.Handshake {
				if u.greeting == nil {
					u.greeting = map[string]bool{}
				}
				u.greeting[peer.IP] = true
			}
		}
	}
}

// findCore groups the answering servers by who lists whom (one side is enough) and takes
// the group that owns most slots, then the one that knows of most owned slots, be their owners lost,
// then the largest, then the one that comes first by name.
func (p *picture) findCore() {
	var answering []*unit
	for _, u := range p.units {
		if u.answering() {
			u.group = u
			answering = append(answering, u)
		}
	}
	for _, u := range answering {
		for i := range u.server.View.Peers {
			peer := &u.server.View.Peers[i]
			if v := p.byID[peer.ID]; v != nil && v != u && v.answering() && !peer.Handshake {
				v.root().group = u.root()
			}
		}
	}
	type weight struct{ slots, known, data, size int }
	weights := map[*unit]weight{}
	var best *unit
	for _, u := range answering {
		w := weights[u.root()]
		w.slots += u.slots.Len()
		w.known = max(w.known, u.knownSlots())
		w.size++
		if u.role == topology.Replica {
			w.data++
		}
		weights[u.root()] = w
	}
	for _, u := range answering {
		r := u.root()
		if best == nil || cmp.Or(
			cmp.Compare(weights[r].slots, weights[best].slots),
			cmp.Compare(weights[r].known, weights[best].known),
			cmp.Compare(weights[r].data, weights[best].data),
			cmp.Compare(weights[r].size, weights[best].size)) > 0 {
			best = r
		}
	}
	for _, u := range answering {
		switch {
		case u.root() == best:
			u.core = true
			p.core = append(p.core, u)
		default:
			if weights[u.root()].slots > 0 {
				p.rivals = append(p.rivals, u)
			}
			p.strangers = append(p.strangers, u)
		}
	}
}

// hearsay collects what core members say of others, and finds the ghosts.
func (p *picture) hearsay() {
	var unknown []*unit
	for _, by := range p.core {
		for i := range by.server.View.Peers {
			peer := &by.server.View.Peers[i]
			if peer.Handshake || peer.ID == by.id {
				continue
			}
			u := p.byID[peer.ID]
			if u == nil {
				u = &unit{id: peer.ID, role: topology.Primary}
				p.byID[peer.ID] = u
				unknown = append(unknown, u)
			}
			if u.told == nil {
				u.told = make([]told, 0, len(p.core))
			}
			u.told = append(u.told, told{by, peer})
		}
	}
	slices.SortFunc(unknown, func(a, b *unit) int { return cmp.Compare(a.id, b.id) })
	for _, u := range unknown {
		u.namesake = p.unseenAt(u.told)
	}
	p.units = append(p.units, unknown...)
	for _, u := range p.units {
		if u.answering() || len(u.told) == 0 {
			continue
		}
		p.ghosts = append(p.ghosts, u)
		// The newest config epoch knows best what a silent node is; of its slots some views may not have heard.
		newest := slices.MaxFunc(u.told, func(a, b told) int { return cmp.Compare(a.peer.Epoch, b.peer.Epoch) })
		u.role, u.following, u.epoch = newest.peer.Role, newest.peer.PrimaryID, newest.peer.Epoch
		var all []slot.Range
		for _, t := range u.told {
			if t.peer.Epoch == u.epoch {
				all = append(all, t.peer.Slots...)
			}
		}
		u.slots = slot.Of(all...)
	}
}

// unseenAt finds a node that never answered at an address that members know. One who finds another server
// there says so (noaddr).
func (p *picture) unseenAt(known []told) *unit {
	for _, t := range known {
		for _, u := range p.units {
			if u.unseen() && !t.peer.NoAddr && u.node.Pod.IP != "" && u.node.Pod.IP == t.peer.IP {
				return u
			}
		}
	}
	return nil
}

// claims settles who owns what: an answering member's own word first.
func (p *picture) claims() {
	var own slot.Set
	for _, u := range p.core {
		p.contested = p.contested.Union(own.Intersect(u.slots))
		own = own.Union(u.slots)
	}
	p.covered = own == slot.All()
	// Of two that do not answer, the claim with the higher config epoch is in force: a replica
	// that was elected out of our reach owns what some view still gives its dead primary.
	claimed := own
	for _, u := range slices.SortedStableFunc(slices.Values(p.ghosts), func(a, b *unit) int { return cmp.Compare(b.epoch, a.epoch) }) {
		u.slots = u.slots.Minus(claimed)
		claimed = claimed.Union(u.slots)
	}
	var all []slot.Range
	for _, by := range p.core {
		for i := range by.server.View.Peers {
			all = append(all, by.server.View.Peers[i].Slots...)
		}
	}
	listed := claimed.Union(slot.Of(all...))
	p.unassigned = slot.All().Minus(listed)
	p.adrift = listed.Minus(claimed)
}

// partial says whether a server other than the subject may be alive and was not heard.
func (p *picture) partial(subject *unit) *unit {
	for _, u := range p.units {
		if u != subject && u.silent() {
			return u
		}
	}
	return nil
}

// hasData says whether anything alive may hold keys of this cluster: an owner of slots, a
// replica, or a node that answered once and is silent now.
func (p *picture) hasData() bool {
	for _, u := range p.units {
		if u.node == nil || u.gone() {
			continue
		}
		if !u.slots.Empty() || u.answering() && u.role == topology.Replica || u.silent() && u.server == nil {
			return true
		}
	}
	return false
}

// outdated says whether the node was made of another spec than the one in force.
func (p *picture) outdated(u *unit) bool {
	return u.node != nil && (!slices.Contains(p.target.Revisions, u.node.Revision) || u.node.Restart != p.target.Restart)
}
