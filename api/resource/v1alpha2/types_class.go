package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResourceClass ties claims to the driver that serves them.
//
// +kubebuilder:object:root=true
type ResourceClass struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata common to all objects.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Name of the driver: a DNS subdomain of at most 63 bytes.
	DriverName string `json:"driverName"`

	// An object with parameters for the driver that hold for every claim of the class.
	// +optional
	ParametersRef *ResourceClassParametersReference `json:"parametersRef,omitempty"`

	// Nodes on which pods may run that use a claim of the class, before it is allocated; absent means all.
	// +optional
	SuitableNodes *corev1.NodeSelector `json:"suitableNodes,omitempty"`

	// Whether the scheduler, not a driver's controller, allocates claims of the class.
	// +optional
	StructuredParameters *bool `json:"structuredParameters,omitempty"`
}

// ResourceClassParametersReference names an object with parameters of a class.
type ResourceClassParametersReference struct {
	// Group of the object's kind; empty for the core group.
	// +optional
	APIGroup string `json:"apiGroup,omitempty"`
	// Kind of the object.
	Kind string `json:"kind"`
	// Name of the object.
	Name string `json:"name"`
	// Namespace of the object; empty if it is cluster-scoped.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// ResourceClassList is a list of classes.
//
// +kubebuilder:object:root=true
type ResourceClassList struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata of the list.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The classes.
	Items []ResourceClass `json:"items"`
}
