package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Undeletion is a question about templates that were deleted on the control plane and can be brought back. It is created like a
// SubjectAccessReview: the answer is in the status of the response, and nothing is stored or created. The answer has only what its author
// may get.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=undeletions,scope=Cluster
type Undeletion struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The question.
	// +required
	Spec UndeletionSpec `json:"spec"`

	// The answer. What a client sends here is ignored.
	// +optional
	Status UndeletionStatus `json:"status,omitempty"`
}

// UndeletionSpec says which deleted objects are meant.
type UndeletionSpec struct {
	// Namespace of the objects. Empty for those of all namespaces and for cluster-scoped ones.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// API group of the object. It counts with a resource only.
	// +optional
	Group string `json:"group,omitempty"`

	// Resource, in its plural form. Empty for all.
	// +optional
	Resource string `json:"resource,omitempty"`

	// Name of the object. Empty for all.
	// +optional
	Name string `json:"name,omitempty"`

	// Whether the answer has the contents of the objects.
	// +optional
	Contents bool `json:"contents,omitempty"`

	// How many objects the answer has at most. Default and maximum: 1,000, and 100 with contents. An answer with contents ends earlier
	// once these have 8 MiB.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Limit int64 `json:"limit,omitempty"`

	// What the status of an earlier answer has as continue: this one begins with the next older object.
	// +optional
	Continue string `json:"continue,omitempty"`
}

// UndeletionStatus is the answer.
type UndeletionStatus struct {
	// The deleted objects, those that were deleted last first.
	// +optional
	// +listType=atomic
	Objects []DeletedObject `json:"objects,omitempty"`

	// Whether there are more objects than the answer has.
	// +optional
	Truncated bool `json:"truncated,omitempty"`

	// Set if there are more objects: a question with it has the next ones.
	// +optional
	Continue string `json:"continue,omitempty"`
}

// DeletedObject is a template that was deleted.
type DeletedObject struct {
	// The object.
	// +required
	Object ObjectIdentity `json:"object"`

	// Its uid.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// When it was deleted.
	// +required
	Time metav1.Time `json:"time"`

	// Until when it can be brought back.
	// +required
	Expires metav1.Time `json:"expires"`

	// The user who deleted it, if that is known.
	// +optional
	User string `json:"user,omitempty"`

	// Whether there is an object of this name again.
	// +optional
	Exists bool `json:"exists,omitempty"`

	// How many bytes it has, if these are more than can be stored. It cannot be brought back then.
	// +optional
	TooLargeBytes int64 `json:"tooLargeBytes,omitempty"`

	// What it was, with its policy, override policies and clusters.
	// +optional
	Content *RevisionContent `json:"content,omitempty"`
}

// UndeletionList is never served. The definition of a custom resource needs it.
//
// +kubebuilder:object:root=true
type UndeletionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Undeletion `json:"items"`
}
