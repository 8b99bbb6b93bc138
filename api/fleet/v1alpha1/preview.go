package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Preview is a question about a change of the control plane: what it would do. It is created like a SubjectAccessReview: the answer is in
// the status of the response, and nothing is stored or changed. The answer has only what its author may get.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=previews,scope=Cluster
type Preview struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The question.
	// +required
	Spec PreviewSpec `json:"spec"`

	// The answer. What a client sends here is ignored.
	// +optional
	Status PreviewStatus `json:"status,omitempty"`
}

// PreviewSpec is a change: objects that are applied, and objects that are deleted. Its author needs the rights that making it takes.
type PreviewSpec struct {
	// Objects as they are passed to "kubectl apply": templates, propagation and override policies, definitions, Clusters. Fields of an
	// existing object that a manifest does not have stay, but for those that the annotation of "kubectl apply" has.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	// +kubebuilder:pruning:PreserveUnknownFields
	Apply []runtime.RawExtension `json:"apply,omitempty"`

	// Objects that are deleted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Delete []ObjectIdentity `json:"delete,omitempty"`

	// Namespace of the objects in apply and delete that name none, and are of a kind that has one. Default: default.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Each object that changes in a member is also applied there in a dry run, through the proxy of the cluster and as the author: the
	// answer has what the member would make of it, with its defaults, and what it would refuse.
	// +optional
	Members bool `json:"members,omitempty"`
}

// PreviewStatus is the answer.
type PreviewStatus struct {
	// The answer in one sentence.
	// +optional
	Summary string `json:"summary,omitempty"`

	// Whether the change does anything, or is refused.
	// +optional
	Changes bool `json:"changes,omitempty"`

	// What the control plane refuses of the change. All else is computed without it.
	// +optional
	// +listType=atomic
	Refused []PreviewRefusal `json:"refused,omitempty"`

	// What becomes of the objects of the change on the control plane itself, and of those in a namespace that it deletes.
	// +optional
	// +listType=atomic
	Objects []PreviewObject `json:"objects,omitempty"`

	// The objects that come to belong to another policy, or to none.
	// +optional
	// +listType=atomic
	Policies []PreviewPolicy `json:"policies,omitempty"`

	// The objects whose clusters or replicas change.
	// +optional
	// +listType=atomic
	Placements []PreviewPlacement `json:"placements,omitempty"`

	// The objects that are created, changed or deleted in members.
	// +optional
	// +listType=atomic
	Copies []PreviewCopy `json:"copies,omitempty"`

	// The Clusters that get or lose taints by ClusterTaintPolicies.
	// +optional
	// +listType=atomic
	Taints []PreviewTaints `json:"taints,omitempty"`

	// What of the change would wait for a person: removals since they are too many at once, evictions for the safety of the fleet, or all
	// that is written to a cluster.
	// +optional
	// +listType=atomic
	Brakes []PreviewBrake `json:"brakes,omitempty"`

	// Further remarks, each in one sentence.
	// +optional
	// +listType=atomic
	Warnings []string `json:"warnings,omitempty"`

	// Whether something is left out that the author may not get.
	// +optional
	Hidden bool `json:"hidden,omitempty"`

	// How many entries are left out since there are too many.
	// +optional
	Omitted int32 `json:"omitted,omitempty"`
}

// PreviewRefusal is an object of the change that the control plane refuses.
type PreviewRefusal struct {
	// The object.
	// +required
	Object ObjectIdentity `json:"object"`

	// The reason in one word.
	// +optional
	Reason string `json:"reason,omitempty"`

	// The reason for people.
	// +required
	Message string `json:"message"`
}

// PreviewAction is what happens to an object.
type PreviewAction string

// The actions.
const (
	PreviewCreate PreviewAction = "Create"
	PreviewUpdate PreviewAction = "Update"
	PreviewDelete PreviewAction = "Delete"
	// PreviewNone is an object that stays as it is.
	PreviewNone PreviewAction = "None"
	// PreviewEvict is an object that stays in a cluster until its copies elsewhere are healthy, or their time is up.
	PreviewEvict PreviewAction = "Evict"
)

