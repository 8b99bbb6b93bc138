package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WorkloadRebalancer requests a fresh scheduling decision for workloads, one that
// disregards where they are now.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=workloadrebalancers,scope=Cluster
type WorkloadRebalancer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The workloads.
	// +required
	Spec WorkloadRebalancerSpec `json:"spec"`

	// What became of the request.
	// +optional
	Status WorkloadRebalancerStatus `json:"status,omitempty"`
}

// WorkloadRebalancerList is a list of WorkloadRebalancer.
//
// +kubebuilder:object:root=true
type WorkloadRebalancerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkloadRebalancer `json:"items"`
}

// WorkloadRebalancerSpec names workloads.
//
// +kubebuilder:validation:XValidation:rule="!has(self.ttlSecondsAfterFinished) || self.ttlSecondsAfterFinished >= 0",fieldPath=".ttlSecondsAfterFinished",message="ttlSecondsAfterFinished must not be negative"
type WorkloadRebalancerSpec struct {
	// The workloads. At least one is needed.
	// +required
	// +kubebuilder:validation:MinItems=1
	Workloads []ObjectReference `json:"workloads"`

	// How long, in seconds, this object is kept after it is finished. Unset keeps it
	// for good, 0 deletes it at once.
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// ObjectReference names a workload.
type ObjectReference struct {
	// Group and version, for example "apps/v1".
	// +required
	APIVersion string `json:"apiVersion"`

	// Kind, for example "Deployment".
	// +required
	Kind string `json:"kind"`

	// Name.
	// +required
	Name string `json:"name"`

	// Namespace. Empty for a cluster-scoped object.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// WorkloadRebalancerStatus is what became of the request.
type WorkloadRebalancerStatus struct {
	// What became of each workload.
	// +optional
	ObservedWorkloads []ObservedWorkload `json:"observedWorkloads,omitempty"`

	// The generation of this object that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// When the last workload was dealt with.
	// +optional
	FinishTime *metav1.Time `json:"finishTime,omitempty"`
}

// RebalanceResult is how the request for one workload ended.
type RebalanceResult string

// The values of RebalanceResult.
const (
	RebalanceSuccessful RebalanceResult = "Successful"
	RebalanceFailed     RebalanceResult = "Failed"
)

// RebalanceFailedReason is the reason why the request for one workload failed.
type RebalanceFailedReason string

// RebalanceObjectNotFound means that the workload has no binding.
const RebalanceObjectNotFound RebalanceFailedReason = "ReferencedBindingNotFound"

// ObservedWorkload is the result for one workload.
type ObservedWorkload struct {
	// The workload.
	// +required
	Workload ObjectReference `json:"workload"`

	// "Successful" once its fresh decision is requested, "Failed" if it cannot be.
	// +optional
	Result RebalanceResult `json:"result,omitempty"`

	// Why it cannot be, for example "ReferencedBindingNotFound".
	// +optional
	Reason RebalanceFailedReason `json:"reason,omitempty"`
}
