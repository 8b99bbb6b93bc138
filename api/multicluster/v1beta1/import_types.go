package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServiceImport is a service that one or more clusters export.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
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

	// Who exports it.
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

// ServiceImportType defines whether an imported service has an address of its own.
type ServiceImportType string

// The values of ServiceImportType.
const (
	ClusterSetIP ServiceImportType = "ClusterSetIP"
	Headless     ServiceImportType = "Headless"
)

// ServiceImportSpec defines how an imported service is reached.
type ServiceImportSpec struct {
	// The ports.
	// +required
	// +listType=atomic
	Ports []ServicePort `json:"ports"`

	// The addresses of the service in this cluster, if its type is ClusterSetIP: at
	// most one of each family.
	// +optional
	// +kubebuilder:validation:MaxItems=2
	IPs []string `json:"ips,omitempty"`

	// "ClusterSetIP" gives the service an address, "Headless" leaves it with those
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

	// The families in which every exporting cluster serves, "IPv4" or "IPv6".
	// +optional
	// +kubebuilder:validation:MaxItems=2
	IPFamilies []corev1.IPFamily `json:"ipFamilies,omitempty"`

	// "Cluster" takes any endpoint, "Local" those on the client's node. Default
	// "Cluster".
	// +optional
	InternalTrafficPolicy *corev1.ServiceInternalTrafficPolicy `json:"internalTrafficPolicy,omitempty"`

	// Which endpoints are preferred, for example "PreferClose" for those in the
	// zone of the client. Unset means no preference.
	// +optional
	TrafficDistribution *string `json:"trafficDistribution,omitempty"`
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

// EndpointSliceObjects defines whether an imported service has EndpointSlices beside it.
type EndpointSliceObjects string

// The values of EndpointSliceObjects.
const (
	EndpointSliceObjectsPresent EndpointSliceObjects = "Present"
	EndpointSliceObjectsAbsent  EndpointSliceObjects = "Absent"
)

// ServiceImportStatus says who exports an imported service.
type ServiceImportStatus struct {
	// "Present" if the endpoints are in EndpointSlices beside the import, "Absent"
	// if they are not.
	// +optional
	// +kubebuilder:validation:Enum=Present;Absent
	EndpointSliceObjects EndpointSliceObjects `json:"endpointSliceObjects,omitempty"`

	// The clusters.
	// +optional
	// +listType=map
	// +listMapKey=cluster
	Clusters []ClusterStatus `json:"clusters,omitempty"`

	// Ready: the service can be used here.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ClusterStatus is a cluster that exports a service.
type ClusterStatus struct {
	// Name of the cluster.
	// +required
	Cluster string `json:"cluster"`
}
