package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Work is a set of objects that one member cluster should have. The namespace of
// a Work determines the cluster: karmada-es-<cluster>.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=works,scope=Namespaced,shortName=wk,categories={karmada-io}
// +kubebuilder:printcolumn:JSONPath=`.spec.workload.manifests[*].kind`,name=WORKLOAD-KIND,type=string
// +kubebuilder:printcolumn:JSONPath=`.status.conditions[?(@.type=="Applied")].status`,name=APPLIED,type=string
// +kubebuilder:printcolumn:JSONPath=`.metadata.creationTimestamp`,name=AGE,type=date
type Work struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What the member cluster should have.
	// +required
	Spec WorkSpec `json:"spec"`

	// What became of it there.
	// +optional
	Status WorkStatus `json:"status,omitempty"`
}

// WorkList is a list of Work.
//
// +kubebuilder:object:root=true
type WorkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Work `json:"items"`
}

// WorkSpec is what the member cluster should have.
type WorkSpec struct {
	// The objects.
	// +optional
	Workload WorkloadTemplate `json:"workload,omitempty"`

	// Stop writing to the member cluster: nothing is created, repaired or updated.
	// Status is still collected. Default false.
	// +optional
	SuspendDispatching *bool `json:"suspendDispatching,omitempty"`

	// Leave the objects in the member cluster, with our labels and annotations
	// removed, when this Work is deleted. If unset, they are deleted, but for those
	// that were in the cluster before and were taken over. With false these are
	// deleted, too, other than namespaces and definitions.
	// +optional
	PreserveResourcesOnDeletion *bool `json:"preserveResourcesOnDeletion,omitempty"`
}

// WorkloadTemplate holds objects.
type WorkloadTemplate struct {
	// The objects, complete with apiVersion, kind and metadata.name. A Work that is
	// rendered from a policy carries one; one written by hand may carry several.
	// +optional
	Manifests []Manifest `json:"manifests,omitempty"`
}

// Manifest is one object of any kind.
//
// +kubebuilder:pruning:PreserveUnknownFields
type Manifest struct {
	// +kubebuilder:pruning:PreserveUnknownFields
	runtime.RawExtension `json:",inline"`
}

// WorkStatus is what became of the objects.
type WorkStatus struct {
	// Applied: the objects were written. Progressing: they are still being written
	// or rolled out. Available: all exist in the cluster. Degraded: some have been
	// unhealthy for a while. Dispatching: writing is not suspended.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// What became of each object.
	// +optional
	ManifestStatuses []ManifestStatus `json:"manifestStatuses,omitempty"`
}

// ManifestStatus is what became of one object.
type ManifestStatus struct {
	// Which object of the Work this is about.
	// +required
	Identifier ResourceIdentifier `json:"identifier"`

	// The object's own status, as far as its kind is interpreted to report it.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Status *runtime.RawExtension `json:"status,omitempty"`

	// Whether the object does its work: "Healthy", "Unhealthy", or "Unknown" when
	// it cannot be determined.
	// +optional
	// +kubebuilder:validation:Enum=Healthy;Unhealthy;Unknown
	Health ResourceHealth `json:"health,omitempty"`

	// What health was when the cluster was seen last. Only set while health is
	// "Unknown" because the cluster cannot be reached.
	// +optional
	// +kubebuilder:validation:Enum=Healthy;Unhealthy;Unknown
	LastHealth ResourceHealth `json:"lastHealth,omitempty"`

	// The run of the template that the object ended, for a kind that runs to an
	// end: see RunOf. The cluster does not make the object again for that run.
	// +optional
	Finished string `json:"finished,omitempty"`

	// Whether the object that ended the run is gone from the cluster. Status and
	// health are the last ones.
	// +optional
	Removed bool `json:"removed,omitempty"`
}

// ResourceIdentifier names one object of a Work.
type ResourceIdentifier struct {
	// Position in spec.workload.manifests, from 0. It identifies objects whose
	// name is not known yet.
	// +required
	Ordinal int `json:"ordinal"`

	// API group. Empty for the core group.
	// +optional
	Group string `json:"group,omitempty"`

	// API version, without the group.
	// +required
	Version string `json:"version"`

	// Kind.
	// +required
	Kind string `json:"kind"`

	// Resource, the lower-case plural under which the kind is served. Empty while
	// the member cluster does not serve it.
	// +required
	Resource string `json:"resource"`

	// Namespace. Empty for a cluster-scoped object.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Name.
	// +required
	Name string `json:"name"`
}

// ResourceHealth reports whether an object does its work.
type ResourceHealth string

// The values of ResourceHealth.
const (
	ResourceHealthy   ResourceHealth = "Healthy"
	ResourceUnhealthy ResourceHealth = "Unhealthy"
	ResourceUnknown   ResourceHealth = "Unknown"
)

// Object names the object as conditions and events do: its kind, and its namespace and name.
func (i ResourceIdentifier) Object() string {
	if i.Namespace == "" {
		return i.Kind + " " + i.Name
	}
	return i.Kind + " " + i.Namespace + "/" + i.Name
}
