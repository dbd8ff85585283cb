package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ValkeyCluster is one Valkey cluster: shards of a primary and its replicas, in memory, without disks. A product
// team writes its spec; the operator creates the nodes, forms the cluster, repairs, scales and updates it.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=valkeyclusters,singular=valkeycluster,scope=Namespaced,shortName=vkc,categories=valkey
// +kubebuilder:printcolumn:name="Config",type=string,JSONPath=".spec.configRef"
// +kubebuilder:printcolumn:name="Shards",type=integer,JSONPath=".spec.shards"
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=".spec.replicasPerShard"
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=".status.state"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 57",message="the name of a ValkeyCluster has at most 57 characters, so that its pods' names are valid host names and labels"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="the name of a ValkeyCluster starts with a letter and has only lower-case letters, digits and '-', as it names a Service"
type ValkeyCluster struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name has at most 57 characters and is a DNS-1035 label: the Service and the pods
	// are named after it.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// What the cluster should be. Written by the product team.
	// +required
	Spec ValkeyClusterSpec `json:"spec"`
	// What the cluster is. Written by the operator.
	// +optional
	// +kubebuilder:default={state: "Creating"}
	Status ValkeyClusterStatus `json:"status,omitempty"`
}

// ValkeyClusterSpec is the wanted state of a Valkey cluster.
//
// +kubebuilder:validation:XValidation:rule="has(self.tls) == has(oldSelf.tls)",message="tls cannot be added to or removed from an existing ValkeyCluster; only its secretRef may change"
// +kubebuilder:validation:XValidation:rule="self.shards * (self.replicasPerShard + 1) <= 16384",message="shards * (1 + replicasPerShard) must be at most 16384 nodes"
type ValkeyClusterSpec struct {
	// Name of the ValkeyConfig that says how nodes run. Resolved on each pass. A change that alters the result
	// replaces every node, one after the other. Required, at most 253 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ConfigRef string `json:"configRef"`
	// Number of shards, each with one primary; the 16384 slots are spread evenly to within one. An edit adds empty
	// shards and moves slots to them, or drains the smallest shards and removes them. Edits while the cluster is
	// Creating apply afterwards. Required, 1 to 16384.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16384
	Shards int32 `json:"shards"`
	// Number of replicas of each shard, not counting the primary. With 0 a lost primary is lost data. Edits while
	// the cluster is Creating apply afterwards. Required, at least 0.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16383
	ReplicasPerShard int32 `json:"replicasPerShard"`
	// Users and their rights, in addition to those of the config; a username that the config chain binds too is an
	// error. Changes apply in place. At most 64, each username once. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, b.username == a.username))",message="duplicate username in ACL bindings"
	Acl []AclBinding `json:"acl,omitempty"`
	// Where pods may run.
	// +optional
	Placement *Placement `json:"placement,omitempty"`
	// TLS for clients, replication and the cluster bus; with it no node listens in plain text. Can be neither added
	// nor removed later. Default: no TLS.
	// +optional
	TLS *ValkeyTLS `json:"tls,omitempty"`
	// Annotations of the pods. Added and changed keys are merged into running pods in place; removed keys stay on
	// the pods that have them. Keys under valkey.gomomento.com/ are reserved. At most 128. Default: none.
	// +optional
	// +kubebuilder:validation:MaxProperties=128
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('valkey.gomomento.com/'))",message="annotation keys under valkey.gomomento.com/ are reserved for the operator"
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 317)",message="an annotation key has at most 317 characters"
	PodAnnotations map[string]AnnotationValue `json:"podAnnotations,omitempty"`
}

// AnnotationValue is the value of a pod's annotation, at most 65536 characters.
//
// +kubebuilder:validation:MaxLength=65536
type AnnotationValue = string

// ZoneSpread says how strictly the nodes of a shard are spread over zones.
//
// +kubebuilder:validation:Enum=bestEffort;required
type ZoneSpread string

// Values of ZoneSpread.
const (
	// ZoneSpreadBestEffort prefers different zones (ScheduleAnyway).
	ZoneSpreadBestEffort ZoneSpread = "bestEffort"
	// ZoneSpreadRequired demands an even spread of each shard over the zones (DoNotSchedule).
	ZoneSpreadRequired ZoneSpread = "required"
)

// Placement says where pods may run.
type Placement struct {
	// Zones that pods may run in: a hard node affinity on label topology.kubernetes.io/zone. Order and repetition do
	// not matter. A changed set replaces every node, one after the other. At most 64, each at most 63 characters.
	// Default: any zone.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Zones []string `json:"zones,omitempty"`
	// "bestEffort" prefers to spread each shard over zones; "required" does not schedule a pod that would break the
	// spread. A change is for future pods only. Default: DEFAULT_ZONE_SPREAD of the operator's configuration.
	// +optional
	ZoneSpread ZoneSpread `json:"zoneSpread,omitempty"`
	// Labels that a Kubernetes node must have, verbatim the nodeSelector of the pods. A change replaces every node,
	// one after the other. At most 64. Default: none.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 317)",message="a label key has at most 317 characters"
	NodeSelector map[string]LabelValue `json:"nodeSelector,omitempty"`
}

// LabelValue is the value of a label, at most 63 characters.
//
// +kubebuilder:validation:MaxLength=63
type LabelValue = string

// ValkeyTLS turns on TLS.
type ValkeyTLS struct {
	// Name of a Secret of type kubernetes.io/tls in the same namespace with tls.crt, tls.key and ca.crt. The
	// certificate must name {cluster}.{namespace}.svc.{domain} and its wildcard. Validated on each pass; nodes get
	// a validated copy, so a broken Secret never reaches them. May be changed. Required, at most 253 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretRef string `json:"secretRef"`
}

// ClusterState is where a ValkeyCluster is in its life.
//
// +kubebuilder:validation:Enum=Creating;Active;Updating;Invalid
type ClusterState string

// Values of ClusterState.
const (
	// ClusterStateCreating: the nodes start and the Valkey cluster is formed. The default.
	ClusterStateCreating ClusterState = "Creating"
	// ClusterStateActive: the Valkey cluster was formed; repairs, scaling and updates happen in this state.
	ClusterStateActive ClusterState = "Active"
	// ClusterStateUpdating is reserved and never reported.
	ClusterStateUpdating ClusterState = "Updating"
	// ClusterStateInvalid: the TLS material is unusable, message says why; no topology action until it is mended.
	ClusterStateInvalid ClusterState = "Invalid"
)
