package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition types of a Cluster.
const (
	// ClusterConditionReady is True while the cluster's API server answers that it is ready.
	ClusterConditionReady = "Ready"
	// ClusterConditionCompleteAPIEnablements is True while status.apiEnablements lists everything the cluster serves.
	ClusterConditionCompleteAPIEnablements = "CompleteAPIEnablements"
	// ServiceDomainNameResolutionReady tells whether service names resolve in the cluster; set by outside detectors.
	ServiceDomainNameResolutionReady = "ServiceDomainNameResolutionReady"
)

// Reasons of the Ready condition.
const (
	ClusterReadyReason              = "ClusterReady"
	ClusterNotReadyReason           = "ClusterNotReady"
	ClusterNotReachableReason       = "ClusterNotReachable"
	StatusCollectionFailedReason    = "StatusCollectionFailed"
	ClusterStatusUnknownReason      = "ClusterStatusUnknown"
	ClusterStatusNeverUpdatedReason = "ClusterStatusNeverUpdated"
)

// Reasons of the CompleteAPIEnablements condition.
const (
	APIEnablementsCompleteReason = "Complete"
	APIEnablementsPartialReason  = "Partial"
	APIEnablementsEmptyReason    = "Empty"
)

// The constructors below leave LastTransitionTime to meta.SetStatusCondition.

// Ready returns the condition of a cluster that answers and is ready.
func Ready() metav1.Condition {
	return condition(ClusterConditionReady, metav1.ConditionTrue, ClusterReadyReason, "the cluster is ready")
}

// NotReady returns the condition of a cluster that is not ready. Reason is one
// of the reasons of the Ready condition; message says what was seen.
func NotReady(reason, message string) metav1.Condition {
	return condition(ClusterConditionReady, metav1.ConditionFalse, reason, message)
}

// ReadinessUnknown returns the condition of a cluster that nothing is known
// about. Reason is one of the reasons of the Ready condition.
func ReadinessUnknown(reason, message string) metav1.Condition {
	return condition(ClusterConditionReady, metav1.ConditionUnknown, reason, message)
}

// APIEnablementsComplete returns the condition of a cluster whose API list is whole.
func APIEnablementsComplete() metav1.Condition {
	return condition(ClusterConditionCompleteAPIEnablements, metav1.ConditionTrue, APIEnablementsCompleteReason,
		"every API of the cluster is listed")
}

// APIEnablementsPartial returns the condition of a cluster some of whose APIs
// could not be listed; message names them.
func APIEnablementsPartial(message string) metav1.Condition {
	return condition(ClusterConditionCompleteAPIEnablements, metav1.ConditionFalse, APIEnablementsPartialReason, message)
}

// APIEnablementsEmpty returns the condition of a cluster whose APIs could not be listed at all.
func APIEnablementsEmpty(message string) metav1.Condition {
	return condition(ClusterConditionCompleteAPIEnablements, metav1.ConditionFalse, APIEnablementsEmptyReason, message)
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}
