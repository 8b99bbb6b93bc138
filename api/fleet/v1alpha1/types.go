package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterCapacity is what the nodes of a cluster have free, summarised, from which the scheduler computes how many replicas with a
// node selector, a node affinity or tolerations fit. Its name is that of the Cluster. Whoever reports the status of the Cluster
// writes it: the control plane, or the agent of the cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clustercapacities,scope=Cluster
type ClusterCapacity struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The nodes that pods can be placed on: those that are ready and not cordoned.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Nodes []NodeSet `json:"nodes,omitempty"`

	// Keys of labels that have too many values to list them. They are in the labels of the sets without a value, and a requirement
	// on their value counts as met.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	OmittedValues []string `json:"omittedValues,omitempty"`

	// Whether the sets have no names of nodes, since there are too many. A requirement on the name of a node counts as met then.
	// +optional
	OmittedNames bool `json:"omittedNames,omitempty"`

	// How many nodes are in no set, since there would be too many sets. Nothing is assigned for them.
	// +optional
	OmittedNodes int32 `json:"omittedNodes,omitempty"`

	// What the ResourceQuotas of namespaces leave. Those with another scope than PriorityClass are not among them: which pods they count
	// does not follow from a template.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	Quotas []Quota `json:"quotas,omitempty"`

	// How many ResourceQuotas are not listed, since there would be too many. They bound nothing that is assigned.
	// +optional
	OmittedQuotas int32 `json:"omittedQuotas,omitempty"`

	// The Deployments with pods that no node takes, in a cluster in Pull mode. The control plane observes the pods of other clusters
	// itself.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Unplaced []UnplacedPods `json:"unplaced,omitempty"`
}

// Quota is what a ResourceQuota leaves for pods.
type Quota struct {
	// Namespace of the ResourceQuota.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// Name of the ResourceQuota.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// Requirements on the priority class of the pods that it counts, all of which hold. Without any it counts all pods.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	PriorityClasses []corev1.ScopedResourceSelectorRequirement `json:"priorityClasses,omitempty"`

	// What is left of the requests that it bounds, and of pods: its hard limit less what is used.
	// +optional
	Free corev1.ResourceList `json:"free,omitempty"`
}

// UnplacedPods are the pods of a Deployment that no node takes.
type UnplacedPods struct {
	// Namespace of the Deployment.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// Name of the Deployment.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// The UIDs of the pods.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	Pods []string `json:"pods"`
}

// ClusterCapacityList is a list of ClusterCapacity.
//
// +kubebuilder:object:root=true
type ClusterCapacityList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterCapacity `json:"items"`
}

// NodeSet is nodes with the same labels and taints.
type NodeSet struct {
	// Name of the node, if it is one and names are not omitted.
	// +optional
	Name string `json:"name,omitempty"`

	// The labels of the nodes.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// The taints of the nodes with the effect NoSchedule or NoExecute.
	// +optional
	// +listType=atomic
	Taints []corev1.Taint `json:"taints,omitempty"`

	// What the nodes have free.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Buckets []Bucket `json:"buckets,omitempty"`
}

// Bucket is a number of nodes that have about the same amounts free.
type Bucket struct {
	// How many nodes.
	// +required
	// +kubebuilder:validation:Minimum=1
	Count int32 `json:"count"`

	// What each of the nodes has free at least, pods included: allocatable less the requests of its pods, rounded down.
	// +optional
	Free corev1.ResourceList `json:"free,omitempty"`
}
