package v1alpha2

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition types of a binding.
const (
	// Scheduled is True once the present spec has been given clusters. Owned by schedule.
	Scheduled = "Scheduled"
	// FullyApplied is True once every cluster has applied its Work. Owned by aggregate.
	FullyApplied = "FullyApplied"
	// Rendered is False while an override cannot be applied for some cluster, the template cannot be put in terms that the
	// cluster serves, or the binding names an object that it must not carry; the cluster then keeps the Work it has. It does
	// not exist otherwise. Owned by render.
	Rendered = "Rendered"
	// StatePreserved is False while an unhealthy application stays in its cluster because a move would lose its state: what its policy
	// requires to be preserved cannot be read, or it has persistent volumes. It does not exist otherwise. Owned by appfailover.
	StatePreserved = "StatePreserved"
	// EvictionHeld is True while a copy stays in a cluster that the object is to leave, longer than its policy intends. It does not
	// exist otherwise. Owned by evict.
	EvictionHeld = "EvictionHeld"
	// DivisionWarning is True while the policy divides what cannot be divided as it is. It does not exist otherwise. Owned by schedule.
	DivisionWarning = "DivisionWarning"
	// Drifted is True while copies differ from what is desired in their clusters. It does not exist otherwise. Owned by aggregate.
	Drifted = "Drifted"
)

// CopiesDifferReason is the reason of the Drifted condition.
const CopiesDifferReason = "CopiesDiffer"

// Reasons of the DivisionWarning condition.
const (
	// NamesRepeatReason: the replicas have names, which begin anew in each cluster.
	NamesRepeatReason = "NamesRepeat"
	// ReplicasUnknownReason: how many replicas there are is not known, so that each cluster has all of them.
	ReplicasUnknownReason = "ReplicasUnknown"
)

// maxDriftedNames is how many clusters the message of the Drifted condition names.
const maxDriftedNames = 5

// Reasons of the EvictionHeld condition.
const (
	// NothingFitsReason: the scheduler finds no other place.
	NothingFitsReason = "NothingFits"
	// LastCopyReason: no copy elsewhere is healthy though the grace period is over.
	LastCopyReason = "LastCopy"
	// AwaitsEndReason: the policy is exclusive, and the end of the copy is neither confirmed by the cluster nor by a person.
	AwaitsEndReason = "AwaitsEnd"
	// HandoverNotAllowedReason: the object has persistent volumes, and the policy does not say that it may move.
	HandoverNotAllowedReason = "HandoverNotAllowed"
)

// StateNotReadableReason: a rule of statePreservation yields no label; the message names the rule.
const StateNotReadableReason = "StateNotReadable"

// Reasons of the Rendered condition; the first of them if several are the case.
const (
	// ForbiddenReason reports that a Work would carry an object that is not the binding's own template, or one that is never a
	// template.
	ForbiddenReason         = "Forbidden"
	OverrideFailedReason    = "OverrideFailed"
	TranslationFailedReason = "TranslationFailed"
	// ManifestTooLargeReason: the template, as this cluster should have it, is larger than a Work may be.
	ManifestTooLargeReason = "ManifestTooLarge"
	// WorkRefusedReason: the API server refuses the Work; the message states why.
	WorkRefusedReason = "WorkRefused"
	// NamespaceLimitReason: the namespace is at the limit of what may be stored for it, so that a Work of the binding was not
	// created or not made larger. It is tried again when there is space.
	NamespaceLimitReason = "NamespaceLimitReached"
)

// StatusCurrent is a condition on templates of kinds that have conditions: False while the status of some copy is the
// last one seen rather than the present one, because its cluster cannot be reached. It does not exist otherwise. Owned by
// aggregate.
const StatusCurrent = "StatusCurrent"

// ClusterStatusUnknownReason is the reason of StatusCurrent, and of other conditions of a template that are unknown
// for the same reason.
const ClusterStatusUnknownReason = "ClusterStatusUnknown"

