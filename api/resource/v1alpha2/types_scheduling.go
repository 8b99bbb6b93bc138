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
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	// What the scheduler proposes.
	Spec PodSchedulingContextSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`

	// What the drivers answer.
	// +optional
	Status PodSchedulingContextStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// PodSchedulingContextSpec is what the scheduler proposes.
type PodSchedulingContextSpec struct {
	// The node for which claims that wait for their first consumer are to be allocated.
	// +optional
	SelectedNode string `json:"selectedNode,omitempty" protobuf:"bytes,1,opt,name=selectedNode"`

	// Nodes the pod could run on, at most 128.
	//
	// +listType=atomic
	// +optional
	PotentialNodes []string `json:"potentialNodes,omitempty" protobuf:"bytes,2,rep,name=potentialNodes"`
}

// PodSchedulingContextStatus is what the drivers answer.
type PodSchedulingContextStatus struct {
	// One entry for each claim of the pod that waits for its first consumer.
	//
	// +listType=map
	// +listMapKey=name
	// +optional
	ResourceClaims []ResourceClaimSchedulingStatus `json:"resourceClaims,omitempty" protobuf:"bytes,1,rep,name=resourceClaims"`
}

// ResourceClaimSchedulingStatus is what a driver answers for one claim of the pod.
type ResourceClaimSchedulingStatus struct {
	// Name of the claim as the pod's spec.resourceClaims calls it.
	// +optional
	Name string `json:"name,omitempty" protobuf:"bytes,1,opt,name=name"`

	// Nodes the claim cannot be allocated for, at most 128.
	//
	// +listType=atomic
	// +optional
	UnsuitableNodes []string `json:"unsuitableNodes,omitempty" protobuf:"bytes,2,rep,name=unsuitableNodes"`
}

// PodSchedulingContextList is a list of scheduling contexts.
//
// +kubebuilder:object:root=true
type PodSchedulingContextList struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata of the list.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	// The scheduling contexts.
	Items []PodSchedulingContext `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// StructuredResourceHandle is an allocation in a form the scheduler understands.
type StructuredResourceHandle struct {
	// Parameters of the class at the time of allocation.
	// +optional
	VendorClassParameters runtime.RawExtension `json:"vendorClassParameters,omitempty" protobuf:"bytes,1,opt,name=vendorClassParameters"`

	// Parameters of the claim at the time of allocation.
	// +optional
	VendorClaimParameters runtime.RawExtension `json:"vendorClaimParameters,omitempty" protobuf:"bytes,2,opt,name=vendorClaimParameters"`

	// The node that provides the resource; empty if it is not local to one.
	// +optional
	NodeName string `json:"nodeName,omitempty" protobuf:"bytes,4,opt,name=nodeName"`

	// What each request was given.
	//
	// +listType=atomic
	Results []DriverAllocationResult `json:"results" protobuf:"bytes,5,rep,name=results"`
}

// DriverAllocationResult is what one request was given.
type DriverAllocationResult struct {
	// Parameters of the request at the time of allocation.
	// +optional
	VendorRequestParameters runtime.RawExtension `json:"vendorRequestParameters,omitempty" protobuf:"bytes,1,opt,name=vendorRequestParameters"`

	// What was given.
	AllocationResultModel `json:",inline" protobuf:"bytes,2,opt,name=allocationResultModel"`
}

// AllocationResultModel defines by which model the request was served; exactly one must be set.
type AllocationResultModel struct {
	// An instance chosen by name.
	// +optional
	NamedResources *NamedResourcesAllocationResult `json:"namedResources,omitempty" protobuf:"bytes,1,opt,name=namedResources"`
}

// NamedResourcesAllocationResult is an instance chosen by name.
type NamedResourcesAllocationResult struct {
	// Name of the instance.
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
}
