package plan

import (
	"fmt"
	"slices"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// Allowed is the second opinion before an action is carried out. It knows nothing of the
// rules and shares no code with them: it reads the observation anew and refuses what may cost
// data, whatever the ladder said. An error is a defect of a rule, and loud.
func Allowed(obs Observation, a Action) error {
	switch a := a.(type) {
	case RemoveNodes:
		return allowedRemoval(obs, a)
	case Forget:
		return allowedForget(obs, a)
	case Failover:
		return allowedFailover(obs, a)
	case Assign:
		return allowedAssign(obs, a)
	case MoveSlots:
		return allowedMoves(obs, a)
	case Attach:
		return allowedAttach(obs, a)
	case Meet:
		return allowedMeet(obs, a)
	case SetEpoch:
		if n := find(obs, a.ID); n == nil || n.Server == nil || len(n.Server.View.Peers) > 1 || a.Epoch == 0 {
			return fmt.Errorf("set epoch: %s is not alone", a.Node)
		}
	}
	return nil
}

// find gives the node behind an ID.
func find(obs Observation, id topology.NodeID) *Node {
	for i := range obs.Nodes {
		if n := &obs.Nodes[i]; id != "" && n.ID() == id {
			return n
		}
	}
	return nil
}

func named(obs Observation, name NodeName) *Node {
	for i := range obs.Nodes {
		if obs.Nodes[i].Name == name {
			return &obs.Nodes[i]
		}
	}
	return nil
}

// unheard is a node other than the subject that answered once, is not gone and is silent now.
func unheard(obs Observation, except map[NodeName]bool) *Node {
	for i := range obs.Nodes {
		n := &obs.Nodes[i]
		if !except[n.Name] && n.Server == nil && n.KnownID != "" && !n.Pod.Gone() {
			return n
		}
	}
	return nil
}

// claimed is what a node owns: by its own words, else by anybody's, less what those who answer own, and what anybody
// gives to another silent node at a higher config epoch.
func claimed(obs Observation, id topology.NodeID) slot.Set {
	if n := find(obs, id); n != nil && n.Server != nil {
		return slot.Of(n.Server.View.Me().Slots...)
	}
	var out, others slot.Set
	var epoch uint64
	for i := range obs.Nodes {
		if s := obs.Nodes[i].Server; s != nil {
			if p, ok := s.View.Find(id); ok {
				out, epoch = out.Union(slot.Of(p.Slots...)), max(epoch, p.Epoch)
			}
			others = others.Union(slot.Of(s.View.Me().Slots...))
		}
	}
	for i := range obs.Nodes {
		if s := obs.Nodes[i].Server; s != nil {
			for _, p := range s.View.Peers {
				if n := find(obs, p.ID); p.Epoch > epoch && (n == nil || n.Server == nil) {
					others = others.Union(slot.Of(p.Slots...))
				}
			}
		}
	}
	return out.Minus(others)
}

// jobsOf says whether a server takes part in a running migration, by anybody's words.
func jobsOf(obs Observation, id topology.NodeID) bool {
	for _, n := range obs.Nodes {
		if n.Server == nil {
			continue
		}
		for _, m := range n.Server.Migrations {
			if m.State == topology.Running && (m.Source == id || m.Target == id) {
				return true
			}
		}
	}
	return false
}

// replicated says whether replica has its primary's data, seen from both sides.
func replicated(replica, primary *Node) bool {
	if replica.Server == nil || primary.Server == nil || !replica.Server.LinkUp || replica.Server.Syncing || replica.Server.Loading {
		return false
	}
	for _, f := range primary.Server.Followers {
		if f.IP == replica.Pod.IP && f.Online {
			return true
		}
	}
	return false
}

func allowedRemoval(obs Observation, a RemoveNodes) error {
	going := map[NodeName]bool{}
	for _, r := range a.Nodes {
		going[r.Node] = true
	}
	for _, r := range a.Nodes {
		n := named(obs, r.Node)
		if n == nil || n.Pod.Gone() && n.Server == nil {
			continue
		}
		if owned := claimed(obs, n.ID()); !owned.Empty() {
			return fmt.Errorf("remove %s: it owns slots %s", n.Name, owned)
		}
		if n.ID() == "" || alone(n) {
			continue
		}
		if jobsOf(obs, n.ID()) {
			return fmt.Errorf("remove %s: slots move to or from it", n.Name)
		}
		if other := unheard(obs, going); other != nil {
			return fmt.Errorf("remove %s: the view is partial, %s does not answer", n.Name, other.Name)
		}
		if err := leavesCopy(obs, n); err != nil {
			return err
		}
	}
	return oneDisturbed(obs, a)
}

// alone says that a server knows nobody and has nothing: nobody can miss it.
func alone(n *Node) bool {
	return n.Server != nil && len(n.Server.View.Peers) == 1 && n.Server.View.Me().Role == topology.Primary && n.Server.Keys == 0
}

// leavesCopy refuses to remove a replica whose primary does not answer: it may be the last copy.
func leavesCopy(obs Observation, n *Node) error {
	if n.Server == nil {
		return nil
	}
	me := n.Server.View.Me()
	if me.Role != topology.Replica {
		return nil
	}
	primary := find(obs, me.PrimaryID)
	if primary == nil || primary.Server == nil {
		if owned := claimed(obs, me.PrimaryID); !owned.Empty() {
			return fmt.Errorf("remove %s: its primary does not answer, it may be the last copy of slots %s", n.Name, owned)
		}
	}
	return nil
}

// oneDisturbed refuses to remove live replicas of a shard while another shard is not whole.
func oneDisturbed(obs Observation, a RemoveNodes) error {
	touched := map[topology.NodeID]bool{}
	for _, r := range a.Nodes {
		if n := named(obs, r.Node); n != nil && n.Server != nil && !n.Pod.Gone() {
			me := n.Server.View.Me()
			if me.Role != topology.Replica || n.Lifecycle == Leaving {
				continue
			}
			if p := find(obs, me.PrimaryID); p != nil && p.Server != nil && len(p.Server.View.Me().Slots) > 0 {
				touched[me.PrimaryID] = true
			}
		}
	}
	if len(touched) > 1 {
		return fmt.Errorf("remove: %d shards would be disturbed at once", len(touched))
	}
	if len(touched) == 0 {
		return nil
	}
	return otherWhole(obs, touched)
}

// otherWhole says whether every shard but the touched ones has an answering primary with all
// its replicas in sync. A primary that answers and owns no slots makes no shard.
func otherWhole(obs Observation, touched map[topology.NodeID]bool) error {
	for i := range obs.Nodes {
		n := &obs.Nodes[i]
		if n.Server == nil || n.Deleting {
			continue
		}
		me := n.Server.View.Me()
		if me.Role != topology.Replica || touched[me.PrimaryID] || touched[me.ID] {
			continue
		}
		p := find(obs, me.PrimaryID)
		if p != nil && p.Server != nil && len(p.Server.View.Me().Slots) == 0 {
			continue
		}
		if p == nil || !replicated(n, p) {
			return fmt.Errorf("another shard is not whole: %s is not in sync", n.Name)
		}
	}
	return nil
}

func allowedForget(obs Observation, a Forget) error {
	var subject map[NodeName]bool
	if n := find(obs, a.ID); n != nil {
		if n.Server != nil || !n.Pod.Gone() {
			return fmt.Errorf("forget %s: %s is not gone", a.ID, n.Name)
		}
		subject = map[NodeName]bool{n.Name: true}
	}
	if other := unheard(obs, subject); other != nil {
		return fmt.Errorf("forget %s: the view is partial, %s does not answer", a.ID, other.Name)
	}
	if jobsOf(obs, a.ID) {
		return fmt.Errorf("forget %s: slots move to or from it", a.ID)
	}
	for _, n := range obs.Nodes {
		if n.Server == nil {
			continue
		}
		if n.Server.View.Me().PrimaryID == a.ID {
			return fmt.Errorf("forget %s: %s follows it", a.ID, n.Name)
		}
		if p, ok := n.Server.View.Find(a.ID); ok && subject == nil && p.Linked && !p.Failed && !p.Failing {
			return fmt.Errorf("forget %s: %s is linked to it, it is alive", a.ID, n.Name)
		} else if ok && subject == nil && slices.ContainsFunc(obs.Nodes, func(o Node) bool {
			return o.KnownID == "" && o.Server == nil && !o.Pod.Gone() && o.Pod.IP != "" && o.Pod.IP == p.IP && !p.NoAddr
		}) {
			return fmt.Errorf("forget %s: a node that never answered has its address", a.ID)
		}
	}
	return nil
}

func allowedAssign(obs Observation, a Assign) error {
	if other := unheard(obs, nil); other != nil {
		return fmt.Errorf("assign to %s: the view is partial, %s does not answer", a.Primary, other.Name)
	}
	n := find(obs, a.Primary)
	if n == nil || n.Server == nil || n.Server.View.Me().Role != topology.Primary {
		return fmt.Errorf("assign to %s: it is no answering primary", a.Primary)
	}
	known := map[topology.NodeID]bool{}
	for _, p := range n.Server.View.Peers {
		known[p.ID] = true
	}
	for _, m := range obs.Nodes {
		if m.Server == nil || !known[m.Server.View.Self] {
			continue
		}
		for _, p := range m.Server.View.Peers {
			taken := slot.Of(p.Slots...).Intersect(a.Slots)
			if taken.Empty() {
				continue
			}
			// Who answers speaks for itself, others may not have heard yet; the taker obeys its own view.
			if o := find(obs, p.ID); o == nil || o.Server == nil || p.ID == m.Server.View.Self || m.Name == n.Name {
				return fmt.Errorf("assign to %s: %s claims slots %s in the view of %s", a.Primary, p.ID, taken, m.Name)
			}
		}
	}
	return nil
}

func allowedMoves(obs Observation, a MoveSlots) error {
	for _, m := range a.Moves {
		from, to := find(obs, m.From), find(obs, m.To)
		if from == nil || to == nil || from.Server == nil || to.Server == nil {
			return fmt.Errorf("move slots %s: both ends must answer", m.Slots)
		}
		if to.Server.View.Me().Role != topology.Primary {
			return fmt.Errorf("move slots %s: %s is no primary", m.Slots, to.Name)
		}
		if jobsOf(obs, m.From) {
			return fmt.Errorf("move slots %s: %s has a running migration", m.Slots, from.Name)
		}
		if foreign := m.Slots.Minus(slot.Of(from.Server.View.Me().Slots...)); !foreign.Empty() {
			return fmt.Errorf("move slots: %s does not own %s", from.Name, foreign)
		}
	}
	return nil
}

func allowedAttach(obs Observation, a Attach) error {
	r, p := find(obs, a.Replica), find(obs, a.Primary)
	switch {
	case r == nil || r.Server == nil || p == nil || p.Server == nil:
		return fmt.Errorf("attach %s to %s: both must answer", a.Replica, a.Primary)
	case len(r.Server.View.Me().Slots) > 0:
		return fmt.Errorf("attach %s: it owns slots", r.Name)
	case r.Server.View.Me().Role == topology.Primary && r.Server.Keys > 0:
		return fmt.Errorf("attach %s: it is a primary with %d keys", r.Name, r.Server.Keys)
	case p.Server.View.Me().Role != topology.Primary:
		return fmt.Errorf("attach %s: %s is no primary", r.Name, p.Name)
	}
	return nil
}

func allowedMeet(obs Observation, a Meet) error {
	n := find(obs, a.ID)
	if n == nil || n.Server == nil || n.Name != a.Node {
		return fmt.Errorf("meet %s: it does not answer as %s", a.Node, a.ID)
	}
	for _, id := range a.With {
		if m := find(obs, id); m == nil || m.Server == nil {
			return fmt.Errorf("meet %s: %s is not one of ours that answers", a.Node, id)
		}
	}
	if a.Epoch == 0 {
		return nil
	}
	for _, m := range obs.Nodes {
		if m.Server == nil || m.Name == a.Node {
			continue
		}
		for _, p := range m.Server.View.Peers {
			if p.Epoch >= a.Epoch {
				return fmt.Errorf("meet %s at epoch %d: %s has epoch %d", a.Node, a.Epoch, p.ID, p.Epoch)
			}
		}
	}
	return nil
}
