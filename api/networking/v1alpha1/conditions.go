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

// ServiceAppliedCondition returns the verdict on the Service: err says why it is
// not in its clusters, nil that it is. LastTransitionTime is left to
// meta.SetStatusCondition.
func ServiceAppliedCondition(generation int64, err error) metav1.Condition {
	if err != nil {
		return condition(MCSServiceAppliedConditionType, metav1.ConditionFalse, ServiceAppliedFailedReason, err.Error(), generation)
	}
	return condition(MCSServiceAppliedConditionType, metav1.ConditionTrue, ServiceAppliedSucceedReason,
		"the service is in its clusters", generation)
}

// EndpointSliceDispatchedCondition returns the verdict on the endpoints: err says
// why they are not in the consuming clusters, nil that they are.
// LastTransitionTime is left to meta.SetStatusCondition.
func EndpointSliceDispatchedCondition(generation int64, err error) metav1.Condition {
	if err != nil {
		return condition(EndpointSliceDispatched, metav1.ConditionFalse, EndpointSliceDispatchedFailedReason, err.Error(), generation)
	}
	return condition(EndpointSliceDispatched, metav1.ConditionTrue, EndpointSliceDispatchedSucceedReason,
		"the endpoints are in the consuming clusters", generation)
}

func condition(kind string, status metav1.ConditionStatus, reason, message string, generation int64) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: generation}
}
