package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterTaintPolicy taints clusters while their conditions say so.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clustertaintpolicies,scope=Cluster
type ClusterTaintPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which clusters are tainted, when, and with what.
	// +required
	Spec ClusterTaintPolicySpec `json:"spec"`
}

// ClusterTaintPolicyList is a list of ClusterTaintPolicy.
//
// +kubebuilder:object:root=true
type ClusterTaintPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterTaintPolicy `json:"items"`
}

// ClusterTaintPolicySpec defines which clusters are tainted, when, and with what.
type ClusterTaintPolicySpec struct {
	// The clusters. Unset means every cluster.
	// +optional
	TargetClusters *ClusterAffinity `json:"targetClusters,omitempty"`

	// The taints are added when all of these conditions match. Empty means never.
	// +optional
	AddOnConditions []MatchCondition `json:"addOnConditions,omitempty"`

	// The taints are removed when all of these conditions match. Empty means never.
	// Deleting the policy does not remove taints.
	// +optional
	RemoveOnConditions []MatchCondition `json:"removeOnConditions,omitempty"`

	// The taints, each pair of key and effect once.
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(t, self.exists_one(u, u.key == t.key && (u.effect == 'NoSchedule') == (t.effect == 'NoSchedule') && (u.effect == 'NoExecute') == (t.effect == 'NoExecute')))",message="key and effect must be unique"
	Taints []Taint `json:"taints"`
}

// MatchConditionOperator compares the status of a condition.
type MatchConditionOperator string

// The values of MatchConditionOperator.
const (
	MatchConditionOpIn    MatchConditionOperator = "In"
	MatchConditionOpNotIn MatchConditionOperator = "NotIn"
)

// MatchCondition matches a condition of a cluster. A condition that the cluster
// does not have never matches.
//
// +kubebuilder:validation:XValidation:rule="self.operator in ['In', 'NotIn']",fieldPath=".operator",message="operator must be In or NotIn"
type MatchCondition struct {
	// Type of the condition, for example "Ready".
	// +required
	ConditionType string `json:"conditionType"`

	// "In" or "NotIn".
	// +required
	Operator MatchConditionOperator `json:"operator"`

	// The statuses to compare with: "True", "False", "Unknown".
	// +required
	StatusValues []metav1.ConditionStatus `json:"statusValues"`
}

// Taint is a taint to be put on clusters.
//
// +kubebuilder:validation:XValidation:rule="self.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute']",fieldPath=".effect",message="effect must be NoSchedule, PreferNoSchedule or NoExecute"
type Taint struct {
	// Key of the taint.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`

	// "NoSchedule", "PreferNoSchedule" or "NoExecute".
	// +required
	Effect corev1.TaintEffect `json:"effect"`

	// Value of the taint.
	// +optional
	Value string `json:"value,omitempty"`
}
