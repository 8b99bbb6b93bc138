package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PropagationPolicy defines which objects of its own namespace go to which member
// clusters, and how. A namespaced policy always beats a ClusterPropagationPolicy.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=propagationpolicies,scope=Namespaced,shortName=pp,categories={karmada-io}
// +kubebuilder:printcolumn:JSONPath=`.spec.conflictResolution`,name=CONFLICT-RESOLUTION,type=string
// +kubebuilder:printcolumn:JSONPath=`.spec.priority`,name=PRIORITY,type=string
// +kubebuilder:printcolumn:JSONPath=`.metadata.creationTimestamp`,name=AGE,type=date
type PropagationPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What to propagate, where to, and how.
	// +required
	Spec PropagationSpec `json:"spec"`
}

// PropagationPolicyList is a list of PropagationPolicy.
//
// +kubebuilder:object:root=true
type PropagationPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PropagationPolicy `json:"items"`
}

// ClusterPropagationPolicy defines which objects of any namespace, and which
// cluster-scoped objects, go to which member clusters, and how.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterpropagationpolicies,scope=Cluster,shortName=cpp,categories={karmada-io}
// +kubebuilder:printcolumn:JSONPath=`.spec.conflictResolution`,name=CONFLICT-RESOLUTION,type=string
// +kubebuilder:printcolumn:JSONPath=`.spec.priority`,name=PRIORITY,type=string
// +kubebuilder:printcolumn:JSONPath=`.metadata.creationTimestamp`,name=AGE,type=date
type ClusterPropagationPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What to propagate, where to, and how.
	// +required
	Spec PropagationSpec `json:"spec"`
}

// ClusterPropagationPolicyList is a list of ClusterPropagationPolicy.
//
// +kubebuilder:object:root=true
type ClusterPropagationPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterPropagationPolicy `json:"items"`
}

// PropagationSpec is what both kinds of propagation policy say.
//
// +kubebuilder:validation:XValidation:rule="self.schedulerName == oldSelf.schedulerName",fieldPath=".schedulerName",message="schedulerName is immutable"
// +kubebuilder:validation:XValidation:rule="!has(self.preemption) || self.preemption != 'Always' || self.resourceSelectors.all(s, has(s.name) && size(s.name) > 0)",fieldPath=".preemption",message="preemption Always needs a name in every resource selector"
// +kubebuilder:validation:XValidation:rule="!has(self.failover) || !has(self.failover.application) || (has(self.propagateDeps) && self.propagateDeps)",fieldPath=".propagateDeps",message="failover.application needs propagateDeps to be true"
type PropagationSpec struct {
	// The objects this policy is for. An object is selected if any one of the
	// selectors matches it. At least one is needed.
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10000
	ResourceSelectors []ResourceSelector `json:"resourceSelectors"`

	// Deprecated: use propagateDeps.
	// +optional
	Association bool `json:"association,omitempty"`

	// Also send what a selected object refers to (ConfigMaps, Secrets, service
	// accounts, volume claims, ...) to the same clusters. Default false.
	// +optional
	PropagateDeps bool `json:"propagateDeps,omitempty"`

	// Which clusters receive the objects, and how replicas are shared among them.
	// Without it, every cluster receives a full copy.
	// +optional
	Placement Placement `json:"placement,omitempty"`

	// Which policy wins when several select the same object: the higher number.
	// Among equals the more specific selector wins (name, then labels, then kind
	// alone), then the smaller policy name. Default 0.
	// +optional
	// +kubebuilder:default=0
	Priority *int32 `json:"priority,omitempty"`

	// Whether this policy may take an object away from a policy of lower priority
	// that already claimed it. "Always" needs a name in every resource selector.
	// Default "Never".
	// +optional
	// +kubebuilder:validation:Enum=Always;Never
	// +kubebuilder:default=Never
	Preemption PreemptionBehavior `json:"preemption,omitempty"`

	// Names of the OverridePolicies (or, for a cluster-scoped policy or object,
	// ClusterOverridePolicies) that must exist before anything is propagated.
	// +optional
	DependentOverrides []string `json:"dependentOverrides,omitempty"`

	// The scheduler that chooses the clusters. Cannot be changed. Default "default-scheduler".
	// +optional
	// +kubebuilder:default=default-scheduler
	SchedulerName string `json:"schedulerName,omitempty"`

	// What to do with the objects when an application or a whole cluster fails.
	// Without it, a failed application stays where it is.
	// +optional
	Failover *FailoverBehavior `json:"failover,omitempty"`

	// What to do when an object of the same name that is not managed from here
	// already exists in a member cluster: "Abort" leaves it alone and reports the
	// conflict, "Overwrite" adopts it. The annotation
	// work.karmada.io/conflict-resolution on an object wins over this field.
	// Default "Abort".
	// +optional
	// +kubebuilder:validation:Enum=Abort;Overwrite
	// +kubebuilder:default=Abort
	ConflictResolution ConflictResolution `json:"conflictResolution,omitempty"`

	// "Lazy" holds changes of this policy back until the selected object itself
	// changes. Unset, a change of the policy takes effect at once.
	// +optional
	// +kubebuilder:validation:Enum=Lazy
	ActivationPreference ActivationPreference `json:"activationPreference,omitempty"`

	// Stops writing to all or to some member clusters for a while. What is already
	// there stays as it is, and status is still collected.
	// +optional
	Suspension *Suspension `json:"suspension,omitempty"`

	// Leave the copies in the member clusters, with our labels and annotations
	// removed, when the object is deleted here. If unset, copies are deleted, but for
	// those that were in a cluster before and were taken over with Overwrite. With
	// false these are deleted, too, other than namespaces and definitions.
	// +optional
	PreserveResourcesOnDeletion *bool `json:"preserveResourcesOnDeletion,omitempty"`

	// The order in which the scheduler takes up the objects of this policy.
	// +optional
	SchedulePriority *SchedulePriority `json:"schedulePriority,omitempty"`
}

