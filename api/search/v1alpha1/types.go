package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// ResourceRegistry selects objects in members that are read through the search API. It gives no user a right: each reads what he
// may read in the members.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=resourceregistries,scope=Cluster,shortName=rr,categories={karmada-io}
type ResourceRegistry struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which objects of which clusters.
	// +required
	Spec ResourceRegistrySpec `json:"spec"`

	// Written by no part of Flagship.
	// +optional
	Status ResourceRegistryStatus `json:"status,omitempty"`
}

// ResourceRegistryList is a list of ResourceRegistry.
//
// +kubebuilder:object:root=true
type ResourceRegistryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ResourceRegistry `json:"items"`
}

// ResourceRegistrySpec defines which objects of which clusters are read.
type ResourceRegistrySpec struct {
	// The clusters. Empty means every cluster.
	// +required
	TargetCluster policyv1alpha1.ClusterAffinity `json:"targetCluster"`

	// The kinds, each in all namespaces or in one.
	// +required
	// +kubebuilder:validation:MaxItems=1000
	ResourceSelectors []ResourceSelector `json:"resourceSelectors"`

	// Where objects are kept. Members are read when a user reads, so that nothing is kept: a store is refused.
	// +optional
	BackendStore *BackendStoreConfig `json:"backendStore,omitempty"`
}

// ResourceSelector selects a kind.
type ResourceSelector struct {
	// Group and version, for example "apps/v1". Objects are read in this version.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion"`

	// The kind, for example "Deployment".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// The namespace. Empty means all.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// BackendStoreConfig is where objects are kept.
//
// +kubebuilder:validation:XValidation:rule="!has(self.openSearch)",message="OpenSearch is not supported: objects are read from the members and stored nowhere; remove spec.backendStore"
type BackendStoreConfig struct {
	// An OpenSearch. Refused: nothing would write to it.
	// +optional
	OpenSearch *OpenSearchConfig `json:"openSearch,omitempty"`
}

// OpenSearchConfig is how to reach an OpenSearch.
type OpenSearchConfig struct {
	// Its addresses.
	// +required
	Addresses []string `json:"addresses"`

	// The Secret with its credentials.
	// +optional
	SecretRef LocalSecretReference `json:"secretRef,omitempty"`
}

// LocalSecretReference names a Secret.
type LocalSecretReference struct {
	// Namespace of the Secret.
	// +required
	Namespace string `json:"namespace"`

	// Name of the Secret.
	// +required
	Name string `json:"name"`
}

// ResourceRegistryStatus has conditions, as in Karmada.
type ResourceRegistryStatus struct {
	// Conditions. Nothing writes them.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
