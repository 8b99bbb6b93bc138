package v1alpha1

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition types of a Work. All five are present from the first status write.
const (
	// WorkApplied is True once every manifest has been written to the member. Owned by apply.
	WorkApplied = "Applied"
	// WorkProgressing is True while a manifest is not yet applied or rolled out at the current
	// generation. Owned by observe.
	WorkProgressing = "Progressing"
	// WorkAvailable is True when every manifest exists in the member. Owned by observe.
	WorkAvailable = "Available"
	// WorkDegraded is True when a manifest has been unhealthy for longer than a while. Owned by observe.
	WorkDegraded = "Degraded"
	// WorkDispatching is False while writing to the member is suspended. Owned by apply.
	WorkDispatching = "Dispatching"
	// WorkDrifted is True while objects in the member differ from their manifests because of others, for longer than it takes to put a
	// field back once. It does not exist otherwise, so that it is none of the five. Owned by apply.
	WorkDrifted = "Drifted"
)

// Reasons of the Drifted condition; the first of them if several are the case.
const (
	// DriftPausedReason: nothing is written until a person acknowledges the differences.
	DriftPausedReason = "Paused"
	// DriftReportedReason: the policy leaves the differences as they are.
	DriftReportedReason = "Reported"
	// DriftDisputedReason: others change fields again as often as they are put back.
	DriftDisputedReason = "Disputed"
	// DriftLeftReason: other managers in the member own the fields.
	DriftLeftReason = "Left"
)

// Reasons of the Applied condition.
const (
	AppliedSuccessfulReason = "AppliedSuccessful"
	AppliedFailedReason     = "AppliedFailed"
	// AppliedHeldReason: the member keeps what it has, because the change would do harm there.
	AppliedHeldReason = "Held"
	// AppliedBrakedReason: too many objects of the member are to be removed or scaled down at once, and a person has to
	// release them. The Cluster's condition BrakeEngaged has the details.
	AppliedBrakedReason = "Braked"
	// AppliedForbiddenReason: the member refuses the objects to the account that writes them, by its RBAC or its admission.
	AppliedForbiddenReason = "Forbidden"
	// AppliedFamilyUnsupportedReason: the member has no addresses of the IP families that a Service names.
	AppliedFamilyUnsupportedReason = "IPFamilyNotSupported"
	// AppliedNodePortTakenReason: the objects are applied, but a Service has another node port in the member than on the control
	// plane, because it cannot have that one there.
	AppliedNodePortTakenReason = "NodePortTaken"
)

// Reasons of the Dispatching condition.
const (
	DispatchingReason        = "Dispatching"
	SuspendDispatchingReason = "SuspendDispatching"
	// DispatchingHeldReason: the Cluster has the condition DispatchingHeld, so the control plane waits for a person before it writes to
	// the member.
	DispatchingHeldReason = "DispatchingHeld"
)

// Reasons of the Progressing condition.
const (
	ApplyingReason        = "Applying"
	RollingOutReason      = "RollingOut"
	RolloutFinishedReason = "RolloutFinished"
)

// Reasons of the Available condition.
const (
	ResourcesAvailableReason = "ResourcesAvailable"
	ResourcesMissingReason   = "ResourcesMissing"
)

// Reasons of the Degraded condition.
const (
	ResourcesHealthyReason   = "ResourcesHealthy"
	ResourcesUnhealthyReason = "ResourcesUnhealthy"
)

// ClusterUnreachableReason explains the status Unknown of a condition: the member cannot be seen.
const ClusterUnreachableReason = "ClusterUnreachable"

// Messages that are part of the contract.
const (
	AppliedSuccessfulMessage = "Manifest has been successfully applied"
	// AppliedWithoutMark is between AppliedSuccessfulMessage and the fields that a member does not serve.
	AppliedWithoutMark        = ", but for fields that the cluster does not serve: "
	DispatchingMessage        = "Work is being dispatched to member clusters."
	SuspendDispatchingMessage = "Work dispatching is in a suspended state."
	ResourcesAvailableMessage = "All resources of the Work exist on the managed cluster"
)

// ManifestsAppliedMessage is the message of the event that all manifests of a Work are applied.
func ManifestsAppliedMessage(manifests int) string {
	return fmt.Sprintf("%d manifests are applied", manifests)
}

// StatusReadMessage is the message of the event that the status of an object of a Work is read.
func (id ResourceIdentifier) StatusReadMessage() string {
	return "The status of " + id.Object() + " is read"
}

// HealthMessage is the message of the event that the health of an object of a Work is known.
func (id ResourceIdentifier) HealthMessage(health ResourceHealth) string {
	return fmt.Sprintf("%s is %s", id.Object(), health)
}

// The constructors below leave LastTransitionTime to meta.SetStatusCondition.
// Generation is that of the Work which the verdict is about.

// Applied returns the condition of a Work whose manifests were all written.
func Applied(generation int64) metav1.Condition {
	return condition(WorkApplied, metav1.ConditionTrue, AppliedSuccessfulReason, AppliedSuccessfulMessage, generation)
}

// AppliedWithout returns the condition of a Work whose manifests were all written, but for fields; message names them.
func AppliedWithout(generation int64, message string) metav1.Condition {
	return condition(WorkApplied, metav1.ConditionTrue, AppliedSuccessfulReason, AppliedSuccessfulMessage+AppliedWithoutMark+message, generation)
}

