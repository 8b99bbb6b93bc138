package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition types of a MultiClusterService.
const (
	// MCSServiceAppliedConditionType is True once the Service is in its clusters.
	MCSServiceAppliedConditionType = "ServiceApplied"
	// EndpointSliceDispatched is True once the endpoints are in the consuming clusters.
	EndpointSliceDispatched = "EndpointSliceDispatched"
)

// Reasons of those conditions.
const (
	ServiceAppliedSucceedReason          = "ServiceAppliedSucceed"
	ServiceAppliedFailedReason           = "ServiceAppliedFailed"
	EndpointSliceDispatchedSucceedReason = "EndpointSliceDispatchedSucceed"
	EndpointSliceDispatchedFailedReason  = "EndpointSliceDispatchedFailed"
)

// ServiceApplied reports that the Service is in its clusters; message names them.
// LastTransitionTime is left to meta.SetStatusCondition, here and below.
func ServiceApplied(generation int64, message string) metav1.Condition {
	return condition(MCSServiceAppliedConditionType, metav1.ConditionTrue, ServiceAppliedSucceedReason, message, generation)
}

// ServiceNotApplied reports in which clusters the Service is not, and why.
func ServiceNotApplied(generation int64, message string) metav1.Condition {
	return condition(MCSServiceAppliedConditionType, metav1.ConditionFalse, ServiceAppliedFailedReason, message, generation)
}

// EndpointSlicesDispatched reports that the endpoints of every provider are in every
// consumer; message names them.
func EndpointSlicesDispatched(generation int64, message string) metav1.Condition {
	return condition(EndpointSliceDispatched, metav1.ConditionTrue, EndpointSliceDispatchedSucceedReason, message, generation)
}

// EndpointSlicesNotDispatched reports which endpoints are missing in which clusters, and why.
func EndpointSlicesNotDispatched(generation int64, message string) metav1.Condition {
	return condition(EndpointSliceDispatched, metav1.ConditionFalse, EndpointSliceDispatchedFailedReason, message, generation)
}

func condition(kind string, status metav1.ConditionStatus, reason, message string, generation int64) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: generation}
}
