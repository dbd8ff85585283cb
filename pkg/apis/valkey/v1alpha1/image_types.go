package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ValkeyImage names one Valkey container image and the engine version inside it. The platform team writes it; a
// ValkeyConfig picks it by imageRef. Editing it replaces, one after the other, every node that runs on it.
//
// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=valkeyimages,singular=valkeyimage,scope=Cluster,shortName=vki,categories=valkey
// +kubebuilder:printcolumn:name="Repository",type=string,JSONPath=".spec.repository"
// +kubebuilder:printcolumn:name="Tag",type=string,JSONPath=".spec.tag"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=".spec.version"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type ValkeyImage struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// What to pull. Written by the platform team.
	// +required
	Spec ValkeyImageSpec `json:"spec"`
	// What the operator found out about the image. Written by the operator.
	// +optional
	Status ValkeyImageStatus `json:"status,omitempty"`
}

// ValkeyImageSpec says which image nodes run. The image must contain valkey-server and valkey-cli and needs no shell.
type ValkeyImageSpec struct {
	// Image name without a tag, registry included, as a container runtime takes it. Required, 1 to 512 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Repository string `json:"repository"`
	// Tag of the image; the pod's image is repository:tag verbatim. A tag that starts with "sha256:" is a digest
	// and renders as repository@sha256:... . Required, 1 to 128 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Tag string `json:"tag"`
	// Engine version inside the image, a full MAJOR.MINOR.PATCH of at least 9.0.0, for example 9.1.2. The operator
	// checks it against the running server: a binary below 9.0.0 never joins, whatever is written here. 9.0.0 itself
	// runs with a warning condition; 9.0.1 and later are supported. Required.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)$')",message="version must be a full MAJOR.MINOR.PATCH, for example 9.1.2"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-8]([.]|$)')",message="version must be at least 9.0.0"
	Version string `json:"version"`
}

// ValkeyImageStatus is what the operator reports about an image.
type ValkeyImageStatus struct {
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

// ValkeyImageList is a list of ValkeyImages.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type ValkeyImageList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// The ValkeyImages.
	Items []ValkeyImage `json:"items"`
}
