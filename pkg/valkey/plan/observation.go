package plan

import (
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// NodeName is the name of a ValkeyNode, which is its pod's name too.
type NodeName string

// Lifecycle is where a node stands between creation and removal (contract §1).
type Lifecycle string

// The lifecycles, as in ValkeyNode.spec.lifecycle.
const (
	Joining Lifecycle = "Joining"
	Active  Lifecycle = "Active"
	Leaving Lifecycle = "Leaving"
)

// JoinType is why a node was created after the first ones (contract §1, label join-type).
type JoinType string

// The join types. A node of a bootstrap has none.
const (
	JoinNone    JoinType = ""
	JoinReplica JoinType = "replica" // a replacement or an additional replica
	JoinPrimary JoinType = "primary" // in place of a shard that was lost
	JoinShard   JoinType = "shard"   // of a new shard
)

// Phase is what a node's pod does.
type Phase string

// The phases. PodNone: not created yet. PodAbsent: it was created, its UID is recorded,
// and a live read does not find it.
const (
	PodNone      Phase = "none"
	PodPending   Phase = "pending"
	PodRunning   Phase = "running"
	PodFailed    Phase = "failed"
	PodSucceeded Phase = "succeeded"
	PodAbsent    Phase = "absent"
)

// overdueGrace is how long after its deletion deadline a pod still counts as possibly alive.
// A pod on a lost Kubernetes node stays Terminating for ever (design.md, "Words").
const overdueGrace = 30 * time.Second

// Pod is the pod of a node as Kubernetes sees it.
type Pod struct {
	UID   string
	Phase Phase
	Ready bool
	// Deleting: a deletion was asked for. Overdue is how long ago its deadline
	// passed; negative or zero before.
	Deleting bool
	Overdue  time.Duration
	// Reason is why it does not run, in the scheduler's or the kubelet's words.
	Reason string
	// Crashed: its container exited by itself, EndedFor ago. A pod that was deleted,
	// evicted or drained did not crash.
	Crashed  bool
	EndedFor time.Duration
	IP       string
	// Host and Zone are the Kubernetes node it runs on and that node's zone.
	Host, Zone string
}

// Gone says that the pod's process is proven not to run any more.
func (p Pod) Gone() bool {
	switch p.Phase {
	case PodAbsent, PodFailed, PodSucceeded:
		return true
	}
	return p.Deleting && p.Overdue > overdueGrace
}

// Node is one ValkeyNode with all that a look found of it.
type Node struct {
	Name NodeName
	// Shard is the scheduling index, 0 and up; it is a hint for pairing, not a Valkey shard id.
	Shard     int
	Lifecycle Lifecycle
	Join      JoinType
	// Revision says what the node was made of; Restart is the value of the restart
	// annotation when it was created.
	Revision, Restart string
	// Deleting: the ValkeyNode is being removed.
	Deleting bool
	// KnownID is the recorded ID of its server; empty until it answered once.
	KnownID topology.NodeID
	Pod     Pod
	// Server is what its server said; nil if it did not answer, and then Silence says why not.
	Server  *topology.Server
	Silence string
}

// ID is the server's own name for itself, or the recorded one while it is silent.
func (n Node) ID() topology.NodeID {
	if n.Server != nil {
		return n.Server.View.Self
	}
	return n.KnownID
}

// Attempt is a deed that did not have its effect yet, remembered in the status of the
// ValkeyCluster: the planner has no memory of its own.
type Attempt struct {
	Kind    string // the rule's name
	Subject string // whom the deed was for
	Count   int
	Ago     time.Duration // since the last one
	Message string
}

// Observation is one look at everything. It is a value: rules read it only.
type Observation struct {
	// Creating: a bootstrap was begun (there is a snapshot of its target) and is not over.
	Creating bool
	// Formed: the cluster was Active once.
	Formed bool
	// Nodes in the order of their names.
	Nodes    []Node
	Attempts []Attempt
}

// attempts finds what was tried for a subject; the zero Attempt if nothing was.
func (o Observation) attempts(kind RuleName, subject string) Attempt {
	for _, a := range o.Attempts {
		if a.Kind == string(kind) && a.Subject == subject {
			return a
		}
	}
	return Attempt{}
}

// FailoverMode says who starts an election when a primary is proven dead (contract §6).
type FailoverMode string

// The modes of the operator's configuration `failover`.
const (
	FailoverFast   FailoverMode = "fast"
	FailoverNative FailoverMode = "native"
)

// Target is what is wanted.
type Target struct {
	// Shards is at least 1; Replicas is per shard and does not count the primary.
	Shards, Replicas int
	// Revisions are the hashes of the spec in force, one per way of hashing that exists: a
	// node is outdated if its own is not among them.
	Revisions []string
	// Restart is the value of the restart annotation; a node created under another value is outdated.
	Restart string
	// Paused: the owner asked for no action.
	Paused   bool
	Failover FailoverMode
	// NodeTimeout is the servers' cluster-node-timeout.
	NodeTimeout time.Duration
}
