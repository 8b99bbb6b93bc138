package v1alpha1

// FailoverBehavior describes what happens to objects when something breaks.
type FailoverBehavior struct {
	// What to do when the application is unhealthy in a cluster for too long.
	// Without it, it stays there. Needs propagateDeps.
	// +optional
	Application *ApplicationFailoverBehavior `json:"application,omitempty"`

	// How to leave a cluster whose taints evict the objects.
	// +optional
	Cluster *ClusterFailoverBehavior `json:"cluster,omitempty"`
}

// ApplicationFailoverBehavior defines when an unhealthy application moves, and how.
//
// +kubebuilder:validation:XValidation:rule="!has(self.gracePeriodSeconds) || !has(self.purgeMode) || self.purgeMode == 'Gracefully'",fieldPath=".gracePeriodSeconds",message="gracePeriodSeconds is only allowed with purgeMode Gracefully"
// +kubebuilder:validation:XValidation:rule="!has(self.gracePeriodSeconds) || self.gracePeriodSeconds > 0",fieldPath=".gracePeriodSeconds",message="gracePeriodSeconds must be greater than 0"
type ApplicationFailoverBehavior struct {
	// When an application counts as failed. All conditions must hold.
	// +required
	DecisionConditions DecisionConditions `json:"decisionConditions"`

	// How the copy in the failed cluster is removed: "Gracefully" once the new copy
	// is healthy or the grace period is over, "Directly" before the new one is
	// created, "Never" by a person. Default "Gracefully".
	// +optional
	// +kubebuilder:validation:Enum=Directly;Gracefully;Never
	// +kubebuilder:default=Gracefully
	PurgeMode PurgeMode `json:"purgeMode,omitempty"`

	// Longest time, in seconds, to wait for the new copy before the old one is
	// removed. Only with purgeMode Gracefully. Default 600.
	// +optional
	GracePeriodSeconds *int32 `json:"gracePeriodSeconds,omitempty"`

	// Pieces of the old copy's status that the new copy receives as labels.
	// +optional
	StatePreservation *StatePreservation `json:"statePreservation,omitempty"`
}

// DecisionConditions defines when an application counts as failed.
//
// +kubebuilder:validation:XValidation:rule="!has(self.tolerationSeconds) || self.tolerationSeconds >= 0",fieldPath=".tolerationSeconds",message="tolerationSeconds must not be negative"
type DecisionConditions struct {
	// How long, in seconds, the application may be unhealthy. Default 300.
	// +optional
	// +kubebuilder:default=300
	TolerationSeconds *int32 `json:"tolerationSeconds,omitempty"`
}

// ClusterFailoverBehavior defines how objects leave a failed cluster.
type ClusterFailoverBehavior struct {
	// How the copy in the failed cluster is removed: "Gracefully" once the new copy
	// is healthy or the grace period is over, "Directly" before the new one is
	// created. Default "Gracefully".
	// +optional
	// +kubebuilder:validation:Enum=Directly;Gracefully
	// +kubebuilder:default=Gracefully
	PurgeMode PurgeMode `json:"purgeMode,omitempty"`

	// Pieces of the old copy's status that the new copy receives as labels.
	// +optional
	StatePreservation *StatePreservation `json:"statePreservation,omitempty"`
}

// PurgeMode defines how a copy is removed from a cluster it is evicted from.
type PurgeMode string

// The values of PurgeMode.
const (
	// PurgeModeDirectly removes the old copy before the new one is created.
	PurgeModeDirectly PurgeMode = "Directly"
	// PurgeModeGracefully removes the old copy once the new one is healthy or the grace period is over.
	PurgeModeGracefully PurgeMode = "Gracefully"
	// PurgeModeNever leaves the old copy to a person.
	PurgeModeNever PurgeMode = "Never"
)

// StatePreservation lists what of an old copy's status the new copy must receive.
type StatePreservation struct {
	// One rule per piece of state. If any rule cannot be evaluated, the failover
	// waits and is retried.
	// +required
	Rules []StatePreservationRule `json:"rules"`
}

// StatePreservationRule carries one value from status to a label.
type StatePreservationRule struct {
	// Key of the label that the new copy receives.
	// +required
	AliasLabelName string `json:"aliasLabelName"`

	// Where the value is found in the status reported by the failed cluster, as a
	// JSONPath template relative to that status, for example "{ .replicas }".
	// +required
	JSONPath string `json:"jsonPath"`
}
