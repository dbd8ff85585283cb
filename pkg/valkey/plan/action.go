package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// Action is the one next thing to do. The set is sealed: the types of this file. Each
// prints itself; each names whom it means by identity (node name, pod UID, server ID),
// never by address or index; each may be done twice with the effect of once, or is
// refused the second time.
type Action interface {
	String() string
	action()
}

// Wait is for something that happens by itself; look again after Again (or at the next event).
type Wait struct {
	For   string
	Again time.Duration
}

// Hold stops until a person or another system changes something.
type Hold struct{ Because string }

// Done says that everything is as wanted.
type Done struct{}

// Snapshot begins a bootstrap: the wanted shape is fixed in the status until it is reached.
type Snapshot struct{ Shards, Replicas int }

// Complete ends a bootstrap: the cluster is Active.
type Complete struct{}

// NewNode is one ValkeyNode to create; its name follows from the serial in the status.
type NewNode struct {
	Shard int
	Join  JoinType
}

// CreateNodes creates ValkeyNodes, each with a pod.
type CreateNodes struct{ Nodes []NewNode }

// Target of a removal: a node and the pod that it had when the decision was made.
type Removal struct {
	Node   NodeName
	PodUID string
}

// RemoveNodes deletes ValkeyNodes and, with them, their pods.
type RemoveNodes struct{ Nodes []Removal }

// SetLifecycle moves nodes to a lifecycle; with Active, the join-type `shard` is cleared.
type SetLifecycle struct {
	Nodes     []NodeName
	Lifecycle Lifecycle
}

// SetEpoch gives the first node of a new cluster its config epoch.
type SetEpoch struct {
	Node  NodeName
	ID    topology.NodeID
	Epoch uint64
}

// Meet makes a node known to members of the cluster, both ways. A node that knows nobody
// gets the config epoch first (0: leave its epoch alone): above every epoch in use, or a dead
// owner's claim would outrank its own for ever (engine.md, op#197).
type Meet struct {
	Node  NodeName
	ID    topology.NodeID
	Epoch uint64
	With  []topology.NodeID
}

// Assign gives unowned slots to a primary, which then introduces itself anew to the members
// in Tell: a handshake carries its slots, gossip would take half a node timeout.
type Assign struct {
	Primary topology.NodeID
	Slots   slot.Set
	Tell    []topology.NodeID
}

// Attach makes a node that owns nothing the replica of a primary.
type Attach struct{ Replica, Primary topology.NodeID }

// Forget removes a departed server from the view of every member that lists it.
type Forget struct {
	ID topology.NodeID
	On []topology.NodeID
}

// Mode is how a failover is asked for.
type Mode string

// The modes of CLUSTER FAILOVER, mildest first.
const (
	Coordinated Mode = "COORDINATED" // both sides take part, nothing is lost
	Force       Mode = "FORCE"       // the primary is dead, a majority votes
	Takeover    Mode = "TAKEOVER"    // nobody is left to vote
)

// Failover promotes a replica in place of its primary.
type Failover struct {
	Replica, Primary topology.NodeID
	Mode             Mode
}

// Move is one migration job: slots from one primary to another.
type Move struct {
	From, To topology.NodeID
	Slots    slot.Set
}

// MoveSlots starts migration jobs, at most one per source and target.
type MoveSlots struct{ Moves []Move }

// CancelMoves cancels every migration job of the sources.
type CancelMoves struct{ Sources []topology.NodeID }

// CopyFunctions loads the function libraries of one primary into another: slots move
// without them.
type CopyFunctions struct{ From, To topology.NodeID }

func (Wait) action()          {}
func (Hold) action()          {}
func (Done) action()          {}
func (Snapshot) action()      {}
func (Complete) action()      {}
func (CreateNodes) action()   {}
func (RemoveNodes) action()   {}
func (SetLifecycle) action()  {}
func (SetEpoch) action()      {}
func (Meet) action()          {}
func (Assign) action()        {}
func (Attach) action()        {}
func (Forget) action()        {}
func (Failover) action()      {}
func (MoveSlots) action()     {}
func (CancelMoves) action()   {}
func (CopyFunctions) action() {}

// IsDeed says whether the action changes anything: all but Wait, Hold and Done do.
func IsDeed(a Action) bool {
	switch a.(type) {
	case Wait, Hold, Done:
		return false
	}
	return true
}

func (a Wait) String() string { return fmt.Sprintf("wait for %s (look again in %s)", a.For, a.Again) }
func (a Hold) String() string { return "hold: " + a.Because }
func (Done) String() string   { return "done" }
func (a Snapshot) String() string {
	return fmt.Sprintf("begin bootstrap of %d shards with %d replicas each", a.Shards, a.Replicas)
}
func (Complete) String() string { return "declare the cluster formed" }

func (n NewNode) String() string {
	if n.Join == JoinNone {
		return fmt.Sprintf("shard %d", n.Shard)
	}
	return fmt.Sprintf("shard %d as %s", n.Shard, n.Join)
}

func (a CreateNodes) String() string { return "create nodes: " + list(a.Nodes) }

func (r Removal) String() string {
	if r.PodUID == "" {
		return string(r.Node)
	}
	return string(r.Node) + " (pod " + r.PodUID + ")"
}

func (a RemoveNodes) String() string { return "remove nodes: " + list(a.Nodes) }

func (a SetLifecycle) String() string {
	return fmt.Sprintf("set lifecycle %s: %s", a.Lifecycle, list(a.Nodes))
}

func (a SetEpoch) String() string {
	return fmt.Sprintf("set config epoch %d on %s (%s)", a.Epoch, a.Node, a.ID)
}

func (a Meet) String() string {
	epoch := ""
	if a.Epoch > 0 {
		epoch = fmt.Sprintf(" at config epoch %d", a.Epoch)
	}
	return fmt.Sprintf("meet %s (%s)%s with %s", a.Node, a.ID, epoch, list(a.With))
}

func (a Assign) String() string { return fmt.Sprintf("assign slots %s to %s", a.Slots, a.Primary) }
func (a Attach) String() string { return fmt.Sprintf("attach %s to %s", a.Replica, a.Primary) }
func (a Forget) String() string { return fmt.Sprintf("forget %s on %s", a.ID, list(a.On)) }

func (a Failover) String() string {
	return fmt.Sprintf("failover %s from %s to %s", a.Mode, a.Primary, a.Replica)
}

func (m Move) String() string { return fmt.Sprintf("%s from %s to %s", m.Slots, m.From, m.To) }

func (a MoveSlots) String() string   { return "move slots " + list(a.Moves) }
func (a CancelMoves) String() string { return "cancel migrations of " + list(a.Sources) }
func (a CopyFunctions) String() string {
	return fmt.Sprintf("copy functions from %s to %s", a.From, a.To)
}

// list prints values with commas between them.
func list[T any](values []T) string {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = fmt.Sprint(v)
	}
	return strings.Join(parts, ", ")
}
