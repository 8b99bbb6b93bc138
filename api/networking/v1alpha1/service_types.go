package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MultiClusterService makes the Service of the same name and namespace in some
// clusters reachable from others, or from outside.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=multiclusterservices,scope=Namespaced,shortName=mcs,categories={karmada-io}
type MultiClusterService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// How the service is exposed, from where, and to whom.
	// +required
	Spec MultiClusterServiceSpec `json:"spec"`

	// What became of it.
	// +optional
	Status MultiClusterServiceStatus `json:"status,omitempty"`
}

// MultiClusterServiceList is a list of MultiClusterService.
//
// +kubebuilder:object:root=true
type MultiClusterServiceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MultiClusterService `json:"items"`
}

// ExposureType defines to whom a service is exposed.
type ExposureType string

// The values of ExposureType.
const (
	// ExposureTypeCrossCluster exposes a service to other clusters.
	ExposureTypeCrossCluster ExposureType = "CrossCluster"
	// ExposureTypeLoadBalancer exposes a service to the outside.
	ExposureTypeLoadBalancer ExposureType = "LoadBalancer"
)

// MultiClusterServiceSpec defines how a service is exposed, from where, and to whom.
//
// +kubebuilder:validation:XValidation:rule="self.types == oldSelf.types",fieldPath=".types",message="types is immutable"
type MultiClusterServiceSpec struct {
	// To whom the service is exposed, exactly one of "CrossCluster" (other clusters)
	// and "LoadBalancer" (the outside). Cannot be changed.
	// +required
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="size(self) == 1",message="exactly one type is needed"
	// +kubebuilder:validation:XValidation:rule="self.all(t, t in ['CrossCluster', 'LoadBalancer'])",message="type must be CrossCluster or LoadBalancer"
	Types []ExposureType `json:"types"`

	// Ports that the Service must have, by name and number, for it to be exposed.
	// Empty means whatever ports it has. All of its ports are exposed.
	// +optional
	// +kubebuilder:validation:MaxItems=500
	// +kubebuilder:validation:XValidation:rule="self.all(p, p.port >= 1 && p.port <= 65535)",message="port must be between 1 and 65535"
	// +kubebuilder:validation:XValidation:rule="size(self) < 2 || self.all(p, has(p.name) && self.exists_one(q, has(q.name) && q.name == p.name))",message="name is needed for each of several ports and must be unique"
	Ports []ExposurePort `json:"ports,omitempty"`

	// The clusters in which the service is exposed: what the other fields leave out,
	// providers and consumers are these. Deprecated: use providerClusters and
	// consumerClusters.
	// +optional
	Range ExposureRange `json:"range,omitempty"`

	// The clusters whose endpoints serve, unless providerClusters is set.
	// Deprecated: use providerClusters.
	// +optional
	ServiceProvisionClusters []string `json:"serviceProvisionClusters,omitempty"`

	// The clusters that reach the service, unless consumerClusters is set.
	// Deprecated: use consumerClusters.
	// +optional
	ServiceConsumptionClusters []string `json:"serviceConsumptionClusters,omitempty"`

	// The clusters whose endpoints serve. Empty means those of
	// serviceProvisionClusters, else those of range, else all.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:XValidation:rule="self.all(c, size(c.name) > 0 && size(c.name) <= 48)",message="name must be 1 to 48 characters long"
	ProviderClusters []ClusterSelector `json:"providerClusters,omitempty"`

	// The clusters that reach the service. Empty means those of
	// serviceConsumptionClusters, else those of range, else all.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:XValidation:rule="self.all(c, size(c.name) > 0 && size(c.name) <= 48)",message="name must be 1 to 48 characters long"
	ConsumerClusters []ClusterSelector `json:"consumerClusters,omitempty"`
}

// ExposurePort names a port of the service.
type ExposurePort struct {
	// Name of the port. Needed, and unique, when there are several.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`

	// Number of the port, 1 to 65535.
	// +required
	Port int32 `json:"port"`
}

// ExposureRange lists clusters.
type ExposureRange struct {
	// Names of the clusters. Empty means all.
	// +optional
	ClusterNames []string `json:"clusterNames,omitempty"`
}

// ClusterSelector names a cluster.
type ClusterSelector struct {
	// Name of the cluster.
	// +required
	Name string `json:"name"`
}

// MultiClusterServiceStatus is what became of a multi-cluster service.
type MultiClusterServiceStatus struct {
	// ServiceApplied: the Service is in its clusters, or which one lacks it and why.
	// EndpointSliceDispatched: the endpoints of every provider are in every consumer,
	// or where they are missing and why; only for the type CrossCluster.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// The addresses under which the outside reaches the service: those of all
	// clusters together. Only for the type LoadBalancer.
	// +optional
	LoadBalancer corev1.LoadBalancerStatus `json:"loadBalancer,omitempty"`
}
