package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// ServiceExportStatus is what became of an export.
type ServiceExportStatus struct {
	// Valid: the Service exists and can be exported. Conflict: clusters disagree
	// about it.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ServiceImport is a service that other clusters offer.
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
	Spec ServiceImportSpec `json:"spec,omitempty"`

	// Who offers it.
	// +optional
	Status ServiceImportStatus `json:"status,omitempty"`
}

// ServiceImportList is a list of ServiceImport.
//
// +kubebuilder:object:root=true
type ServiceImportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ServiceImport `json:"items"`
}

// ServiceImportType says whether an imported service has an address of its own.
type ServiceImportType string

// The values of ServiceImportType.
const (
	ClusterSetIP ServiceImportType = "ClusterSetIP"
	Headless     ServiceImportType = "Headless"
)

// ServiceImportSpec says how an imported service is reached.
type ServiceImportSpec struct {
	// The ports.
	// +required
	// +listType=atomic
	Ports []ServicePort `json:"ports"`

	// The address of the service, if its type is ClusterSetIP. At most one.
	// +optional
	// +kubebuilder:validation:MaxItems=1
	IPs []string `json:"ips,omitempty"`

	// "ClusterSetIP" gives the service one address, "Headless" leaves it with those
	// of its endpoints.
	// +required
	// +kubebuilder:validation:Enum=ClusterSetIP;Headless
	Type ServiceImportType `json:"type"`

	// "ClientIP" sends the requests of one client to one endpoint, "None" does not.
	// Default "None".
	// +optional
	SessionAffinity corev1.ServiceAffinity `json:"sessionAffinity,omitempty"`

	// Details of sessionAffinity.
	// +optional
	SessionAffinityConfig *corev1.SessionAffinityConfig `json:"sessionAffinityConfig,omitempty"`
}

// ServicePort is a port of an imported service.
type ServicePort struct {
	// Name of the port. Needed, and unique, when there are several.
	// +optional
	Name string `json:"name,omitempty"`

	// "TCP", "UDP" or "SCTP". Default "TCP".
	// +optional
	Protocol corev1.Protocol `json:"protocol,omitempty"`

	// The application protocol, for example "http".
	// +optional
	AppProtocol *string `json:"appProtocol,omitempty"`

	// Number of the port.
	// +required
	Port int32 `json:"port"`
}

// ServiceImportStatus says who offers an imported service.
type ServiceImportStatus struct {
	// The clusters.
	// +optional
	// +listType=map
	// +listMapKey=cluster
	Clusters []ClusterStatus `json:"clusters,omitempty"`
}

// ClusterStatus is a cluster that offers a service.
type ClusterStatus struct {
	// Name of the cluster.
	// +required
	Cluster string `json:"cluster"`
}
