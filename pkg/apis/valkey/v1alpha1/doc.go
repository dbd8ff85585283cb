// Package v1alpha1 is the API of the Valkey operator, version v1alpha1 of group valkey.gomomento.com.
//
// The platform team writes the cluster-scoped menu: ValkeyImage (which binary), ValkeyConfig (how it runs) and
// ValkeyRole (what a user may do). A product team writes a ValkeyCluster in its namespace and picks from the
// menu by name. The operator alone writes a ValkeyNode for each server process.
//
// The comments of the types are what `kubectl explain` prints. All validation is in the schema and in CEL rules
// that Kubernetes 1.27 can run; there is no admission webhook.
//
// Lists whose JSON has no omitempty (AclPermission.Keys, ...) must be non-nil when an object is created through
// the clientset: a nil slice marshals as null, which the API server takes as absent.
//
// +k8s:deepcopy-gen=package
// +groupName=valkey.gomomento.com
package v1alpha1
