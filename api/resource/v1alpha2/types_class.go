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
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	// Name of the driver: a DNS subdomain of at most 63 bytes.
	DriverName string `json:"driverName" protobuf:"bytes,2,opt,name=driverName"`

	// An object with parameters for the driver that hold for every claim of the class.
	// +optional
	ParametersRef *ResourceClassParametersReference `json:"parametersRef,omitempty" protobuf:"bytes,3,opt,name=parametersRef"`

	// Nodes on which pods may run that use a claim of the class, before it is allocated; absent means all.
	// +optional
	SuitableNodes *corev1.NodeSelector `json:"suitableNodes,omitempty" protobuf:"bytes,4,opt,name=suitableNodes"`

	// Whether the scheduler, not a driver's controller, allocates claims of the class.
	// +optional
	StructuredParameters *bool `json:"structuredParameters,omitempty" protobuf:"varint,5,opt,name=structuredParameters"`
}

// ResourceClassParametersReference names an object with parameters of a class.
type ResourceClassParametersReference struct {
	// Group of the object's kind; empty for the core group.
	// +optional
	APIGroup string `json:"apiGroup,omitempty" protobuf:"bytes,1,opt,name=apiGroup"`
	// Kind of the object.
	Kind string `json:"kind" protobuf:"bytes,2,opt,name=kind"`
	// Name of the object.
	Name string `json:"name" protobuf:"bytes,3,opt,name=name"`
	// Namespace of the object; empty if it is cluster-scoped.
	// +optional
	Namespace string `json:"namespace,omitempty" protobuf:"bytes,4,opt,name=namespace"`
}

// ResourceClassList is a list of classes.
//
// +kubebuilder:object:root=true
type ResourceClassList struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata of the list.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	// The classes.
	Items []ResourceClass `json:"items" protobuf:"bytes,2,rep,name=items"`
}
