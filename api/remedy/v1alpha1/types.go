package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Remedy describes what should be done about clusters in a given condition.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=remedies,scope=Cluster,categories={karmada-io}
type Remedy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which clusters, when, and what.
	// +required
	Spec RemedySpec `json:"spec"`
}

// RemedyList is a list of Remedy.
//
// +kubebuilder:object:root=true
type RemedyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Remedy `json:"items"`
}

// RemedySpec defines which clusters are helped, when, and how.
type RemedySpec struct {
	// The clusters. Unset means every cluster.
	// +optional
	ClusterAffinity *ClusterAffinity `json:"clusterAffinity,omitempty"`

	// The situations: one that matches is enough. Empty means always.
	// +optional
	DecisionMatches []DecisionMatch `json:"decisionMatches,omitempty"`

	// What to do: "TrafficControl" takes a cluster out of multi-cluster traffic.
	// +optional
	Actions []RemedyAction `json:"actions,omitempty"`
}

// ClusterAffinity picks clusters.
type ClusterAffinity struct {
	// Names of the clusters.
	// +optional
	ClusterNames []string `json:"clusterNames,omitempty"`
}

// DecisionMatch is a situation.
type DecisionMatch struct {
	// A condition of the cluster.
	// +optional
	ClusterConditionMatch *ClusterConditionRequirement `json:"clusterConditionMatch,omitempty"`
}

// ClusterConditionOperator compares the status of a condition.
type ClusterConditionOperator string

// The values of ClusterConditionOperator.
const (
	ClusterConditionEqual    ClusterConditionOperator = "Equal"
	ClusterConditionNotEqual ClusterConditionOperator = "NotEqual"
)

// ClusterConditionRequirement matches a condition of a cluster.
type ClusterConditionRequirement struct {
	// Type of the condition, for example "ServiceDomainNameResolutionReady".
	// +required
	ConditionType string `json:"conditionType"`

	// "Equal" or "NotEqual".
	// +required
	// +kubebuilder:validation:Enum=Equal;NotEqual
	Operator ClusterConditionOperator `json:"operator"`

	// The status to compare with: "True", "False" or "Unknown".
	// +required
	ConditionStatus string `json:"conditionStatus"`
}

// RemedyAction is something to be done about a cluster.
type RemedyAction string

// TrafficControl takes a cluster out of multi-cluster traffic.
const TrafficControl RemedyAction = "TrafficControl"
