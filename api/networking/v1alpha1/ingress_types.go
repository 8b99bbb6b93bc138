package v1alpha1

import (
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MultiClusterIngress lets the outside reach services of several clusters by host
// and path. It takes a load balancer controller that supports this kind.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=multiclusteringresses,scope=Namespaced,shortName=mci,categories={karmada-io}
type MultiClusterIngress struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Hosts, paths and the services behind them, as in an Ingress.
	// +optional
	Spec networkingv1.IngressSpec `json:"spec,omitempty"`

	// What became of it.
	// +optional
	Status MultiClusterIngressStatus `json:"status,omitempty"`
}

// MultiClusterIngressList is a list of MultiClusterIngress.
//
// +kubebuilder:object:root=true
type MultiClusterIngressList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MultiClusterIngress `json:"items"`
}

// MultiClusterIngressStatus is what became of a multi-cluster ingress.
type MultiClusterIngressStatus struct {
	networkingv1.IngressStatus `json:",inline"`

	// Clusters that receive no traffic at present.
	// +optional
	TrafficBlockClusters []string `json:"trafficBlockClusters,omitempty"`

	// The clusters in which each service is found.
	// +optional
	ServiceLocations []ServiceLocation `json:"serviceLocations,omitempty"`
}

// ServiceLocation describes where a service is found.
type ServiceLocation struct {
	// Name of the service.
	// +required
	Name string `json:"name"`

	// Names of the clusters.
	// +optional
	Clusters []string `json:"clusters,omitempty"`
}
