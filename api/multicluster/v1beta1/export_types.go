package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ServiceExport offers the Service of the same name and namespace to other clusters.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=serviceexports,scope=Namespaced,shortName=svcex
// +kubebuilder:printcolumn:JSONPath=`.metadata.creationTimestamp`,name=Age,type=date
type ServiceExport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is exported besides the Service itself.
	// +optional
	Spec ServiceExportSpec `json:"spec,omitempty"`

	// What became of it.
	// +optional
	Status ServiceExportStatus `json:"status,omitempty"`
}

// ServiceExportList is a list of ServiceExport.
//
// +kubebuilder:object:root=true
type ServiceExportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ServiceExport `json:"items"`
}

// ServiceExportSpec describes what is exported besides the Service itself.
type ServiceExportSpec struct {
	// Labels for the imports. Labels of the Service are not exported.
	// +optional
	ExportedLabels map[string]string `json:"exportedLabels,omitempty"`

	// Annotations for the imports. Annotations of the Service are not exported.
	// +optional
	ExportedAnnotations map[string]string `json:"exportedAnnotations,omitempty"`
}

// ServiceExportStatus is what became of an export.
type ServiceExportStatus struct {
	// Valid: the Service exists and can be exported. Ready: the other clusters get
	// it. Conflict: clusters that export it disagree about it.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
