package v1alpha1

// Kinds of this group, as they appear in manifests and in owner references.
const (
	KindValkeyImage   = "ValkeyImage"
	KindValkeyConfig  = "ValkeyConfig"
	KindValkeyRole    = "ValkeyRole"
	KindValkeyCluster = "ValkeyCluster"
	KindValkeyNode    = "ValkeyNode"
)

// Labels on the objects that the operator creates (contract §§1, 2).
const (
	// LabelName says what the pod runs; its value is LabelNameValue. Pods only.
	LabelName = "app.kubernetes.io/name"
	// LabelNameValue is the value of LabelName. The headless Service selects by it and by LabelInstance.
	LabelNameValue = "valkey"
	// LabelInstance names the ValkeyCluster. Pods and ValkeyNodes.
	LabelInstance = "app.kubernetes.io/instance"
	// LabelManagedBy names the operator; its value is LabelManagedByValue. Pods and ValkeyNodes.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// LabelManagedByValue is the value of LabelManagedBy.
	LabelManagedByValue = "valkey-operator"
	// LabelShardIndex is the node's scheduling index, a decimal number from 0. Pods only.
	LabelShardIndex = "valkey.gomomento.com/shard-index"
	// LabelRole is the server's present role, a NodeRole, kept current. Pods only.
	LabelRole = "valkey.gomomento.com/role"
	// LabelJoinType says why a ValkeyNode joins a running Valkey cluster: one of the JoinType values. ValkeyNodes only.
	LabelJoinType = "valkey.gomomento.com/join-type"
)

// Values of LabelJoinType. A node of the bootstrap carries none of them.
const (
	// JoinTypeReplica marks a replacement replica. It stays after the join.
	JoinTypeReplica = "replica"
	// JoinTypePrimary marks the replacement of a dead primary. It stays after the join.
	JoinTypePrimary = "primary"
	// JoinTypeShard marks a node of a scale-out. It is cleared after the join.
	JoinTypeShard = "shard"
)

// ReservedAnnotationPrefix starts every annotation key of the operator; spec.podAnnotations may not use it.
const ReservedAnnotationPrefix = "valkey.gomomento.com/"

// Annotations that a person sets on a ValkeyCluster (contract §7).
const (
	// AnnotationPaused stops every action on the cluster while its value is "true".
	AnnotationPaused = "valkey.gomomento.com/paused"
	// AnnotationRotateCredentials starts a rotation of both system passwords each time its value changes.
	AnnotationRotateCredentials = "valkey.gomomento.com/rotate-credentials"
	// AnnotationRestart rolls every node each time its value changes. A ValkeyNode carries the value that was in
	// force when it was created.
	AnnotationRestart = "valkey.gomomento.com/restart"
)

// Finalizers (contract §2).
const (
	// FinalizerCluster holds a ValkeyCluster until everything that it owns is gone.
	FinalizerCluster = "valkey.gomomento.com/cleanup"
	// FinalizerNode holds a ValkeyNode until its pod is gone.
	FinalizerNode = "valkey.gomomento.com/node-cleanup"
)

// Suffixes of the names that derive from a ValkeyCluster's name, or, for the last, a ValkeyNode's (contract §2).
const (
	// SuffixAuthSecret ends the name of the Secret with the system passwords.
	SuffixAuthSecret = "-operator-auth"
	// SuffixAuthSpare ends the name of the Secret that has the same once more: the first one is made again from it.
	SuffixAuthSpare = "-operator-auth-spare"
	// SuffixACLConfigMap ends the name of the ConfigMap with the ACL file.
	SuffixACLConfigMap = "-acl"
	// SuffixTLSSecret ends the name of the Secret with the validated copy of the TLS material.
	SuffixTLSSecret = "-tls"
	// SuffixNodeConfigMap ends the name of the ConfigMap with a node's valkey.conf.
	SuffixNodeConfigMap = "-config"
)

