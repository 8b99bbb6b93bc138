package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Timeline is a question about what happened to templates lately: what changed, what moved, what was deleted, and on whose request. It is
// created like a SubjectAccessReview: the answer is in the status of the response, and nothing is stored. The answer has only what its
// author may get.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=timelines,scope=Cluster
type Timeline struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The question.
	// +required
	Spec TimelineSpec `json:"spec"`

	// The answer. What a client sends here is ignored.
	// +optional
	Status TimelineStatus `json:"status,omitempty"`
}

// TimelineSpec says what is meant.
type TimelineSpec struct {
	// Namespace of the objects. Empty for those of all namespaces and for cluster-scoped ones.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// How many seconds back the answer begins. Default one hour.
	// +optional
	// +kubebuilder:validation:Minimum=1
	SinceSeconds int64 `json:"sinceSeconds,omitempty"`
}

// TimelineStatus is the answer.
type TimelineStatus struct {
	// What happened, the oldest first; at most 1,000 entries, the newest.
	// +optional
	// +listType=atomic
	Entries []TimelineEntry `json:"entries,omitempty"`

	// Whether older entries were left out.
	// +optional
	Truncated bool `json:"truncated,omitempty"`
}

// TimelineSource is what an entry was made of.
type TimelineSource string

// The sources.
const (
	TimelineRevision TimelineSource = "Revision"
	TimelineDeletion TimelineSource = "Deletion"
	TimelineEvent    TimelineSource = "Event"
)

// TimelineEntry is one thing that happened.
type TimelineEntry struct {
	// When it happened; of an Event that was repeated, when it was last.
	// +required
	Time metav1.Time `json:"time"`

	// What the entry was made of.
	// +required
	Source TimelineSource `json:"source"`

	// The object.
	// +required
	Object ObjectIdentity `json:"object"`

	// The user who requested it, if that is known and may be seen.
	// +optional
	User string `json:"user,omitempty"`

	// The field manager of a change, where no user is known; the component that published an Event.
	// +optional
	Manager string `json:"manager,omitempty"`

	// The reason of an Event, or the number of a revision.
	// +optional
	Reason string `json:"reason,omitempty"`

	// What happened.
	// +optional
	Message string `json:"message,omitempty"`
}

// TimelineList is never served. The definition of a custom resource needs it.
//
// +kubebuilder:object:root=true
type TimelineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Timeline `json:"items"`
}
