package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Explanation is a question about an object: why it is where it is, or is not. It is created like a SubjectAccessReview: the answer is
// in the status of the response, and nothing is stored. The answer has only what its author may get.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=explanations,scope=Cluster
type Explanation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The question.
	// +required
	Spec ExplanationSpec `json:"spec"`

	// The answer. What a client sends here is ignored.
	// +optional
	Status ExplanationStatus `json:"status,omitempty"`
}

// ExplanationSpec names an object.
type ExplanationSpec struct {
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

	// Only this cluster is explained. Empty for all.
	// +optional
	Cluster string `json:"cluster,omitempty"`
	// The object in this member is explained, not the one on the control plane: whose it is, and who owns which of its fields. It is
	// read through the proxy of the cluster, as the author of the question.
	// +optional
	Member string `json:"member,omitempty"`
}

// ExplanationStatus is the answer.
type ExplanationStatus struct {
	// The object that was found. Not set if there is none.
	// +optional
	Object *ObjectIdentity `json:"object,omitempty"`

	// The answer in one sentence.
	// +optional
	Summary string `json:"summary,omitempty"`

	// The path of the object, in order.
	// +optional
	// +listType=atomic
	Steps []ExplanationStep `json:"steps,omitempty"`

	// What there is instead of an object that does not exist: similar names, other kinds, other namespaces.
	// +optional
	// +listType=atomic
	Instead []ObjectIdentity `json:"instead,omitempty"`

	// How many clusters have no steps here since there are too many. Each can be named in spec.cluster.
	// +optional
	OmittedClusters int32 `json:"omittedClusters,omitempty"`
}

// ObjectIdentity names an object.
type ObjectIdentity struct {
	// API group and version.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`

	// Kind.
	// +optional
	Kind string `json:"kind,omitempty"`

	// Namespace, empty for a cluster-scoped object.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Name.
	// +optional
	Name string `json:"name,omitempty"`
}

// ExplanationStage is a part of the path of an object.
type ExplanationStage string

// The stages.
const (
	StageTemplate   ExplanationStage = "Template"
	StagePolicy     ExplanationStage = "Policy"
	StageDependency ExplanationStage = "Dependency"
	StageBinding    ExplanationStage = "Binding"
	StageCluster    ExplanationStage = "Cluster"
	StageOverride   ExplanationStage = "Override"
	StageWork       ExplanationStage = "Work"
	StageMember     ExplanationStage = "Member"
	StageStatus     ExplanationStage = "Status"
)

// ExplanationOutcome is how a step ended.
type ExplanationOutcome string

// The outcomes.
const (
	// OutcomeDone is a step that is complete.
	OutcomeDone ExplanationOutcome = "Done"
	// OutcomeDropped is a policy that lost, a cluster that was not chosen, or a rule that does not apply.
	OutcomeDropped ExplanationOutcome = "Dropped"
	// OutcomeWaiting is a step that waits; the message says for what.
	OutcomeWaiting ExplanationOutcome = "Waiting"
	// OutcomeFailed is a step that failed.
	OutcomeFailed ExplanationOutcome = "Failed"
	// OutcomeHidden is a step that the author of the question may not see. Its message names the missing right.
	OutcomeHidden ExplanationOutcome = "Hidden"
)

// ExplanationStep is one step on the path of an object.
type ExplanationStep struct {
	// The part of the path.
	// +required
	Stage ExplanationStage `json:"stage"`

	// How the step ended.
	// +required
	Outcome ExplanationOutcome `json:"outcome"`

	// The object that the step is about. In the stage Member it is the one in the member.
	// +optional
	Object *ObjectIdentity `json:"object,omitempty"`

	// The cluster that the step is about.
	// +optional
	Cluster string `json:"cluster,omitempty"`

	// The reason in one word.
	// +optional
	Reason string `json:"reason,omitempty"`

	// The reason for people.
	// +optional
	Message string `json:"message,omitempty"`

	// What made the step: the field manager that wrote a template last, or a stage of the control plane.
	// +optional
	Actor string `json:"actor,omitempty"`

	// When the step was made or, if it waits or failed, since when.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`

	// When the step is tried again if no event does so before.
	// +optional
	NextTry *metav1.Time `json:"nextTry,omitempty"`

	// The smallest changes that together would let a cluster in that was dropped.
	// +optional
	// +listType=atomic
	Remedies []string `json:"remedies,omitempty"`

	// What each scorer gave a cluster.
	// +optional
	// +listType=atomic
	Scores []ClusterScore `json:"scores,omitempty"`

	// How many replicas a cluster was given, or a copy has.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// How many more replicas fit in a cluster.
	// +optional
	Available *int32 `json:"available,omitempty"`

	// The fields that an override changed, or that a manager owns in a member.
	// +optional
	// +listType=atomic
	Fields []FieldEdit `json:"fields,omitempty"`
}

// ClusterScore is what one scorer gave a cluster.
type ClusterScore struct {
	// The scorer.
	// +required
	Scorer string `json:"scorer"`

	// Its points, from 0 to 100.
	// +required
	Points int64 `json:"points"`
}

// FieldEdit is one field, and what it became.
type FieldEdit struct {
	// JSON pointer of the field; in the stage Member as in messages of server-side apply, such as .spec.replicas.
	// +required
	Path string `json:"path"`

	// The value before, as JSON. Empty for a field that was not there.
	// +optional
	From string `json:"from,omitempty"`

	// The value after, as JSON. Empty for a field that was removed.
	// +optional
	To string `json:"to,omitempty"`
}

// ExplanationList is never served. The definition of a custom resource needs it.
//
// +kubebuilder:object:root=true
type ExplanationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Explanation `json:"items"`
}
