package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// History is a question about the revisions of a template: what it meant for the clusters, since when, and who changed it. It is created
// like a SubjectAccessReview: the answer is in the status of the response, and nothing is stored. The answer has only what its author may
// get.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=histories,scope=Cluster
type History struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The question.
	// +required
	Spec HistorySpec `json:"spec"`

	// The answer. What a client sends here is ignored.
	// +optional
	Status HistoryStatus `json:"status,omitempty"`
}

// HistorySpec names a template.
type HistorySpec struct {
	// API group. Empty for any group that has the kind or resource, the core group first. The version does not matter: all of them are
	// the same object.
	// +optional
	Group string `json:"group,omitempty"`

	// Kind. Either kind or resource is set.
	// +optional
	Kind string `json:"kind,omitempty"`

	// Resource, in its plural form. Either kind or resource is set.
	// +optional
	Resource string `json:"resource,omitempty"`

	// Namespace of the object; ignored for a cluster-scoped kind.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`

	// The revisions whose contents the answer has. 0 is the present state.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Contents []int64 `json:"contents,omitempty"`
}

// HistoryStatus is the answer.
type HistoryStatus struct {
	// The object that was found. Not set if there is none.
	// +optional
	Object *ObjectIdentity `json:"object,omitempty"`

	// The revisions, the oldest first. The last one is the present state if no stored revision is equal to it.
	// +optional
	// +listType=atomic
	Revisions []Revision `json:"revisions,omitempty"`

	// The contents of the revisions that the question names and that exist.
	// +optional
	// +listType=atomic
	Contents []RevisionContent `json:"contents,omitempty"`

	// How many revisions of the object are kept.
	// +optional
	Limit int32 `json:"limit,omitempty"`

	// How many ControllerRevisions carry the label of a revision of this object and were not written by this control plane, or with a key
	// that it does not have any more. They are ignored.
	// +optional
	Unreadable int32 `json:"unreadable,omitempty"`
}

// RevisionPart is a part of what a template means for the clusters.
type RevisionPart string

// The parts.
const (
	// RevisionTemplate is the template itself, without status.
	RevisionTemplate RevisionPart = "Template"
	// RevisionPolicy is the propagation policy that the template belongs to.
	RevisionPolicy RevisionPart = "Policy"
	// RevisionOverride is an override policy that selects the template.
	RevisionOverride RevisionPart = "Override"
	// RevisionClusters are the clusters with their replicas.
	RevisionClusters RevisionPart = "Clusters"
)

// Revision is one state of a template.
type Revision struct {
	// Number of the revision. 0 is the present state if it is not recorded: an object that never changed has no stored revision, and a
	// change is recorded some seconds later.
	// +optional
	Revision int64 `json:"revision"`

	// Whether this is the present state.
	// +optional
	Current bool `json:"current,omitempty"`

	// When the state came to be.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`

	// The user who made it so. Empty if it is not known, or if what changed may not be read by the author of the question.
	// +optional
	User string `json:"user,omitempty"`

	// The field manager of the change, where no user is known.
	// +optional
	Manager string `json:"manager,omitempty"`

	// What differs from the revision before.
	// +optional
	// +listType=atomic
	Changes []RevisionChange `json:"changes,omitempty"`

	// How many bytes the revision has, if these are more than can be stored. It has no content then, and cannot be brought back.
	// +optional
	TooLargeBytes int64 `json:"tooLargeBytes,omitempty"`
}

// RevisionChange is what one part of a revision differs in from the one before.
type RevisionChange struct {
	// The part that changed.
	// +required
	Part RevisionPart `json:"part"`

	// The change in short, such as "image web:1.2 → web:1.3". Empty if the author of the question may not get the object.
	// +optional
	Text string `json:"text,omitempty"`

	// Whether the author of the question may not get the object that changed.
	// +optional
	Hidden bool `json:"hidden,omitempty"`
}

// RevisionContent is the content of a revision, without what the author of the question may not get.
type RevisionContent struct {
	// Number of the revision; 0 is the present state.
	// +optional
	Revision int64 `json:"revision"`

	// The template, without status and without what the API server or the control plane sets in it.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Template *runtime.RawExtension `json:"template,omitempty"`

	// The propagation policy that the template belonged to.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Policy *runtime.RawExtension `json:"policy,omitempty"`

	// The override policies that selected the template.
	// +optional
	// +listType=atomic
	Overrides []RevisionObject `json:"overrides,omitempty"`

	// The clusters with their replicas.
	// +optional
	// +listType=atomic
	Clusters []RevisionCluster `json:"clusters,omitempty"`

	// The parts that the author of the question may not get.
	// +optional
	// +listType=atomic
	Hidden []RevisionPart `json:"hidden,omitempty"`
}

// RevisionObject is an object as a revision has it.
type RevisionObject struct {
	// The object, without what the API server or the control plane sets in it.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Object *runtime.RawExtension `json:"object,omitempty"`
}

// RevisionCluster is a cluster of a revision.
type RevisionCluster struct {
	// Name of the cluster.
	// +required
	Name string `json:"name"`

	// How many replicas it was given; 0 for what has no replicas.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
}

// HistoryList is never served. The definition of a custom resource needs it.
//
// +kubebuilder:object:root=true
type HistoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []History `json:"items"`
}
