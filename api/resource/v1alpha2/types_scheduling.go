package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// PodSchedulingContext is where the scheduler and drivers agree on a node for one pod whose claims wait for it. It
// has the name of the pod and belongs to it.
//
// +kubebuilder:object:root=true
type PodSchedulingContext struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata common to all objects.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What the scheduler proposes.
	Spec PodSchedulingContextSpec `json:"spec"`

	// What the drivers answer.
	// +optional
	Status PodSchedulingContextStatus `json:"status,omitempty"`
}

// PodSchedulingContextSpec is what the scheduler proposes.
type PodSchedulingContextSpec struct {
	// The node for which claims that wait for their first consumer are to be allocated.
	// +optional
	SelectedNode string `json:"selectedNode,omitempty"`

	// Nodes the pod could run on, at most 128.
	//
	// +listType=atomic
	// +optional
	PotentialNodes []string `json:"potentialNodes,omitempty"`
}

// PodSchedulingContextStatus is what the drivers answer.
type PodSchedulingContextStatus struct {
	// One entry for each claim of the pod that waits for its first consumer.
	//
	// +listType=map
	// +listMapKey=name
	// +optional
	ResourceClaims []ResourceClaimSchedulingStatus `json:"resourceClaims,omitempty"`
}

// ResourceClaimSchedulingStatus is what a driver answers for one claim of the pod.
type ResourceClaimSchedulingStatus struct {
	// Name of the claim as the pod's spec.resourceClaims calls it.
	// +optional
	Name string `json:"name,omitempty"`

	// Nodes the claim cannot be allocated for, at most 128.
	//
	// +listType=atomic
	// +optional
	UnsuitableNodes []string `json:"unsuitableNodes,omitempty"`
}

// PodSchedulingContextList is a list of scheduling contexts.
//
// +kubebuilder:object:root=true
type PodSchedulingContextList struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata of the list.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The scheduling contexts.
	Items []PodSchedulingContext `json:"items"`
}

// StructuredResourceHandle is an allocation in a form the scheduler understands.
type StructuredResourceHandle struct {
	// Parameters of the class at the time of allocation.
	// +optional
	VendorClassParameters runtime.RawExtension `json:"vendorClassParameters,omitempty"`

	// Parameters of the claim at the time of allocation.
	// +optional
	VendorClaimParameters runtime.RawExtension `json:"vendorClaimParameters,omitempty"`

	// The node that provides the resource; empty if it is not local to one.
	// +optional
	NodeName string `json:"nodeName,omitempty"`

	// What each request was given.
	//
	// +listType=atomic
	Results []DriverAllocationResult `json:"results"`
}

// DriverAllocationResult is what one request was given.
type DriverAllocationResult struct {
	// Parameters of the request at the time of allocation.
	// +optional
	VendorRequestParameters runtime.RawExtension `json:"vendorRequestParameters,omitempty"`

	// What was given.
	AllocationResultModel `json:",inline"`
}

// AllocationResultModel says by which model the request was served; exactly one must be set.
type AllocationResultModel struct {
	// An instance chosen by name.
	// +optional
	NamedResources *NamedResourcesAllocationResult `json:"namedResources,omitempty"`
}

// NamedResourcesAllocationResult is an instance chosen by name.
type NamedResourcesAllocationResult struct {
	// Name of the instance.
	Name string `json:"name"`
}
