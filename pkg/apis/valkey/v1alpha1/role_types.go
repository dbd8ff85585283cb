package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ValkeyRole is a named set of Valkey commands that users may or may not run. The platform team writes it; an ACL
// binding of a ValkeyConfig or ValkeyCluster picks it by roleRef and adds the keys and channels. Editing it
// changes the rights of every bound user in place, without a restart.
//
// A user starts with nothing (-@all); then the categories apply in list order, then the commands in list order.
//
// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=valkeyroles,singular=valkeyrole,scope=Cluster,shortName=vkr,categories=valkey
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type ValkeyRole struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// What the role allows and denies. Written by the platform team.
	// +required
	Spec ValkeyRoleSpec `json:"spec"`
	// What the operator found out about the role. Written by the operator.
	// +optional
	Status ValkeyRoleStatus `json:"status,omitempty"`
}

// RoleAccess says whether a rule of a role allows or denies.
//
// +kubebuilder:validation:Enum=allow;deny
type RoleAccess string

// Values of RoleAccess.
const (
	// RoleAccessAllow grants the category or command ("+" in Valkey's ACL language).
	RoleAccessAllow RoleAccess = "allow"
	// RoleAccessDeny takes the category or command away ("-" in Valkey's ACL language).
	RoleAccessDeny RoleAccess = "deny"
)

// ValkeyRoleSpec lists what the role allows and denies, in the order in which it applies.
type ValkeyRoleSpec struct {
	// Categories of commands, applied in list order before any command. At most 64. Default none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Categories []RoleCategory `json:"categories,omitempty"`
	// Single commands, applied in list order after the categories. At most 256. Default none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Commands []RoleCommand `json:"commands,omitempty"`
}

// RoleCategory allows or denies one category of commands.
type RoleCategory struct {
	// Name of the category as ACL CAT lists it, without "@", for example "read". Required, at most 64 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z][a-zA-Z0-9_-]*$')",message="a name starts with a letter and has only letters, digits, '_' and '-'; the operator adds the '@' of a category"
	Name string `json:"name"`
	// "allow" or "deny". Required.
	// +required
	Access RoleAccess `json:"access"`
}

// RoleCommand allows or denies one command or one subcommand.
type RoleCommand struct {
	// Name of the command, for example "config". Required, at most 64 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z][a-zA-Z0-9_-]*$')",message="a name starts with a letter and has only letters, digits, '_' and '-'; the operator adds the '@' of a category"
	Name string `json:"name"`
	// Name of a subcommand, for example "get"; the rule is then about command|subcommand alone. Default: the whole
	// command. At most 64 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z][a-zA-Z0-9_-]*$')",message="a name starts with a letter and has only letters, digits, '_' and '-'; the operator adds the '@' of a category"
	Subcommand string `json:"subcommand,omitempty"`
	// "allow" or "deny". Required.
	// +required
	Access RoleAccess `json:"access"`
}

// ValkeyRoleStatus is what the operator reports about a role.
type ValkeyRoleStatus struct {
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

// ValkeyRoleList is a list of ValkeyRoles.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type ValkeyRoleList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// The ValkeyRoles.
	Items []ValkeyRole `json:"items"`
}