// Reasons of the Scheduled condition.
const (
	BindingReasonSuccess        = "Success"
	BindingReasonSchedulerError = "SchedulerError"
	BindingReasonNoClusterFit   = "NoClusterFit"
	BindingReasonUnschedulable  = "Unschedulable"
	BindingReasonQuotaExceeded  = "QuotaExceeded"
)

// Reasons of the FullyApplied condition.
const (
	FullyAppliedSuccessReason = "FullyAppliedSuccess"
	FullyAppliedFailedReason  = "FullyAppliedFailed"
)

// Messages that are part of the contract.
const (
	FullyAppliedSuccessMessage = "All works have been successfully applied"
	FullyAppliedFailedMessage  = "Failed to apply all works, see status.aggregatedStatus for details"
	ScheduleSuccessMessage     = "Binding has been scheduled successfully."
)

// The constructors below leave LastTransitionTime to meta.SetStatusCondition.
// Generation is that of the binding which the verdict is about.

// ScheduledCondition returns the condition of a binding that has its clusters.
func ScheduledCondition(generation int64, message string) metav1.Condition {
	return condition(Scheduled, metav1.ConditionTrue, BindingReasonSuccess, message, generation)
}

// NotScheduledCondition returns the condition of a binding that could not be
// given clusters. Reason is one of the BindingReason constants; message states why.
func NotScheduledCondition(generation int64, reason, message string) metav1.Condition {
	return condition(Scheduled, metav1.ConditionFalse, reason, message, generation)
}

// FullyAppliedCondition returns the condition of a binding whose Works are all applied.
func FullyAppliedCondition(generation int64) metav1.Condition {
	return condition(FullyApplied, metav1.ConditionTrue, FullyAppliedSuccessReason, FullyAppliedSuccessMessage, generation)
}

// NotFullyAppliedCondition returns the condition of a binding some of whose Works are not applied.
func NotFullyAppliedCondition(generation int64) metav1.Condition {
	return condition(FullyApplied, metav1.ConditionFalse, FullyAppliedFailedReason, FullyAppliedFailedMessage, generation)
}

// DivisionWarningCondition returns the condition of a binding whose policy divides what cannot be divided as it is.
func DivisionWarningCondition(generation int64, reason, message string) metav1.Condition {
	return condition(DivisionWarning, metav1.ConditionTrue, reason, message, generation)
}

// NotRenderedCondition returns the condition of a binding some of whose Works are not what the template and the override
// policies ask for; message names the cluster and what is in the way.
func NotRenderedCondition(generation int64, reason, message string) metav1.Condition {
	return condition(Rendered, metav1.ConditionFalse, reason, message, generation)
}

// StateNotPreservedCondition returns the condition of a binding whose application stays in a cluster since a move would lose its state.
func StateNotPreservedCondition(generation int64, reason, message string) metav1.Condition {
	return condition(StatePreserved, metav1.ConditionFalse, reason, message, generation)
}

// EvictionHeldCondition returns the condition of a binding with a copy that stays though it is to leave.
func EvictionHeldCondition(generation int64, reason, message string) metav1.Condition {
	return condition(EvictionHeld, metav1.ConditionTrue, reason, message, generation)
}

// DriftedCondition returns the condition of a binding whose copies in these clusters differ, the first of them since a time, which is that of
// the condition.
func DriftedCondition(generation int64, clusters []string, oldest time.Time) metav1.Condition {
	named := strings.Join(clusters[:min(len(clusters), maxDriftedNames)], ", ")
	if more := len(clusters) - maxDriftedNames; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	c := condition(Drifted, metav1.ConditionTrue, CopiesDifferReason, fmt.Sprintf("driftedObjects: %d, oldest: %s, clusters: %s",
		len(clusters), oldest.UTC().Format(time.RFC3339), named), generation)
	c.LastTransitionTime = metav1.NewTime(oldest)
	return c
}

func condition(kind string, status metav1.ConditionStatus, reason, message string, generation int64) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: generation}
}
