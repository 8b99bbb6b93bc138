package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DriftReport is a question about drift: which fields of objects in members differ from what the control plane applies there, or differed
// lately. It is created like a SubjectAccessReview: the answer is in the status of the response, and nothing is stored. The answer has
// only what its author may get.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=driftreports,scope=Cluster
type DriftReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The question. Empty for all objects in all clusters.
	// +optional
	Spec DriftReportSpec `json:"spec,omitempty"`

	// The answer. What a client sends here is ignored.
	// +optional
	Status DriftReportStatus `json:"status,omitempty"`
}

// DriftReportSpec selects objects.
type DriftReportSpec struct {
	// API group. Empty for any group that has the kind or resource, the core group first.
	// +optional
	Group string `json:"group,omitempty"`

	// Kind. If there is a name, either kind or resource is set.
	// +optional
	Kind string `json:"kind,omitempty"`

	// Resource, in its plural form. If there is a name, either kind or resource is set.
	// +optional
	Resource string `json:"resource,omitempty"`

	// Namespace of the objects. Empty for all namespaces and cluster-scoped objects, if there is no name.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Name of one object. Empty for all.
	// +optional
	Name string `json:"name,omitempty"`

	// Only objects in this cluster. Empty for all clusters.
	// +optional
	Cluster string `json:"cluster,omitempty"`
}

// DriftReportStatus is the answer.
type DriftReportStatus struct {
	// The objects that differ or differed lately, those that still differ first, then by the time of the last difference.
	// +optional
	// +listType=atomic
	Objects []DriftedObject `json:"objects,omitempty"`

	// How many objects the author may get that are not in the answer since there are too many. A question about a namespace, a cluster
	// or one object has them.
	// +optional
	OmittedObjects int32 `json:"omittedObjects,omitempty"`

	// Clusters of which nothing is known, each with the reason. Only those that the author may get.
	// +optional
	// +listType=atomic
	Unanswered []UnansweredCluster `json:"unanswered,omitempty"`
}

// UnansweredCluster is a cluster of which nothing is known.
type UnansweredCluster struct {
	// Name of the cluster.
	// +required
	Name string `json:"name"`

	// The reason for people.
	// +required
	Message string `json:"message"`
}

// DriftedObject is one object in one member.
type DriftedObject struct {
	// The object in the member.
	// +required
	Object ObjectIdentity `json:"object"`

	// The member.
	// +required
	Cluster string `json:"cluster"`

	// Name of the Work that the object belongs to, in the execution namespace of the member.
	// +required
	Work string `json:"work"`

	// What the policy requires to be done about drift.
	// +optional
	Mode string `json:"mode,omitempty"`

	// When the episode began: the first difference that was found after an hour without one.
	// +required
	Since metav1.Time `json:"since"`

	// When a difference was found last.
	// +required
	Last metav1.Time `json:"last"`

	// How often something of the object was put back in this episode.
	// +optional
	PutBack int32 `json:"putBack,omitempty"`

	// The last times at which something was put back, the newest first.
	// +optional
	// +listType=atomic
	Recent []PutBack `json:"recent,omitempty"`

	// The fields, in order.
	// +optional
	// +listType=atomic
	Fields []DriftedField `json:"fields,omitempty"`

	// How many further fields there are.
	// +optional
	OmittedFields int32 `json:"omittedFields,omitempty"`

	// Why values are not in the answer. Empty if they are.
	// +optional
	ValuesHidden string `json:"valuesHidden,omitempty"`
}

// PutBack is one time at which fields of an object were put back.
type PutBack struct {
	// When.
	// +required
	Time metav1.Time `json:"time"`

	// How many fields.
	// +required
	Fields int32 `json:"fields"`

	// The field manager in the member that had changed the first of them; empty if it is not known.
	// +optional
	Manager string `json:"manager,omitempty"`
}

// DriftOutcome is what happens to a field that differs.
type DriftOutcome string

// The outcomes.
const (
	// DriftPutBack is a field that had been applied, was changed by others, and was put back.
	DriftPutBack DriftOutcome = "PutBack"
	// DriftLeft is a field that the control plane never set since another manager in the member owns it.
	DriftLeft DriftOutcome = "Left"
	// DriftReported is a field that differs and stays so because the policy requires it.
	DriftReported DriftOutcome = "Reported"
	// DriftPaused is a field that differs and stays so until a person acknowledges it.
	DriftPaused DriftOutcome = "Paused"
	// DriftCreatedAgain is a whole object that others deleted, and that was created again. Its path is /.
	DriftCreatedAgain DriftOutcome = "CreatedAgain"
)

// DriftedField is one field that differs, or differed when it was put back last.
type DriftedField struct {
	// Path of the field. An item of a list has the value of its key in brackets: /spec/containers[name="web"]/image. The path of a whole
	// object is /.
	// +required
	Path string `json:"path"`

	// The value that the control plane applies, as JSON, shortened. Empty if the field is not to be there.
	// +optional
	Wanted string `json:"wanted,omitempty"`

	// The value that was found in the member, as JSON, shortened. Empty if the field was not there.
	// +optional
	Found string `json:"found,omitempty"`

	// The field manager in the member that owned the field, the latest if there are several; empty if none does, or it is not known.
	// +optional
	Manager string `json:"manager,omitempty"`

	// When that manager wrote its fields last, by metadata.managedFields; when an object was created again.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`

	// Whether the value that the control plane applies is not that of the template: an override sets it there, or the division of replicas.
	// It is known in an answer about one object, to those who may see the values. Of a Secret it holds without showing them.
	// +optional
	Overridden bool `json:"overridden,omitempty"`

	// What happens to the field.
	// +required
	Outcome DriftOutcome `json:"outcome"`
}

// DriftReportList is never served. The definition of a custom resource needs it.
//
// +kubebuilder:object:root=true
type DriftReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DriftReport `json:"items"`
}
