package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ValkeyClusterStatus is what the operator saw in its last pass and what it must remember between passes. What
// changes by itself, such as replication lag and memory, is never in it.
type ValkeyClusterStatus struct {
	// Where the cluster is in its life: Creating, Active or Invalid; Updating is reserved. Default Creating. Written
	// by the operator, for people: the operator itself decides from facts.
	// +optional
	// +kubebuilder:default=Creating
	State ClusterState `json:"state,omitempty"`
	// Generation of the spec that this status is about. Written by the operator.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Why the cluster is Invalid; empty in every other state. Written by the operator.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Message string `json:"message,omitempty"`
	// The spec as it was when the bootstrap started; shards and replicasPerShard are driven from it until the
	// cluster is Active, then it is cleared. Written by the operator.
	// +optional
	TargetSpec *TargetSpec `json:"targetSpec,omitempty"`
	// Nodes of the cluster, by name. Written by the operator.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16384
	Nodes []NodeSummary `json:"nodes,omitempty"`
	// Shards of the Valkey cluster as its servers see them, by their first slot. Written by the operator.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16384
	Shards []ShardStatus `json:"shards,omitempty"`
	// Number of slots that have an owner, 0 to 16384. Written by the operator.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16384
	SlotsAssigned int32 `json:"slotsAssigned,omitempty"`
	// Number from which the next node's name derives; it advances when the ValkeyNode of that name is observed.
	// Written by the operator.
	// +optional
	// +kubebuilder:validation:Minimum=0
	NodeSerial int64 `json:"nodeSerial,omitempty"`
	// The decision of the last pass that acted or changed its mind: what it was about to do and why. Its outcome
	// shows in the next pass. Written by the operator.
	// +optional
	LastAction *LastAction `json:"lastAction,omitempty"`
	// Things that were tried and did not succeed yet, so that a new operator process does not start counting anew.
	// At most 256. Written by the operator.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Attempts []Attempt `json:"attempts,omitempty"`
	// Present state, one entry per type: Available, Progressing, Degraded, ReferencesResolved, VersionSupported,
	// Paused, CertificateExpiringSoon, ACLsInSync, TLSInSync. Written by the operator.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// TargetSpec is the snapshot of a spec, without acl and podAnnotations.
type TargetSpec struct {
	// spec.configRef at the time of the snapshot. Information only: configRef is read live.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ConfigRef string `json:"configRef,omitempty"`
	// spec.shards at the time of the snapshot; the bootstrap builds this many.
	// +required
	// +kubebuilder:validation:Minimum=1
	Shards int32 `json:"shards"`
	// spec.replicasPerShard at the time of the snapshot; the bootstrap builds this many.
	// +required
	// +kubebuilder:validation:Minimum=0
	ReplicasPerShard int32 `json:"replicasPerShard"`
	// spec.placement at the time of the snapshot. Information only: placement is read live.
	// +optional
	Placement *Placement `json:"placement,omitempty"`
	// spec.tls at the time of the snapshot. Information only: tls is read live.
	// +optional
	TLS *ValkeyTLS `json:"tls,omitempty"`
}

// NodeSummary is one node of the cluster.
type NodeSummary struct {
	// Name of the ValkeyNode and of its pod.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Scheduling index of the node's shard, from 0; not the Valkey shard id.
	// +optional
	ShardIndex int32 `json:"shardIndex"`
	// "primary" or "replica" as the server itself reports it; absent until it answered.
	// +optional
	Role NodeRole `json:"role,omitempty"`
	// Valkey's id of the node, 40 hex digits; absent until the server answered.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	NodeID string `json:"nodeID,omitempty"`
	// IP address of the pod; absent until it has one.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	PodIP string `json:"podIP,omitempty"`
	// Zone of the Kubernetes node that runs the pod; absent until it is scheduled.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Zone string `json:"zone,omitempty"`
}

// ShardStatus is one shard of the Valkey cluster.
type ShardStatus struct {
	// Node ID of the shard's primary, 40 hex digits: it changes with a failover.
	// +required
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`
	// Name of the ValkeyNode that is the primary; absent while there is none.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Primary string `json:"primary,omitempty"`
	// Names of the ValkeyNodes that are replicas, sorted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16384
	// +kubebuilder:validation:items:MaxLength=63
	Replicas []string `json:"replicas,omitempty"`
	// Slots of the shard as ascending ranges, for example "0-5460" or "7".
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8192
	// +kubebuilder:validation:items:MaxLength=16
	Slots []string `json:"slots,omitempty"`
	// Number of slots of the shard, 0 to 16384.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16384
	SlotCount int32 `json:"slotCount"`
}

// LastAction is a decision of the operator.
type LastAction struct {
	// Name of the rule that decided, also the reason of Events.
	// +required
	// +kubebuilder:validation:MaxLength=128
	Rule string `json:"rule"`
	// The action in words, for example which node meets which.
	// +required
	// +kubebuilder:validation:MaxLength=4096
	Action string `json:"action"`
	// Why the rule applied, in words.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Why string `json:"why,omitempty"`
	// When it was decided.
	// +required
	Time metav1.Time `json:"time"`
}

// Attempt counts how often one thing was tried without success.
type Attempt struct {
	// The rule of the planner that tried it, for example "PrimaryDown" or "SlotsUneven" (docs/planner.md).
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Kind string `json:"kind"`
	// What it was tried on: a node's ID, or source and target of a migration, joined by ">".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Subject string `json:"subject"`
	// How often it was tried since the last success, from 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	Count int32 `json:"count"`
	// When it was last tried.
	// +required
	LastTime metav1.Time `json:"lastTime"`
	// What the server or Kubernetes said last.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// ValkeyClusterList is a list of ValkeyClusters.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type ValkeyClusterList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// The ValkeyClusters.
	Items []ValkeyCluster `json:"items"`
}
