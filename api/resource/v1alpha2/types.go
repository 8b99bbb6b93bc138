package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Limits on what one object may hold. Validation refuses more before anything is stored.
const (
	// MaxReservedFor is how many consumers may hold one claim at a time.
	MaxReservedFor = 32
	// MaxResourceHandles is how many handles one allocation may have.
	MaxResourceHandles = 32
	// MaxResourceHandleData is how many bytes of data one handle may carry.
	MaxResourceHandleData = 16 * 1024
	// MaxSchedulingNodes is how many nodes a PodSchedulingContext may list in one place.
	MaxSchedulingNodes = 128
)

// AllocationMode defines when a driver allocates a claim.
type AllocationMode string

const (
	// AllocationModeWaitForFirstConsumer is the default: allocate when a pod that uses the claim is scheduled.
	AllocationModeWaitForFirstConsumer AllocationMode = "WaitForFirstConsumer"
	// AllocationModeImmediate means: allocate as soon as the claim is there.
	AllocationModeImmediate AllocationMode = "Immediate"
)

// ResourceClaim requests a resource of a class for its consumers. Its status reports whether and how the resource is allocated.
//
// +kubebuilder:object:root=true
type ResourceClaim struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata common to all objects.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	// What is requested. It can never be changed.
	Spec ResourceClaimSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`

	// What is allocated. Drivers and consumers write it through the status subresource.
	// +optional
	Status ResourceClaimStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// ResourceClaimSpec is what a claim requests.
type ResourceClaimSpec struct {
	// Name of the ResourceClass, and through it the driver, that serves the claim. The class need not exist yet.
	ResourceClassName string `json:"resourceClassName" protobuf:"bytes,1,opt,name=resourceClassName"`

	// An object in the namespace of the claim with parameters for the driver.
	// +optional
	ParametersRef *ResourceClaimParametersReference `json:"parametersRef,omitempty" protobuf:"bytes,2,opt,name=parametersRef"`

	// When to allocate: Immediate or WaitForFirstConsumer, which is the default.
	// +optional
	AllocationMode AllocationMode `json:"allocationMode,omitempty" protobuf:"bytes,3,opt,name=allocationMode"`
}

// ResourceClaimParametersReference names an object with parameters of a claim.
type ResourceClaimParametersReference struct {
	// Group of the object's kind; empty for the core group.
	// +optional
	APIGroup string `json:"apiGroup,omitempty" protobuf:"bytes,1,opt,name=apiGroup"`
	// Kind of the object.
	Kind string `json:"kind" protobuf:"bytes,2,opt,name=kind"`
	// Name of the object.
	Name string `json:"name" protobuf:"bytes,3,opt,name=name"`
}

// ResourceClaimStatus is what is allocated for a claim and who uses it.
type ResourceClaimStatus struct {
	// The driver that serves the claim, as its class named it when allocation began. Needed from then on.
	// +optional
	DriverName string `json:"driverName,omitempty" protobuf:"bytes,1,opt,name=driverName"`

	// What was allocated; absent while nothing is. It can be set and removed, not changed.
	// +optional
	Allocation *AllocationResult `json:"allocation,omitempty" protobuf:"bytes,2,opt,name=allocation"`

	// Who may use the allocated resource: at most 32, and only one unless the allocation is shareable.
	//
	// +listType=map
	// +listMapKey=uid
	// +patchStrategy=merge
	// +patchMergeKey=uid
	// +optional
	ReservedFor []ResourceClaimConsumerReference `json:"reservedFor,omitempty" patchStrategy:"merge" patchMergeKey:"uid" protobuf:"bytes,3,rep,name=reservedFor"`

	// Requests that the driver deallocates the claim once it has no consumer. From then on no new consumer may reserve
	// it; only the driver ends the request, together with the allocation.
	// +optional
	DeallocationRequested bool `json:"deallocationRequested,omitempty" protobuf:"varint,4,opt,name=deallocationRequested"`
}

// AllocationResult is what a driver allocated for a claim.
type AllocationResult struct {
	// Data for the plugins on the node, at most 32 entries. Without any, the one plugin of the claim's driver
	// is called without data.
	//
	// +listType=atomic
	// +optional
	ResourceHandles []ResourceHandle `json:"resourceHandles,omitempty" protobuf:"bytes,1,rep,name=resourceHandles"`

	// Nodes on which the resource can be used; absent means everywhere.
	// +optional
	AvailableOnNodes *corev1.NodeSelector `json:"availableOnNodes,omitempty" protobuf:"bytes,2,opt,name=availableOnNodes"`

	// Whether several consumers may hold the claim at a time.
	// +optional
	Shareable bool `json:"shareable,omitempty" protobuf:"varint,3,opt,name=shareable"`
}

// ResourceHandle is the data of an allocation for one plugin on the node.
type ResourceHandle struct {
	// The driver whose plugin receives the data.
	// +optional
	DriverName string `json:"driverName,omitempty" protobuf:"bytes,1,opt,name=driverName"`

	// Opaque text of the driver, at most 16384 bytes.
	// +optional
	Data string `json:"data,omitempty" protobuf:"bytes,2,opt,name=data"`

	// The allocation in a form the scheduler understands, instead of data.
	// +optional
	StructuredData *StructuredResourceHandle `json:"structuredData,omitempty" protobuf:"bytes,5,opt,name=structuredData"`
}

// ResourceClaimConsumerReference names who holds a claim: an object in the claim's namespace.
type ResourceClaimConsumerReference struct {
	// Group of the consumer's resource; empty for the core group.
	// +optional
	APIGroup string `json:"apiGroup,omitempty" protobuf:"bytes,1,opt,name=apiGroup"`
	// Plural name of the consumer's resource, for example "pods".
	Resource string `json:"resource" protobuf:"bytes,3,opt,name=resource"`
	// Name of the consumer.
	Name string `json:"name" protobuf:"bytes,4,opt,name=name"`
	// UID of the consumer: a later object of the same name does not hold the claim.
	UID types.UID `json:"uid" protobuf:"bytes,5,opt,name=uid"`
}

// ResourceClaimList is a list of claims.
//
// +kubebuilder:object:root=true
type ResourceClaimList struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata of the list.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	// The claims.
	Items []ResourceClaim `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// ResourceClaimTemplate is what the claims made for pods look like.
//
// +kubebuilder:object:root=true
type ResourceClaimTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata common to all objects.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	// What the claims look like. It can never be changed.
	Spec ResourceClaimTemplateSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
}

// ResourceClaimTemplateSpec is metadata and spec of the claims made from a template.
type ResourceClaimTemplateSpec struct {
	// Labels and annotations copied into each claim; nothing else may be set.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	// Spec of each claim.
	Spec ResourceClaimSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
}

// ResourceClaimTemplateList is a list of claim templates.
//
// +kubebuilder:object:root=true
type ResourceClaimTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata of the list.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	// The claim templates.
	Items []ResourceClaimTemplate `json:"items" protobuf:"bytes,2,rep,name=items"`
}
