package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ResourceBinding joins one object of a namespace to the clusters it goes to. It
// is an earlier form of the kind in v1alpha2, in which it is stored.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=resourcebindings,scope=Namespaced,shortName=rb,categories={karmada-io}
// +kubebuilder:printcolumn:JSONPath=`.status.conditions[?(@.type=="Scheduled")].status`,name=SCHEDULED,type=string
// +kubebuilder:printcolumn:JSONPath=`.status.conditions[?(@.type=="FullyApplied")].status`,name=FULLYAPPLIED,type=string
// +kubebuilder:printcolumn:JSONPath=`.metadata.creationTimestamp`,name=AGE,type=date
type ResourceBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The object, and where it goes.
	// +required
	Spec ResourceBindingSpec `json:"spec"`

	// What became of it.
	// +optional
	Status ResourceBindingStatus `json:"status,omitempty"`
}

// ResourceBindingList is a list of ResourceBinding.
//
// +kubebuilder:object:root=true
type ResourceBindingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ResourceBinding `json:"items"`
}

// ClusterResourceBinding joins one cluster-scoped object to the clusters it goes
// to. It is an earlier form of the kind in v1alpha2, in which it is stored.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusterresourcebindings,scope=Cluster,shortName=crb,categories={karmada-io}
// +kubebuilder:printcolumn:JSONPath=`.status.conditions[?(@.type=="Scheduled")].status`,name=SCHEDULED,type=string
// +kubebuilder:printcolumn:JSONPath=`.status.conditions[?(@.type=="FullyApplied")].status`,name=FULLYAPPLIED,type=string
// +kubebuilder:printcolumn:JSONPath=`.metadata.creationTimestamp`,name=AGE,type=date
type ClusterResourceBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The object, and where it goes.
	// +required
	Spec ResourceBindingSpec `json:"spec"`

	// What became of it.
	// +optional
	Status ResourceBindingStatus `json:"status,omitempty"`
}

// ClusterResourceBindingList is a list of ClusterResourceBinding.
//
// +kubebuilder:object:root=true
type ClusterResourceBindingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterResourceBinding `json:"items"`
}

// ResourceBindingSpec is the object, and where it goes.
type ResourceBindingSpec struct {
	// The object.
	// +required
	Resource ObjectReference `json:"resource"`

	// Where the object goes.
	// +optional
	Clusters []TargetCluster `json:"clusters,omitempty"`
}

// ObjectReference names an object of the control plane, with its replicas.
type ObjectReference struct {
	// Group and version, for example "apps/v1".
	// +required
	APIVersion string `json:"apiVersion"`

	// Kind.
	// +required
	Kind string `json:"kind"`

	// Namespace. Empty for a cluster-scoped object.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Name.
	// +required
	Name string `json:"name"`

	// Resource version of the object that this binding was made from.
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`

	// The resources a replica requests.
	// +optional
	ReplicaResourceRequirements corev1.ResourceList `json:"resourcePerReplicas,omitempty"`

	// How many replicas the object has over all clusters. 0 if its kind has none.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
}

// TargetCluster is a cluster that an object goes to.
type TargetCluster struct {
	// Name of the cluster.
	// +required
	Name string `json:"name"`

	// How many replicas go there. 0 if the object has none.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
}

// ResourceBindingStatus is what became of a binding.
type ResourceBindingStatus struct {
	// Scheduled: the object has its clusters. FullyApplied: every one of them has
	// applied it.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// What each cluster reports.
	// +optional
	AggregatedStatus []AggregatedStatusItem `json:"aggregatedStatus,omitempty"`
}

// AggregatedStatusItem is what one cluster reports.
type AggregatedStatusItem struct {
	// Name of the cluster.
	// +required
	ClusterName string `json:"clusterName"`

	// The status of the copy there.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Status *runtime.RawExtension `json:"status,omitempty"`

	// Whether the copy there was written as it should be.
	// +optional
	Applied bool `json:"applied,omitempty"`

	// Why the copy was not written.
	// +optional
	AppliedMessage string `json:"appliedMessage,omitempty"`
}