// PreviewObject is what becomes of an object of the change on the control plane.
type PreviewObject struct {
	// The object.
	// +required
	Object ObjectIdentity `json:"object"`

	// What happens to it.
	// +required
	Action PreviewAction `json:"action"`

	// The fields that change, of an object that there is already.
	// +optional
	// +listType=atomic
	Fields []FieldEdit `json:"fields,omitempty"`
}

// PreviewPolicy is an object that comes to belong to another policy.
type PreviewPolicy struct {
	// The object.
	// +required
	Object ObjectIdentity `json:"object"`

	// The policy that loses it. Not set if it belongs to none.
	// +optional
	From *ObjectIdentity `json:"from,omitempty"`

	// The policy that wins it. Not set if it will belong to none.
	// +optional
	To *ObjectIdentity `json:"to,omitempty"`
}

// PreviewPlacement is an object whose clusters or replicas change.
type PreviewPlacement struct {
	// The object.
	// +required
	Object ObjectIdentity `json:"object"`

	// The clusters that change, by name.
	// +optional
	// +listType=atomic
	Clusters []PreviewCluster `json:"clusters,omitempty"`

	// Why the object has no place, or not all of it. Empty if it has.
	// +optional
	Message string `json:"message,omitempty"`
}

// PreviewCluster is what changes in one cluster for an object.
type PreviewCluster struct {
	// The cluster.
	// +required
	Name string `json:"name"`

	// The replicas that it has there, 0 for kinds without replicas. Not set if it is not there.
	// +optional
	From *int32 `json:"from,omitempty"`

	// The replicas that it will have there. Not set if it leaves.
	// +optional
	To *int32 `json:"to,omitempty"`

	// Why it is evicted, if it is.
	// +optional
	Eviction string `json:"eviction,omitempty"`

	// After how many seconds that happens, because a toleration delays an eviction. 0: at once.
	// +optional
	AfterSeconds int64 `json:"afterSeconds,omitempty"`
}

// PreviewCopy is an object that is created, changed or deleted in members, in the same way in each.
type PreviewCopy struct {
	// The object, in the version that goes to the members.
	// +required
	Object ObjectIdentity `json:"object"`

	// The clusters.
	// +required
	// +listType=atomic
	Clusters []string `json:"clusters"`

	// What happens to it.
	// +required
	Action PreviewAction `json:"action"`

	// The fields that change of what the control plane sends; all that it sends of a new object. The values of Secrets are left out.
	// +optional
	// +listType=atomic
	Fields []FieldEdit `json:"fields,omitempty"`

	// The fields that change in the member, by a dry run there.
	// +optional
	// +listType=atomic
	Member []FieldEdit `json:"member,omitempty"`

	// Further remarks about it, such as why the member refuses it.
	// +optional
	Message string `json:"message,omitempty"`

	// After how many seconds that happens, because a toleration delays an eviction. 0: at once.
	// +optional
	AfterSeconds int64 `json:"afterSeconds,omitempty"`
}

// PreviewTaints is a Cluster that gets or loses taints by ClusterTaintPolicies.
type PreviewTaints struct {
	// The cluster.
	// +required
	Cluster string `json:"cluster"`

	// The taints that it gets, each as key=value:effect.
	// +optional
	// +listType=atomic
	Added []string `json:"added,omitempty"`

	// The taints that it loses.
	// +optional
	// +listType=atomic
	Removed []string `json:"removed,omitempty"`
}

// PreviewBrake is a cluster in which something would wait for a person.
type PreviewBrake struct {
	// The cluster.
	// +required
	Cluster string `json:"cluster"`

	// The condition of the Cluster that is True meanwhile: BrakeEngaged if removals and shrinkages wait, EvictionHeld if evictions do,
	// DispatchingHeld if nothing is written to it.
	// +optional
	Condition string `json:"condition,omitempty"`

	// The reason of the condition.
	// +optional
	Reason string `json:"reason,omitempty"`

	// The reason for people.
	// +optional
	Message string `json:"message,omitempty"`

	// How many objects are removed or scaled down; 0 for other brakes than BrakeEngaged.
	// +required
	Touched int32 `json:"touched"`

	// How many objects there are; 0 for other brakes than BrakeEngaged.
	// +required
	Objects int32 `json:"objects"`
}

// PreviewList is never served. The definition of a custom resource needs it.
//
// +kubebuilder:object:root=true
type PreviewList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Preview `json:"items"`
}