// Keys of the Secrets and ConfigMaps that the operator writes (contract §2).
const (
	// SecretKeyOperatorPassword holds the password of user _momento_operator, 128 hex digits.
	SecretKeyOperatorPassword = "operator-password"
	// SecretKeyReplPassword holds the password of user _momento_repl, 128 hex digits.
	SecretKeyReplPassword = "repl-password"
	// SecretKeyPrimaryAuth holds the configuration snippet with the primaryauth directive.
	SecretKeyPrimaryAuth = "primaryauth.conf"
	// SecretKeyTLSCert holds the certificate chain, PEM, leaf first. In the user's Secret and in the copy.
	SecretKeyTLSCert = "tls.crt"
	// SecretKeyTLSKey holds the private key, PEM. In the user's Secret and in the copy.
	SecretKeyTLSKey = "tls.key"
	// SecretKeyTLSCA holds the bundle of certificate authorities, PEM. In the user's Secret and in the copy.
	SecretKeyTLSCA = "ca.crt"
	// SecretKeyTLSPreviousCA holds the bundle that was in force before the last rotation. In the copy only.
	SecretKeyTLSPreviousCA = "ca-previous.crt"
	// ConfigMapKeyACL holds the rendered ACL file.
	ConfigMapKeyACL = "users.acl"
	// ConfigMapKeyConfig holds the rendered configuration of one node.
	ConfigMapKeyConfig = "valkey.conf"
)

// Ports of a node (contract §2).
const (
	// PortValkey is the client port, plain or TLS.
	PortValkey = 6379
	// PortValkeyName names PortValkey in the Service and the pod.
	PortValkeyName = "valkey"
	// PortBus is the cluster bus port.
	PortBus = 16379
	// PortBusName names PortBus in the Service and the pod.
	PortBusName = "valkey-bus"
)

// Limits that the schema states and that renderers rely on.
const (
	// MaxClusterNameLength keeps {cluster}-{5 hex}, a pod's hostname and label, within 63 characters.
	MaxClusterNameLength = 57
	// MaxConfigDepth is the longest chain of ValkeyConfigs along baseRef, the first one included.
	MaxConfigDepth = 10
	// TotalSlots is the number of hash slots of a Valkey cluster.
	TotalSlots = 16384
	// MaxAttempts is the most entries that status.attempts of a ValkeyCluster holds.
	MaxAttempts = 256
)

// Condition types of a ValkeyCluster (contract §1). The reason of a condition is a rule's name or a fixed word.
const (
	// ConditionAvailable is True while all 16384 slots are assigned to primaries that answer.
	ConditionAvailable = "Available"
	// ConditionProgressing is True while the operator works towards the spec.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True while something is broken that the operator repairs or cannot repair.
	ConditionDegraded = "Degraded"
	// ConditionReferencesResolved is False while a ValkeyConfig, ValkeyImage or ValkeyRole cannot be resolved.
	ConditionReferencesResolved = "ReferencesResolved"
	// ConditionVersionSupported is False while a node runs an engine that is too old or known to be bad.
	ConditionVersionSupported = "VersionSupported"
	// ConditionPaused is True while AnnotationPaused stops the operator.
	ConditionPaused = "Paused"
	// ConditionCertificateExpiringSoon is True from 30 days before the TLS certificate expires.
	ConditionCertificateExpiringSoon = "CertificateExpiringSoon"
	// ConditionACLsInSync is True while every running node has loaded the present ACL file.
	ConditionACLsInSync = "ACLsInSync"
	// ConditionTLSInSync is True while every running node uses the present TLS material.
	ConditionTLSInSync = "TLSInSync"
)

// Condition types of a ValkeyNode.
const (
	// ConditionPodCreated is False while the node's pod cannot be created; the message is the API server's.
	ConditionPodCreated = "PodCreated"
	// ConditionPodRunning is True while the node's pod runs; otherwise the reason and the message are the
	// scheduler's, the kubelet's or the server's own last words.
	ConditionPodRunning = "PodRunning"
)
