package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ValkeyConfig says how Valkey nodes run: image, resources, directives and users. The platform team writes it; a
// ValkeyCluster picks it by configRef. It may inherit from another one along baseRef, at most 10 deep, child
// first. Editing it, or one that it inherits from, changes every cluster on it.
//
// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=valkeyconfigs,singular=valkeyconfig,scope=Cluster,shortName=vkcfg,categories=valkey
// +kubebuilder:printcolumn:name="ImageRef",type=string,JSONPath=".spec.imageRef"
// +kubebuilder:printcolumn:name="BaseRef",type=string,JSONPath=".spec.baseRef"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type ValkeyConfig struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// How nodes run. Written by the platform team.
	// +required
	Spec ValkeyConfigSpec `json:"spec"`
	// What the operator found out about the config. Written by the operator.
	// +optional
	Status ValkeyConfigStatus `json:"status,omitempty"`
}

// ValkeyConfigSpec is a set of choices, each optional: what is not set here comes from the config that baseRef names.
type ValkeyConfigSpec struct {
	// Name of the ValkeyImage to run. The first config of the chain that sets it wins; one of them must. Resolved on
	// each pass. At most 253 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ImageRef string `json:"imageRef,omitempty"`
	// Name of the ValkeyConfig to inherit from. Resolved on each pass; a chain of more than 10 configs, or a cycle,
	// blocks the cluster until it is mended. Default: none. At most 253 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	BaseRef string `json:"baseRef,omitempty"`
	// CPU and memory of each node.
	// +optional
	Resources *ValkeyResources `json:"resources,omitempty"`
	// Directives of valkey.conf, name to value, merged per name along the chain, child first. At most 512; a name is
	// lower case, a value at most 8192 characters without control characters. Directives that hold credentials or
	// that the operator must own are rejected; those that it merely forces are accepted and overridden, which a
	// condition tells. Editing one replaces every node, one after the other.
	// +optional
	// +kubebuilder:validation:MaxProperties=512
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[a-z][a-z0-9-]{0,127}$'))",message="a directive name starts with a lower-case letter and has only lower-case letters, digits and '-', at most 128 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !(k in ['requirepass', 'masterauth', 'masteruser', 'primaryauth', 'user', 'aclfile']))",message="requirepass, masterauth, masteruser, primaryauth, user and aclfile are not allowed: users are bound with acl"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !(k in ['include', 'rename-command', 'unixsocket', 'daemonize', 'logfile']))",message="include, rename-command, unixsocket, daemonize and logfile are not allowed: the operator owns how the process runs"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !(k in ['replicaof', 'slaveof', 'cluster-port']) && !k.startsWith('cluster-announce-'))",message="replicaof, slaveof, cluster-port and cluster-announce-* are not allowed: the operator owns the topology"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('tls-') || k in ['tls-protocols', 'tls-ciphers', 'tls-ciphersuites', 'tls-prefer-server-ciphers'] || k.startsWith('tls-session-'))",message="of the tls-* directives only tls-protocols, tls-ciphers, tls-ciphersuites, tls-prefer-server-ciphers and tls-session-* are allowed"
	// +kubebuilder:validation:XValidation:rule="!('loadmodule' in self) || (self['loadmodule'].matches('^/[^ \"\\'\\\\\\\\]+( |$)') && !self['loadmodule'].matches('^[^ ]*/[.]{0,2}(/| |$)') && !self['loadmodule'].matches('^/var/lib/valkey(/| |$)'))",message="loadmodule takes an absolute, plain path that is not under /var/lib/valkey"
	Valkey map[string]DirectiveValue `json:"valkey,omitempty"`
	// Users and their rights. The first config of the chain that sets this list supplies all of it. A ValkeyCluster
	// adds its own. No binding anywhere leaves Valkey's default user fully open; any binding closes it, unless one
	// is named "default". At most 64, each username once.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, b.username == a.username))",message="duplicate username in ACL bindings"
	Acl []AclBinding `json:"acl,omitempty"`
}

// DirectiveValue is the value of one directive, as a person would write it in valkey.conf but without quoting: the
// operator quotes it.
//
// +kubebuilder:validation:MaxLength=8192
// +kubebuilder:validation:XValidation:rule="self.matches('^\\\\P{Cc}*$')",message="a directive value has no control character"
type DirectiveValue = string

// ValkeyResources are the resources of a node's container. Each is its request and its limit.
type ValkeyResources struct {
	// CPU of each node, in cores, for example "500m" or "2"; applied as request and limit. The first config of the
	// chain that sets it wins. Default: neither request nor limit. Positive.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self > 0 : size(self) <= 32 && self.matches('^[+]?([0-9]*[1-9][0-9]*([.][0-9]*)?|[0-9]*[.][0-9]*[1-9][0-9]*)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?$')",message="cpu must be a valid, positive quantity, for example 500m or 2"
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// Memory of each node, in bytes, for example "512Mi" or "4Gi"; applied as request and limit. The first config of
	// the chain that sets it wins. Default: neither request nor limit. Positive. Leave room above maxmemory.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self > 0 : size(self) <= 32 && self.matches('^[+]?([0-9]*[1-9][0-9]*([.][0-9]*)?|[0-9]*[.][0-9]*[1-9][0-9]*)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?$')",message="memory must be a valid, positive quantity, for example 512Mi or 4Gi"
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// ValkeyConfigStatus is what the operator reports about a config.
type ValkeyConfigStatus struct {
	// Generation of the spec that the conditions are about. Written by the operator.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Present state, one entry per type. Written by the operator.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ValkeyConfigList is a list of ValkeyConfigs.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type ValkeyConfigList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// The ValkeyConfigs.
	Items []ValkeyConfig `json:"items"`
}
