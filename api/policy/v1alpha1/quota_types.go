package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FederatedResourceQuota limits what one namespace may use over all member clusters.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=federatedresourcequotas,scope=Namespaced,categories={karmada-io}
// +kubebuilder:printcolumn:JSONPath=`.status.overall`,name=OVERALL,type=string
// +kubebuilder:printcolumn:JSONPath=`.status.overallUsed`,name=OVERALL_USED,type=string
type FederatedResourceQuota struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The limits.
	// +required
	Spec FederatedResourceQuotaSpec `json:"spec"`

	// What is in use.
	// +optional
	Status FederatedResourceQuotaStatus `json:"status,omitempty"`
}

// FederatedResourceQuotaList is a list of FederatedResourceQuota.
//
// +kubebuilder:object:root=true
type FederatedResourceQuotaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FederatedResourceQuota `json:"items"`
}

// FederatedResourceQuotaSpec holds the limits.
type FederatedResourceQuotaSpec struct {
	// The limit of each resource over all clusters together.
	// +required
	Overall corev1.ResourceList `json:"overall"`

	// Fixed limits in single clusters, each enforced there by a ResourceQuota.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:XValidation:rule="self.all(a, size(a.clusterName) > 0 && size(a.clusterName) <= 48)",message="clusterName must be 1 to 48 characters long"
	StaticAssignments []StaticClusterAssignment `json:"staticAssignments,omitempty"`
}

// StaticClusterAssignment is the limit in one cluster.
type StaticClusterAssignment struct {
	// Name of the cluster.
	// +required
	ClusterName string `json:"clusterName"`

	// The limit of each resource in that cluster.
	// +required
	Hard corev1.ResourceList `json:"hard"`
}

// FederatedResourceQuotaStatus is what is in use.
type FederatedResourceQuotaStatus struct {
	// The limits in force over all clusters together.
	// +optional
	Overall corev1.ResourceList `json:"overall,omitempty"`

	// What is in use over all clusters together.
	// +optional
	OverallUsed corev1.ResourceList `json:"overallUsed,omitempty"`

	// Limit and use in each cluster.
	// +optional
	AggregatedStatus []ClusterQuotaStatus `json:"aggregatedStatus,omitempty"`
}

// ClusterQuotaStatus is the limit and use in one cluster.
type ClusterQuotaStatus struct {
	// Name of the cluster.
	// +required
	ClusterName string `json:"clusterName"`

	corev1.ResourceQuotaStatus `json:",inline"`
}
