package v1alpha1

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FederatedHPA scales a workload by the metrics of all its copies together.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=federatedhpas,scope=Namespaced,shortName=fhpa,categories={karmada-io}
// +kubebuilder:printcolumn:JSONPath=`.spec.scaleTargetRef.kind`,name=REFERENCE-KIND,type=string
// +kubebuilder:printcolumn:JSONPath=`.spec.scaleTargetRef.name`,name=REFERENCE-NAME,type=string
// +kubebuilder:printcolumn:JSONPath=`.spec.minReplicas`,name=MINPODS,type=integer
// +kubebuilder:printcolumn:JSONPath=`.spec.maxReplicas`,name=MAXPODS,type=integer
// +kubebuilder:printcolumn:JSONPath=`.status.currentReplicas`,name=REPLICAS,type=integer
// +kubebuilder:printcolumn:JSONPath=`.metadata.creationTimestamp`,name=AGE,type=date
type FederatedHPA struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is scaled, by what, and between which bounds.
	// +required
	Spec FederatedHPASpec `json:"spec"`

	// What the autoscaler measures and decides, as in a HorizontalPodAutoscaler.
	// +optional
	Status autoscalingv2.HorizontalPodAutoscalerStatus `json:"status,omitempty"`
}

// FederatedHPAList is a list of FederatedHPA.
//
// +kubebuilder:object:root=true
type FederatedHPAList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FederatedHPA `json:"items"`
}

// FederatedHPASpec describes what is scaled, by what, and between which bounds.
//
// +kubebuilder:validation:XValidation:rule="self.maxReplicas >= 1",fieldPath=".maxReplicas",message="maxReplicas must be at least 1"
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || (self.minReplicas >= 1 && self.minReplicas <= self.maxReplicas)",fieldPath=".minReplicas",message="minReplicas must be at least 1 and not greater than maxReplicas"
type FederatedHPASpec struct {
	// The workload to scale.
	// +required
	ScaleTargetRef autoscalingv2.CrossVersionObjectReference `json:"scaleTargetRef"`

	// The smallest number of replicas over all clusters. Default 1.
	// +optional
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// The largest number of replicas over all clusters. Not smaller than minReplicas.
	// +required
	MaxReplicas int32 `json:"maxReplicas"`

	// What to scale by; the metric that results in the most replicas decides. Default: 80
	// percent use of requested CPU on average.
	// +optional
	Metrics []autoscalingv2.MetricSpec `json:"metrics,omitempty"`

	// How fast to scale in either direction. Default: up by 4 replicas or to the
	// double within 15 seconds, down at once after 300 seconds of lower demand.
	// +optional
	Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior,omitempty"`
}
