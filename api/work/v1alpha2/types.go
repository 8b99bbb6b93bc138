package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// ResourceBinding joins one object of a namespace to the clusters it goes to.
// It is written by the control plane, not by users.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=resourcebindings,scope=Namespaced,shortName=rb,categories={karmada-io}
// +kubebuilder:printcolumn:JSONPath=`.status.conditions[?(@.type=="Scheduled")].status`,name=SCHEDULED,type=string
// +kubebuilder:printcolumn:JSONPath=`.status.conditions[?(@.type=="FullyApplied")].status`,name=FULLYAPPLIED,type=string
// +kubebuilder:printcolumn:JSONPath=`.metadata.creationTimestamp`,name=AGE,type=date
type ResourceBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The object, what its policy requires, and where it goes.
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
// to. It is written by the control plane, not by users.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=clusterresourcebindings,scope=Cluster,shortName=crb,categories={karmada-io}
// +kubebuilder:printcolumn:JSONPath=`.status.conditions[?(@.type=="Scheduled")].status`,name=SCHEDULED,type=string
// +kubebuilder:printcolumn:JSONPath=`.status.conditions[?(@.type=="FullyApplied")].status`,name=FULLYAPPLIED,type=string
// +kubebuilder:printcolumn:JSONPath=`.metadata.creationTimestamp`,name=AGE,type=date
type ClusterResourceBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The object, what its policy requires, and where it goes.
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

// ResourceBindingSpec is the object, what its policy requires, and where it goes.
type ResourceBindingSpec struct {
	// The object.
	// +required
	Resource ObjectReference `json:"resource"`

	// Copied from the policy: also send what the object refers to. Default false.
	// +optional
	PropagateDeps bool `json:"propagateDeps,omitempty"`

	// What each replica needs, if the object has replicas.
	// +optional
	ReplicaRequirements *ReplicaRequirements `json:"replicaRequirements,omitempty"`

	// How many replicas the object has over all clusters. 0 if its kind has none.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// The parts of an object with several pod templates, each with its own replicas.
	// +optional
	Components []Component `json:"components,omitempty"`

	// Where the object goes: the scheduler's result.
	// +optional
	Clusters []TargetCluster `json:"clusters,omitempty"`

	// Clusters that the object is being moved out of. Each keeps its copy until its
	// task ends.
	// +optional
	GracefulEvictionTasks []GracefulEvictionTask `json:"gracefulEvictionTasks,omitempty"`

	// The bindings whose objects refer to this one, with the clusters they go to:
	// this object goes there as well.
	// +optional
	RequiredBy []BindingSnapshot `json:"requiredBy,omitempty"`

	// Copied from the policy: the scheduler that chooses the clusters.
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`

	// Copied from the policy: which clusters, and how replicas are shared.
	// +optional
	Placement *policyv1alpha1.Placement `json:"placement,omitempty"`

	// Copied from the policy: what to do when an application or a cluster fails.
	// +optional
	Failover *policyv1alpha1.FailoverBehavior `json:"failover,omitempty"`

	// Copied from the policy: what to do with an object of the same name in a member
	// that is not managed from here. Default "Abort".
	// +optional
	// +kubebuilder:validation:Enum=Abort;Overwrite
	// +kubebuilder:default=Abort
	ConflictResolution policyv1alpha1.ConflictResolution `json:"conflictResolution,omitempty"`

	// When a fresh scheduling decision was last requested, one that disregards where
	// the object is now.
	// +optional
	RescheduleTriggeredAt *metav1.Time `json:"rescheduleTriggeredAt,omitempty"`

	// Stops writing to members, or scheduling, for a while.
	// +optional
	Suspension *Suspension `json:"suspension,omitempty"`

	// Copied from the policy: leave the copies in the members when the object is
	// deleted here. Default false.
	// +optional
	PreserveResourcesOnDeletion *bool `json:"preserveResourcesOnDeletion,omitempty"`

	// The place of this binding in the scheduling queue.
	// +optional
	SchedulePriority *SchedulePriority `json:"schedulePriority,omitempty"`

	// The groups in which this object is kept together with, or apart from, others.
	// +optional
	WorkloadAffinityGroups *WorkloadAffinityGroups `json:"workloadAffinityGroups,omitempty"`
}

// ObjectReference names an object of the control plane.
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

	// Uid of the object.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// Resource version of the object that this binding was made from.
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// ReplicaRequirements is what each replica needs of a cluster.
type ReplicaRequirements struct {
	// The nodes a replica can run on.
	// +optional
	NodeClaim *NodeClaim `json:"nodeClaim,omitempty"`

	// The resources a replica requests.
	// +optional
	ResourceRequest corev1.ResourceList `json:"resourceRequest,omitempty"`

	// The namespace a replica runs in.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// The priority class of a replica.
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

// NodeClaim defines which nodes a replica can run on.
type NodeClaim struct {
	// Required node affinity.
	// +optional
	HardNodeAffinity *corev1.NodeSelector `json:"hardNodeAffinity,omitempty"`

	// Labels a node must have.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// Node taints a replica tolerates.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// Component is one part of an object with several pod templates.
type Component struct {
	// Name of the part, unique in the object, at most 32 characters.
	// +required
	// +kubebuilder:validation:MaxLength=32
	Name string `json:"name"`

	// How many replicas the part has.
	// +required
	Replicas int32 `json:"replicas"`

	// What each replica of the part needs.
	// +optional
	ReplicaRequirements *ComponentReplicaRequirements `json:"replicaRequirements,omitempty"`
}

// ComponentReplicaRequirements is what each replica of a component needs of a cluster.
type ComponentReplicaRequirements struct {
	// The nodes a replica can run on.
	// +optional
	NodeClaim *NodeClaim `json:"nodeClaim,omitempty"`

	// The resources a replica requests.
	// +optional
	ResourceRequest corev1.ResourceList `json:"resourceRequest,omitempty"`

	// The priority class of a replica.
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

// TargetCluster is a cluster that an object goes to.
type TargetCluster struct {
	// Name of the cluster.
	// +required
	Name string `json:"name"`

	// How many replicas go there. 0 if the object has none.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// How many replicas of each component go there.
	// +optional
	Components []TargetComponent `json:"components,omitempty"`
}

// TargetComponent is the share of one component that goes to a cluster.
type TargetComponent struct {
	// Name of the component.
	// +required
	Name string `json:"name"`

	// How many of its replicas go to the cluster.
	// +required
	Replicas int32 `json:"replicas"`
}

// GracefulEvictionTask moves an object out of one cluster.
type GracefulEvictionTask struct {
	// The cluster being left.
	// +required
	FromCluster string `json:"fromCluster"`

	// How the copy there is removed.
	// +optional
	// +kubebuilder:validation:Enum=Directly;Gracefully;Never
	PurgeMode policyv1alpha1.PurgeMode `json:"purgeMode,omitempty"`

	// How many replicas that cluster had.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// Why, as one CamelCase word of at most 32 characters, for example "TaintUntolerated".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`
	Reason string `json:"reason"`

	// Why, in words of at most 1024 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// Who requested it.
	// +required
	Producer string `json:"producer"`

	// Longest time, in seconds, to wait for a healthy copy elsewhere. Unset, the
	// control plane's own default applies (600).
	// +optional
	GracePeriodSeconds *int32 `json:"gracePeriodSeconds,omitempty"`

	// True keeps the copy for good, false removes it at once, unset lets the control
	// plane decide.
	// +optional
	SuppressDeletion *bool `json:"suppressDeletion,omitempty"`

	// Labels that the new copy receives to take over the state of the old one.
	// +optional
	PreservedLabelState map[string]string `json:"preservedLabelState,omitempty"`

	// When the task was created. Set by the control plane.
	// +optional
	CreationTimestamp *metav1.Time `json:"creationTimestamp,omitempty"`

	// The clusters the object was in when the task was created.
	// +optional
	ClustersBeforeFailover []string `json:"clustersBeforeFailover,omitempty"`
}

