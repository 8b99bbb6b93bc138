package v1alpha1

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CronFederatedHPA scales a workload, or moves the bounds of a FederatedHPA, at
// given times.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=cronfederatedhpas,scope=Namespaced,shortName=cronfhpa,categories={karmada-io}
// +kubebuilder:printcolumn:JSONPath=`.spec.scaleTargetRef.kind`,name=REFERENCE-KIND,type=string
// +kubebuilder:printcolumn:JSONPath=`.spec.scaleTargetRef.name`,name=REFERENCE-NAME,type=string
// +kubebuilder:printcolumn:JSONPath=`.metadata.creationTimestamp`,name=AGE,type=date
type CronFederatedHPA struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is scaled, and when.
	// +required
	Spec CronFederatedHPASpec `json:"spec"`

	// What was done, and what comes next.
	// +optional
	Status CronFederatedHPAStatus `json:"status,omitempty"`
}

// CronFederatedHPAList is a list of CronFederatedHPA.
//
// +kubebuilder:object:root=true
type CronFederatedHPAList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CronFederatedHPA `json:"items"`
}

// CronFederatedHPASpec describes what is scaled, and when.
type CronFederatedHPASpec struct {
	// The workload to scale, or the FederatedHPA whose bounds to move.
	// +required
	ScaleTargetRef autoscalingv2.CrossVersionObjectReference `json:"scaleTargetRef"`

	// The times, and the sizes to take on.
	// +required
	// +kubebuilder:validation:MaxItems=500
	// +kubebuilder:validation:XValidation:rule="self.all(r, self.exists_one(s, s.name == r.name))",message="name must be unique"
	Rules []CronFederatedHPARule `json:"rules"`
}

// CronFederatedHPARule is a time, and the size to take on.
//
// +kubebuilder:validation:XValidation:rule="has(self.targetReplicas) || has(self.targetMinReplicas) || has(self.targetMaxReplicas)",message="one of targetReplicas, targetMinReplicas and targetMaxReplicas is needed"
// +kubebuilder:validation:XValidation:rule="!has(self.targetReplicas) || self.targetReplicas >= 0",fieldPath=".targetReplicas",message="targetReplicas must not be negative"
// +kubebuilder:validation:XValidation:rule="!has(self.targetMinReplicas) || self.targetMinReplicas >= 1",fieldPath=".targetMinReplicas",message="targetMinReplicas must be at least 1"
// +kubebuilder:validation:XValidation:rule="!has(self.targetMaxReplicas) || self.targetMaxReplicas >= 1",fieldPath=".targetMaxReplicas",message="targetMaxReplicas must be at least 1"
// +kubebuilder:validation:XValidation:rule="!has(self.targetMinReplicas) || !has(self.targetMaxReplicas) || self.targetMinReplicas <= self.targetMaxReplicas",fieldPath=".targetMinReplicas",message="targetMinReplicas must not be greater than targetMaxReplicas"
// +kubebuilder:validation:XValidation:rule="size(self.schedule) > 0",fieldPath=".schedule",message="schedule must not be empty"
type CronFederatedHPARule struct {
	// Name of the rule, unique in the object, 1 to 32 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Name string `json:"name"`

	// When, in cron format, for example "0 9 * * 1-5".
	// +required
	Schedule string `json:"schedule"`

	// The number of replicas to take on, if a workload is scaled.
	// +optional
	TargetReplicas *int32 `json:"targetReplicas,omitempty"`

	// The minReplicas to take on, if a FederatedHPA is moved.
	// +optional
	TargetMinReplicas *int32 `json:"targetMinReplicas,omitempty"`

	// The maxReplicas to take on, if a FederatedHPA is moved.
	// +optional
	TargetMaxReplicas *int32 `json:"targetMaxReplicas,omitempty"`

	// Leave the rule out for a while. Default false.
	// +optional
	// +kubebuilder:default=false
	Suspend *bool `json:"suspend,omitempty"`

	// The time zone of schedule, for example "Europe/Berlin". Default: that of the
	// control plane.
	// +optional
	TimeZone *string `json:"timeZone,omitempty"`

	// How many successful runs to keep, 1 to 32. Default 3.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=32
	SuccessfulHistoryLimit *int32 `json:"successfulHistoryLimit,omitempty"`

	// How many failed runs to keep, 0 to 32. Default 3.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=32
	FailedHistoryLimit *int32 `json:"failedHistoryLimit,omitempty"`
}

// CronFederatedHPAStatus is what was done, and what comes next.
type CronFederatedHPAStatus struct {
	// The past of each rule.
	// +optional
	ExecutionHistories []ExecutionHistory `json:"executionHistories,omitempty"`
}

// ExecutionHistory is the past of one rule.
type ExecutionHistory struct {
	// Name of the rule.
	// +required
	RuleName string `json:"ruleName"`

	// When the rule is due next. Unset if it is suspended.
	// +optional
	NextExecutionTime *metav1.Time `json:"nextExecutionTime,omitempty"`

	// Successful runs.
	// +optional
	SuccessfulExecutions []SuccessfulExecution `json:"successfulExecutions,omitempty"`

	// Failed runs.
	// +optional
	FailedExecutions []FailedExecution `json:"failedExecutions,omitempty"`
}

// SuccessfulExecution is one successful run.
type SuccessfulExecution struct {
	// When it was due.
	// +required
	ScheduleTime *metav1.Time `json:"scheduleTime"`

	// When it ran.
	// +required
	ExecutionTime *metav1.Time `json:"executionTime"`

	// The number of replicas that was set.
	// +optional
	AppliedReplicas *int32 `json:"appliedReplicas,omitempty"`

	// The maxReplicas that was set.
	// +optional
	AppliedMaxReplicas *int32 `json:"appliedMaxReplicas,omitempty"`

	// The minReplicas that was set.
	// +optional
	AppliedMinReplicas *int32 `json:"appliedMinReplicas,omitempty"`
}

// FailedExecution is one failed run.
type FailedExecution struct {
	// When it was due.
	// +required
	ScheduleTime *metav1.Time `json:"scheduleTime"`

	// When it ran.
	// +required
	ExecutionTime *metav1.Time `json:"executionTime"`

	// Why it failed.
	// +required
	Message string `json:"message"`
}
