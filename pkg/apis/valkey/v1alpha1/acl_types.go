package v1alpha1

// AclBinding gives one Valkey user its passwords and its permissions. It is part of a ValkeyConfig or ValkeyCluster.
type AclBinding struct {
	// Name of the user, 1 to 128 letters, digits, '_' and '-'. "default" binds Valkey's default user; names that
	// start with "_momento_" belong to the operator. Required; each name once in a list.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9_-]+$')",message="username has only letters, digits, '_' and '-'"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('_momento_')",message="username must not start with '_momento_', which is reserved for the operator"
	Username string `json:"username"`
	// SHA-256 hashes of the passwords that the user may log in with, each 64 lower-case hex digits without "#". 1 to
	// 8, so that a password can be rotated without downtime. Required.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[0-9a-f]{64}$')",message="a password hash is a SHA-256 in exactly 64 lower-case hex digits, without '#'"
	PasswordHashes []string `json:"passwordHashes"`
	// What the user may do, 1 to 16. The first is the user's root rules, each further one a selector of Valkey's
	// ACL language: a command is allowed if one permission allows it whole, with its keys and channels. Required.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Permissions []AclPermission `json:"permissions"`
}

// AclPermission joins a role with the keys and channels that it is for.
type AclPermission struct {
	// Name of the ValkeyRole that says which commands. Resolved on each pass: a role that does not exist holds back
	// ACL changes only; a new cluster waits for it. Required, at most 253 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	RoleRef string `json:"roleRef"`
	// Keys that the commands may touch, at most 16; an empty list means none. Required.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Keys []KeyPattern `json:"keys"`
	// Glob patterns of the Pub/Sub channels that the commands may use, at most 16, each at most 128 characters
	// without control characters, spaces and quotes. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[^\\\\p{Cc} \"\\']*$')",message="a channel pattern has no control character, space or quote"
	Channels []string `json:"channels,omitempty"`
}

// KeyAccess says what may be done with the keys of a pattern.
//
// +kubebuilder:validation:Enum=read;write;readwrite
type KeyAccess string

// Values of KeyAccess.
const (
	// KeyAccessRead lets commands read the keys ("%R~" in Valkey's ACL language).
	KeyAccessRead KeyAccess = "read"
	// KeyAccessWrite lets commands write the keys ("%W~" in Valkey's ACL language).
	KeyAccessWrite KeyAccess = "write"
	// KeyAccessReadWrite lets commands do both ("~" in Valkey's ACL language). The default.
	KeyAccessReadWrite KeyAccess = "readwrite"
)

// KeyPattern selects keys and says what may be done with them.
type KeyPattern struct {
	// Glob pattern of the keys, at most 256 characters without control characters, spaces and quotes. Required.
	// +required
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^\\\\p{Cc} \"\\']*$')",message="a key pattern has no control character, space or quote"
	Pattern string `json:"pattern"`
	// "read", "write" or "readwrite". Default "readwrite".
	// +optional
	// +kubebuilder:default=readwrite
	Access KeyAccess `json:"access,omitempty"`
}
