package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cluster is a member of the fleet.
//
// +kubebuilder:object:root=true
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What the cluster is and how to reach it.
	Spec ClusterSpec `json:"spec"`

	// What is known about it.
	// +optional
	Status ClusterStatus `json:"status,omitempty"`
}

// ClusterList is a list of Cluster.
//
// +kubebuilder:object:root=true
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cluster `json:"items"`
}

// ClusterSyncMode defines which side dials the other.
type ClusterSyncMode string

// The values of ClusterSyncMode.
const (
	// Push means that the control plane dials the member.
	Push ClusterSyncMode = "Push"
	// Pull means that an agent in the member dials the control plane.
	Pull ClusterSyncMode = "Pull"
)

// ClusterSpec is what a cluster is and how to reach it.
type ClusterSpec struct {
	// The identity of the cluster: the uid of its kube-system namespace. Two
	// Clusters cannot have the same. Cannot be changed once set.
	// +optional
	ID string `json:"id,omitempty"`

	// Which side dials the other: "Push" lets the control plane write to the
	// cluster, "Pull" lets an agent in the cluster fetch its work.
	SyncMode ClusterSyncMode `json:"syncMode"`

	// Address of the cluster's API server: host, host:port, or a URL.
	// +optional
	APIEndpoint string `json:"apiEndpoint,omitempty"`

	// The Secret with the credential for the control plane's own work in the
	// cluster: keys "token" and "caBundle".
	// +optional
	SecretRef *LocalSecretReference `json:"secretRef,omitempty"`

	// The Secret with the credential that may only impersonate users: key "token".
	// It serves requests through the cluster's proxy subresource.
	// +optional
	ImpersonatorSecretRef *LocalSecretReference `json:"impersonatorSecretRef,omitempty"`

	// Do not verify the certificate of the cluster's API server. Default false.
	// +optional
	InsecureSkipTLSVerification bool `json:"insecureSkipTLSVerification,omitempty"`

	// Proxy through which the cluster is reached: an http, https or socks5 URL.
	// +optional
	ProxyURL string `json:"proxyURL,omitempty"`

	// Headers sent to the proxy. Several values of one header are separated by commas.
	// +optional
	ProxyHeader map[string]string `json:"proxyHeader,omitempty"`

	// Who runs the cluster, for example the name of a cloud.
	// +optional
	Provider string `json:"provider,omitempty"`

	// The region the cluster is in.
	// +optional
	Region string `json:"region,omitempty"`

	// Deprecated: use zones.
	// +optional
	Zone string `json:"zone,omitempty"`

	// The zones the cluster's nodes are in.
	// +optional
	Zones []string `json:"zones,omitempty"`

	// Taints keep objects that do not tolerate them away from the cluster, or drive
	// them out.
	// +optional
	Taints []corev1.Taint `json:"taints,omitempty"`

	// Sizes of nodes, by which free capacity is described. Each grade is a range of
	// every resource; grades count from 0 and their ranges follow on each other
	// without a gap.
	// +optional
	ResourceModels []ResourceModel `json:"resourceModels,omitempty"`
}

// LocalSecretReference names a Secret of the control plane.
type LocalSecretReference struct {
	// Namespace of the Secret.
	Namespace string `json:"namespace"`

	// Name of the Secret.
	Name string `json:"name"`
}

// ResourceModel is one size of node.
type ResourceModel struct {
	// The rank of this size, from 0, the smallest.
	Grade uint `json:"grade"`

	// How much of each resource a node of this size has.
	Ranges []ResourceModelRange `json:"ranges"`
}

// ResourceModelRange is a range of one resource.
type ResourceModelRange struct {
	// Name of the resource.
	Name corev1.ResourceName `json:"name"`

	// The least amount, inclusive.
	Min resource.Quantity `json:"min"`

	// The amount above, exclusive.
	Max resource.Quantity `json:"max"`
}

// ClusterStatus is what is known about a cluster.
type ClusterStatus struct {
	// The Kubernetes version of the cluster.
	// +optional
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`

	// The kinds that the cluster serves.
	// +optional
	APIEnablements []APIEnablement `json:"apiEnablements,omitempty"`

	// Ready: the API server answers that it is ready. CompleteAPIEnablements:
	// apiEnablements lists everything that is served.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// How many nodes the cluster has.
	// +optional
	NodeSummary *NodeSummary `json:"nodeSummary,omitempty"`

	// How much the cluster has of each resource, and how much is taken.
	// +optional
	ResourceSummary *ResourceSummary `json:"resourceSummary,omitempty"`

	// What remedies ask to be done about this cluster.
	// +optional
	RemedyActions []string `json:"remedyActions,omitempty"`
}

// APIEnablement lists the resources of one group and version.
type APIEnablement struct {
	// Group and version, for example "apps/v1".
	GroupVersion string `json:"groupVersion"`

	// The resources, sorted by name.
	// +optional
	Resources []APIResource `json:"resources,omitempty"`
}

// APIResource is one resource that a cluster serves.
type APIResource struct {
	// Plural name of the resource, for example "deployments".
	Name string `json:"name"`

	// Kind, for example "Deployment".
	Kind string `json:"kind"`
}

// NodeSummary counts nodes.
type NodeSummary struct {
	// All nodes.
	// +optional
	TotalNum int32 `json:"totalNum,omitempty"`

	// Nodes that are ready.
	// +optional
	ReadyNum int32 `json:"readyNum,omitempty"`
}

// ResourceSummary reports how much there is of each resource and how much is taken.
type ResourceSummary struct {
	// What ready, schedulable nodes offer.
	// +optional
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`

	// What pods request that wait for a node.
	// +optional
	Allocating corev1.ResourceList `json:"allocating,omitempty"`

	// What pods request that have a node.
	// +optional
	Allocated corev1.ResourceList `json:"allocated,omitempty"`

	// How many nodes have free capacity of each grade of spec.resourceModels.
	// +optional
	AllocatableModelings []AllocatableModeling `json:"allocatableModelings,omitempty"`
}

// AllocatableModeling counts the nodes of one grade.
type AllocatableModeling struct {
	// The grade.
	Grade uint `json:"grade"`

	// How many nodes have free capacity of that grade.
	Count int `json:"count"`
}