// ResourceSelector picks objects by kind and, if given, by namespace, name or labels.
type ResourceSelector struct {
	// Group and version of the objects, for example "apps/v1".
	// +required
	APIVersion string `json:"apiVersion"`

	// Kind of the objects, for example "Deployment".
	// +required
	Kind string `json:"kind"`

	// Namespace of the objects. Empty means any namespace in a cluster-scoped
	// policy; a namespaced policy only ever selects from its own namespace.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Name of one object. Empty means every object that the rest selects.
	// +optional
	Name string `json:"name,omitempty"`

	// Labels of the objects. Ignored when a name is given.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// PreemptionBehavior defines whether a policy may take objects away from another one.
type PreemptionBehavior string

// The values of PreemptionBehavior.
const (
	PreemptAlways PreemptionBehavior = "Always"
	PreemptNever  PreemptionBehavior = "Never"
)

// ConflictResolution defines what to do with an object in a member that is not managed from here.
type ConflictResolution string

// The values of ConflictResolution.
const (
	ConflictAbort     ConflictResolution = "Abort"
	ConflictOverwrite ConflictResolution = "Overwrite"
)

// ActivationPreference defines when a changed policy takes effect.
type ActivationPreference string

// LazyActivation holds a changed policy back until the selected object changes.
const LazyActivation ActivationPreference = "Lazy"

// Suspension stops writes to member clusters.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.dispatching) && self.dispatching && has(self.dispatchingOnClusters))",message="dispatching and dispatchingOnClusters are mutually exclusive"
type Suspension struct {
	// Stop writing to every member cluster. Cannot be combined with
	// dispatchingOnClusters. Default false.
	// +optional
	Dispatching *bool `json:"dispatching,omitempty"`

	// Stop writing to the listed member clusters. Cannot be combined with dispatching.
	// +optional
	DispatchingOnClusters *SuspendClusters `json:"dispatchingOnClusters,omitempty"`
}

// SuspendClusters lists member clusters that are not written to.
type SuspendClusters struct {
	// Names of the clusters.
	// +optional
	ClusterNames []string `json:"clusterNames,omitempty"`
}

// PriorityClassSource defines where a priority class is looked up.
type PriorityClassSource string

// KubePriorityClass looks the name up among the scheduling.k8s.io PriorityClasses of the control plane.
const KubePriorityClass PriorityClassSource = "KubePriorityClass"

// SchedulePriority places the objects of a policy in the scheduling queue.
type SchedulePriority struct {
	// Kind of object that priorityClassName refers to. Only "KubePriorityClass",
	// a scheduling.k8s.io/v1 PriorityClass of the control plane.
	// +required
	// +kubebuilder:validation:Enum=KubePriorityClass
	PriorityClassSource PriorityClassSource `json:"priorityClassSource"`

	// Name of the priority class.
	// +required
	PriorityClassName string `json:"priorityClassName"`
}