// BindingSnapshot is where another binding's object goes.
type BindingSnapshot struct {
	// Namespace of the binding. Empty for a ClusterResourceBinding.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Name of the binding.
	// +required
	Name string `json:"name"`

	// Where its object goes.
	// +optional
	Clusters []TargetCluster `json:"clusters,omitempty"`
}

// Suspension stops writing to members, or scheduling.
type Suspension struct {
	policyv1alpha1.Suspension `json:",inline"`

	// Leave the binding out of scheduling. Default false.
	// +optional
	Scheduling *bool `json:"scheduling,omitempty"`
}

// SchedulePriority is the place of a binding in the scheduling queue.
type SchedulePriority struct {
	// The higher, the sooner. Default 0.
	// +optional
	// +kubebuilder:default=0
	Priority int32 `json:"priority,omitempty"`
}

// WorkloadAffinityGroups names the groups an object belongs to, each as "key=value"
// of the label that the policy groups by.
type WorkloadAffinityGroups struct {
	// Objects of this group go to the same clusters.
	// +optional
	AffinityGroup string `json:"affinityGroup,omitempty"`

	// Objects of this group go to different clusters.
	// +optional
	AntiAffinityGroup string `json:"antiAffinityGroup,omitempty"`
}

// ResourceBindingStatus is what became of a binding.
type ResourceBindingStatus struct {
	// The generation of this binding that the scheduler last dealt with.
	// +optional
	SchedulerObservedGeneration int64 `json:"schedulerObservedGeneration,omitempty"`

	// The name of the clusterAffinities term in use.
	// +optional
	SchedulerObservedAffinityName string `json:"schedulerObservingAffinityName,omitempty"`

	// When clusters were last chosen.
	// +optional
	LastScheduledTime *metav1.Time `json:"lastScheduledTime,omitempty"`

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

	// Whether the copy does its work: "Healthy", "Unhealthy", or "Unknown" when it
	// cannot be determined.
	// +optional
	// +kubebuilder:validation:Enum=Healthy;Unhealthy;Unknown
	Health ResourceHealth `json:"health,omitempty"`
}

// ResourceHealth reports whether a copy does its work.
type ResourceHealth string

// The values of ResourceHealth.
const (
	ResourceHealthy   ResourceHealth = "Healthy"
	ResourceUnhealthy ResourceHealth = "Unhealthy"
	ResourceUnknown   ResourceHealth = "Unknown"
)
