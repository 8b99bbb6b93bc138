package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
)

// ServiceExport offers the Service of the same name and namespace to other clusters.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=serviceexports,scope=Namespaced,shortName=svcex
// +kubebuilder:printcolumn:JSONPath=`.metadata.creationTimestamp`,name=Age,type=date
type ServiceExport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is exported besides the Service itself.
	// +optional
	Spec multiclusterv1beta1.ServiceExportSpec `json:"spec,omitempty"`

	// What became of it.
	// +optional
	Status multiclusterv1beta1.ServiceExportStatus `json:"status,omitempty"`
}

// ServiceExportList is a list of ServiceExport.
//
// +kubebuilder:object:root=true
type ServiceExportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ServiceExport `json:"items"`
}

// ServiceImport is a service that one or more clusters export.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=serviceimports,scope=Namespaced,shortName=svcim
// +kubebuilder:printcolumn:JSONPath=`.spec.type`,name=Type,type=string
// +kubebuilder:printcolumn:JSONPath=`.spec.ips`,name=IP,type=string
// +kubebuilder:printcolumn:JSONPath=`.metadata.creationTimestamp`,name=Age,type=date
type ServiceImport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// How the service is reached.
	// +optional
	Spec multiclusterv1beta1.ServiceImportSpec `json:"spec,omitempty"`

	// Who exports it.
	// +optional
	Status multiclusterv1beta1.ServiceImportStatus `json:"status,omitempty"`
}

// ServiceImportList is a list of ServiceImport.
//
// +kubebuilder:object:root=true
type ServiceImportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ServiceImport `json:"items"`
}
