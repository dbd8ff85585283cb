package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ValkeyNode is one Valkey process, in one pod of the same name. The operator alone writes it; people read it. It
// never gets a second pod: a dead node is replaced by a new ValkeyNode of another name.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=valkeynodes,singular=valkeynode,scope=Namespaced,shortName=vkn,categories=valkey
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=".spec.clusterName"
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=".spec.image"
// +kubebuilder:printcolumn:name="Lifecycle",type=string,JSONPath=".spec.lifecycle"
// +kubebuilder:printcolumn:name="Role",type=string,JSONPath=".status.role",priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="the name of a ValkeyNode is a DNS label of at most 63 characters, as it is its pod's host name"
type ValkeyNode struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name is {cluster}-{5 hex digits}.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// What the node's pod is made from, frozen at creation but for lifecycle. Written by the operator.
	// +required
	Spec ValkeyNodeSpec `json:"spec"`
	// What the node's pod and server are. Written by the operator.
	// +optional
	Status ValkeyNodeStatus `json:"status,omitempty"`
}

// ValkeyNodeSpec is what a node's pod is made from. All but lifecycle is immutable.
//
// +kubebuilder:validation:XValidation:rule="self.clusterName == oldSelf.clusterName",message="clusterName is immutable"
// +kubebuilder:validation:XValidation:rule="self.image == oldSelf.image",message="image is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.cpu) == has(oldSelf.cpu) && (!has(self.cpu) || self.cpu == oldSelf.cpu)",message="cpu is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.memory) == has(oldSelf.memory) && (!has(self.memory) || self.memory == oldSelf.memory)",message="memory is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.valkeySettings) == has(oldSelf.valkeySettings) && (!has(self.valkeySettings) || self.valkeySettings == oldSelf.valkeySettings)",message="valkeySettings is immutable"
// +kubebuilder:validation:XValidation:rule="self.shardIndex == oldSelf.shardIndex",message="shardIndex is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.tlsSecret) == has(oldSelf.tlsSecret) && (!has(self.tlsSecret) || self.tlsSecret == oldSelf.tlsSecret)",message="tlsSecret is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.placement) == has(oldSelf.placement) && (!has(self.placement) || self.placement == oldSelf.placement)",message="placement is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.revision) == has(oldSelf.revision) && (!has(self.revision) || self.revision == oldSelf.revision)",message="revision is immutable"
type ValkeyNodeSpec struct {
	// Name of the ValkeyCluster that the node belongs to, in the same namespace. Required, immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=57
	ClusterName string `json:"clusterName"`
	// Resolved image of the pod, repository:tag or repository@sha256:... . Required, immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image"`
	// CPU request and limit in cores. Default: neither. Immutable.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int || size(self) <= 32",message="cpu has at most 32 characters"
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// Memory request and limit in bytes. Default: neither. Immutable.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int || size(self) <= 32",message="memory has at most 32 characters"
	Memory *resource.Quantity `json:"memory,omitempty"`
	// Directives of the node's valkey.conf, defaults and forced settings baked in. At most 768. Immutable.
	// +optional
	// +kubebuilder:validation:MaxProperties=768
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 128)",message="a directive name has at most 128 characters"
	ValkeySettings map[string]DirectiveValue `json:"valkeySettings,omitempty"`
	// Scheduling index of the node's shard, from 0: pods of one index are spread over hosts and zones. Not the Valkey
	// shard id, which the node may leave by a failover or repair. Required, immutable.
	// +required
	// +kubebuilder:validation:Minimum=0
	ShardIndex int32 `json:"shardIndex"`
	// Name of the Secret with TLS material that the pod mounts. Default: no TLS. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	TLSSecret string `json:"tlsSecret,omitempty"`
	// Where the pod may run, copied from the ValkeyCluster. Immutable.
	// +optional
	Placement *Placement `json:"placement,omitempty"`
	// Where the node is in its life: Joining (created for a running Valkey cluster or a bootstrap and not a member
	// yet), Active, or Leaving (to be retired). Default Active.
	// +optional
	// +kubebuilder:default=Active
	Lifecycle NodeLifecycle `json:"lifecycle,omitempty"`
	// Hash of what the node was made from: "v1:" and the SHA-256 of image, canonical cpu and memory, the user's
	// merged directives, sorted zones and nodeSelector. The node is outdated if the hash computed in the way of its
	// own prefix differs. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Revision string `json:"revision,omitempty"`
}

// NodeLifecycle is where a node is in its life.
//
// +kubebuilder:validation:Enum=Joining;Active;Leaving
type NodeLifecycle string

// Values of NodeLifecycle.
const (
	// NodeLifecycleJoining: the node is not a member of the Valkey cluster yet.
	NodeLifecycleJoining NodeLifecycle = "Joining"
	// NodeLifecycleActive: the node is a member. The default.
	NodeLifecycleActive NodeLifecycle = "Active"
	// NodeLifecycleLeaving: the node is being retired.
	NodeLifecycleLeaving NodeLifecycle = "Leaving"
)

// NodeRole is the role of a server.
//
// +kubebuilder:validation:Enum=primary;replica
type NodeRole string

// Values of NodeRole.
const (
	// NodeRolePrimary accepts writes for its slots.
	NodeRolePrimary NodeRole = "primary"
	// NodeRoleReplica copies a primary.
	NodeRoleReplica NodeRole = "replica"
)

// ValkeyNodeStatus is what the operator saw of a node.
type ValkeyNodeStatus struct {
	// UID of the node's pod. Once set, the node never gets another pod, and nothing is sent to a pod before its UID is
	// here. Written by the operator.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	PodUID string `json:"podUID,omitempty"`
	// IP address of the pod, of its first family. Written by the operator.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	PodIP string `json:"podIP,omitempty"`
	// Valkey's id of the node, 40 hex digits. Written by the operator.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	NodeID string `json:"nodeID,omitempty"`
	// "primary" or "replica" as the server itself reports it. Written by the operator.
	// +optional
	Role NodeRole `json:"role,omitempty"`
	// Zone of the Kubernetes node that runs the pod. Written by the operator.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Zone string `json:"zone,omitempty"`
	// Generation of the spec that the conditions are about. Written by the operator.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Present state, one entry per type: PodCreated, PodRunning. Written by the operator.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ValkeyNodeList is a list of ValkeyNodes.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type ValkeyNodeList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// The ValkeyNodes.
	Items []ValkeyNode `json:"items"`
}