// NotApplied returns the condition of a Work of which something was not written;
// message describes what and why.
func NotApplied(generation int64, message string) metav1.Condition {
	return condition(WorkApplied, metav1.ConditionFalse, AppliedFailedReason, message, generation)
}

// Held returns the condition of a Work that is kept from its member on purpose;
// message reports why, and what lets it pass.
func Held(generation int64, message string) metav1.Condition {
	return condition(WorkApplied, metav1.ConditionFalse, AppliedHeldReason, message, generation)
}

// Braked returns the condition of a Work whose removal or shrinkage waits for the brake of its cluster.
func Braked(generation int64, message string) metav1.Condition {
	return condition(WorkApplied, metav1.ConditionFalse, AppliedBrakedReason, message, generation)
}

// Forbidden returns the condition of a Work whose objects the member refuses to
// the account that writes them; message names the account, and what it may not do.
func Forbidden(generation int64, message string) metav1.Condition {
	return condition(WorkApplied, metav1.ConditionFalse, AppliedForbiddenReason, message, generation)
}

// FamilyUnsupported returns the condition of a Work with a Service of IP families that the member does not have.
func FamilyUnsupported(generation int64, message string) metav1.Condition {
	return condition(WorkApplied, metav1.ConditionFalse, AppliedFamilyUnsupportedReason, message, generation)
}

// NodePortTaken returns the condition of a Work with a Service that has another node port in the member; message names the ports.
func NodePortTaken(generation int64, message string) metav1.Condition {
	return condition(WorkApplied, metav1.ConditionFalse, AppliedNodePortTakenReason, message, generation)
}

// Progressing returns the condition of a Work that is not done yet. Reason is
// ApplyingReason or RollingOutReason; message names what is being waited for.
func Progressing(generation int64, reason, message string) metav1.Condition {
	return condition(WorkProgressing, metav1.ConditionTrue, reason, message, generation)
}

// Progressed returns the condition of a Work that is done.
func Progressed(generation int64) metav1.Condition {
	return condition(WorkProgressing, metav1.ConditionFalse, RolloutFinishedReason,
		"All resources of the Work are applied and rolled out", generation)
}

// Available returns the condition of a Work whose objects all exist in the member.
func Available(generation int64) metav1.Condition {
	return condition(WorkAvailable, metav1.ConditionTrue, ResourcesAvailableReason, ResourcesAvailableMessage, generation)
}

// NotAvailable returns the condition of a Work some of whose objects do not exist
// in the member; message names them.
func NotAvailable(generation int64, message string) metav1.Condition {
	return condition(WorkAvailable, metav1.ConditionFalse, ResourcesMissingReason, message, generation)
}

// AvailabilityUnknown returns the condition of a Work whose member cannot be
// seen; message states since when or why.
func AvailabilityUnknown(generation int64, message string) metav1.Condition {
	return condition(WorkAvailable, metav1.ConditionUnknown, ClusterUnreachableReason, message, generation)
}

// Degraded returns the condition of a Work some of whose objects have been
// unhealthy for too long; message names them.
func Degraded(generation int64, message string) metav1.Condition {
	return condition(WorkDegraded, metav1.ConditionTrue, ResourcesUnhealthyReason, message, generation)
}

// NotDegraded returns the condition of a Work none of whose objects has been unhealthy for long.
func NotDegraded(generation int64) metav1.Condition {
	return condition(WorkDegraded, metav1.ConditionFalse, ResourcesHealthyReason,
		"No resource of the Work has been unhealthy for long", generation)
}

// Dispatching returns the condition of a Work that is being written to its member.
func Dispatching(generation int64) metav1.Condition {
	return condition(WorkDispatching, metav1.ConditionTrue, DispatchingReason, DispatchingMessage, generation)
}

// DispatchingSuspended returns the condition of a Work that is not being written to its member.
func DispatchingSuspended(generation int64) metav1.Condition {
	return condition(WorkDispatching, metav1.ConditionFalse, SuspendDispatchingReason, SuspendDispatchingMessage, generation)
}

// DispatchingHeld returns the condition of a Work that is not written to its member, because nothing is: the Cluster has the condition
// DispatchingHeld.
func DispatchingHeld(generation int64) metav1.Condition {
	return condition(WorkDispatching, metav1.ConditionFalse, DispatchingHeldReason,
		"Nothing is written to the cluster: the condition DispatchingHeld of the Cluster has the reason, and how to go on", generation)
}

// Drifted returns the condition of a Work whose objects differ from their manifests. Reason is one of the Drift reasons.
func Drifted(generation int64, reason string) metav1.Condition {
	return condition(WorkDrifted, metav1.ConditionTrue, reason, map[string]string{
		DriftPausedReason:   "Fields were changed by others: nothing is written to the object until that is acknowledged. See flagship drift",
		DriftReportedReason: "Fields differ, and stay so by the policy. See flagship drift",
		DriftDisputedReason: "Fields are changed by others as often as they are put back. See flagship drift",
		DriftLeftReason:     "Fields belong to other managers, and are left to them. See flagship drift",
	}[reason], generation)
}

func condition(kind string, status metav1.ConditionStatus, reason, message string, generation int64) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: generation}
}
