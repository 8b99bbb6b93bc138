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
	// ClusterConditionResourcesReadable is there, and False, only while the control plane cannot read what it needs of the cluster: it
	// lacks the rights, or the cluster sends too much. If that concerns nodes or pods, status.nodeSummary and status.resourceSummary are
	// absent then.
	ClusterConditionResourcesReadable = "ResourcesReadable"
	// ClusterConditionClockInSync is there, and False, only while the clock of the cluster differs from that of the control plane by more
	// than a minute. Nothing else follows from it.
	ClusterConditionClockInSync = "ClockInSync"
	// ServiceDomainNameResolutionReady reports whether service names resolve in the cluster. Detectors outside of Flagship set it.
	ServiceDomainNameResolutionReady = "ServiceDomainNameResolutionReady"
	// ClusterConditionBrakeEngaged is True while removals and shrinkages in the cluster wait because there were too many at
	// once. Absent until that happens for the first time.
	ClusterConditionBrakeEngaged = "BrakeEngaged"
	// ClusterConditionDispatchingHeld is True while nothing is written to the cluster, because a later state of the
	// control plane has written to it (this one was restored from a backup, or another one was and goes on), or because the annotation
	// HoldDispatchingAnnotation holds it. Absent until that happens for the first time.
	ClusterConditionDispatchingHeld = "DispatchingHeld"
	// ClusterConditionEvictionHeld is True while objects that are to leave the cluster, since it fails, stay for the safety of the
	// fleet. Absent until that happens for the first time.
	ClusterConditionEvictionHeld = "EvictionHeld"
)

// Reasons of the EvictionHeld condition, besides FleetShareExceededReason and NothingWaitsReason.
const (
	// ControlPlaneSuspectReason: the control plane may be what fails, and observes the clusters for a while.
	ControlPlaneSuspectReason = "ControlPlaneSuspect"
	// ZoneDisruptedReason: too many clusters of the same zone are not ready.
	ZoneDisruptedReason = "ZoneDisrupted"
)

// Reasons of the DispatchingHeld condition.
const (
	ControlPlaneRestoredReason = "ControlPlaneRestored"
	HeldByAnnotationReason     = "HeldByAnnotation"
	DispatchingResumedReason   = "DispatchingResumed"
)

// Reasons of the BrakeEngaged condition.
const (
	// MemberShareExceededReason: too many of the cluster's own objects.
	MemberShareExceededReason = "MemberShareExceeded"
	// FleetShareExceededReason: too many of the objects of all clusters together.
	FleetShareExceededReason = "FleetShareExceeded"
	// BrakeReleasedReason: a person released the brake.
	BrakeReleasedReason = "Released"
	// NothingWaitsReason: nothing waited for a whole window.
	NothingWaitsReason = "NothingWaits"
)

// Reasons of the Ready condition.
const (
	ClusterReadyReason              = "ClusterReady"
	ClusterNotReadyReason           = "ClusterNotReady"
	ClusterNotReachableReason       = "ClusterNotReachable"
	StatusCollectionFailedReason    = "StatusCollectionFailed"
	ClusterStatusUnknownReason      = "ClusterStatusUnknown"
	ClusterStatusNeverUpdatedReason = "ClusterStatusNeverUpdated"
	// CredentialsNotUsableReason: the Secret with the credential does not exist, is in another namespace than
	// karmada-cluster, or is not owned by the Cluster.
	CredentialsNotUsableReason = "CredentialsNotUsable"
	// ClusterAddressChangedReason: the address of the cluster, its proxy or how it is verified changed after the cluster
	// joined. The credential is not sent there until the cluster joins again.
	ClusterAddressChangedReason = "ClusterAddressChanged"
	// ClusterIDMismatchReason: the cluster at spec.apiEndpoint is another one than that of spec.id.
	ClusterIDMismatchReason = "ClusterIDMismatch"
	// EndpointNotAllowedReason: spec.apiEndpoint or spec.proxyURL leads to an address that the control plane does not
	// connect to, such as a loopback address, or is not https.
	EndpointNotAllowedReason = "EndpointNotAllowed"
	// CredentialsExpiredReason: the credential has expired and could not be renewed.
	CredentialsExpiredReason = "CredentialsExpired"
	// CredentialsRefusedReason: the cluster refuses a credential that has not expired.
	CredentialsRefusedReason = "CredentialsRefused"
	// CredentialsLackRightsReason: the cluster accepts the credential, which may not read what identifies the cluster. Its rights were
	// removed, or were never granted.
	CredentialsLackRightsReason = "CredentialsLackRights"
)

// Reasons of the CompleteAPIEnablements condition.
const (
	APIEnablementsCompleteReason = "Complete"
	APIEnablementsPartialReason  = "Partial"
	APIEnablementsEmptyReason    = "Empty"
)

// Reasons of the ResourcesReadable condition.
const (
	// ResourcesForbiddenReason: the cluster does not let the control plane list nodes or pods.
	ResourcesForbiddenReason = "Forbidden"
	// ResourcesTooManyReason: the cluster sends more than the control plane keeps or stores: nodes, pods, managed objects, exports, records or others.
	ResourcesTooManyReason = "TooMany"
)

// ClockDiffersReason is the reason of the ClockInSync condition.
const ClockDiffersReason = "ClockDiffers"

// The constructors below leave LastTransitionTime to meta.SetStatusCondition.

// Ready returns the condition of a cluster that answers and is ready.
func Ready() metav1.Condition {
	return condition(ClusterConditionReady, metav1.ConditionTrue, ClusterReadyReason, "the cluster is ready")
}

// NotReady returns the condition of a cluster that is not ready. Reason is one
// of the reasons of the Ready condition; message states what was seen.
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

// BrakeEngaged returns the condition of a cluster whose removals wait. Reason is MemberShareExceededReason or
// FleetShareExceededReason; message states how many objects are concerned and what to do.
func BrakeEngaged(reason, message string) metav1.Condition {
	return condition(ClusterConditionBrakeEngaged, metav1.ConditionTrue, reason, message)
}

// BrakeNotEngaged returns the condition of a cluster whose removals wait no longer. Reason is BrakeReleasedReason or
// NothingWaitsReason.
func BrakeNotEngaged(reason, message string) metav1.Condition {
	return condition(ClusterConditionBrakeEngaged, metav1.ConditionFalse, reason, message)
}

// EvictionHeld returns the condition of a cluster whose objects stay though they are to leave; message states why and what to do.
func EvictionHeld(reason, message string) metav1.Condition {
	return condition(ClusterConditionEvictionHeld, metav1.ConditionTrue, reason, message)
}

// EvictionNotHeld returns the condition of a cluster whose objects are not held any more.
func EvictionNotHeld() metav1.Condition {
	return condition(ClusterConditionEvictionHeld, metav1.ConditionFalse, NothingWaitsReason, "no eviction from the cluster waits")
}

// DispatchingHeld returns the condition of a cluster that nothing is written to, for ControlPlaneRestoredReason or
// HeldByAnnotationReason; message states what to do.
func DispatchingHeld(reason, message string) metav1.Condition {
	return condition(ClusterConditionDispatchingHeld, metav1.ConditionTrue, reason, message)
}

// DispatchingResumed returns the condition of a cluster that is written to again.
func DispatchingResumed() metav1.Condition {
	return condition(ClusterConditionDispatchingHeld, metav1.ConditionFalse, DispatchingResumedReason, "A person resumed writing to the cluster")
}

// ResourcesNotReadable returns the condition of a cluster whose nodes or pods the control plane may not read; message has the
// cluster's words.
func ResourcesNotReadable(message string) metav1.Condition {
	return condition(ClusterConditionResourcesReadable, metav1.ConditionFalse, ResourcesForbiddenReason,
		"the cluster has no summary of nodes and resources, because the control plane may not read them: "+message)
}

// ResourcesNotCounted returns the condition of a cluster that sends more than is kept; message states of what, and how much is.
func ResourcesNotCounted(message string) metav1.Condition {
	return condition(ClusterConditionResourcesReadable, metav1.ConditionFalse, ResourcesTooManyReason,
		"what the cluster sends is not read in full: "+message)
}

// ClockDiffers returns the condition of a cluster whose clock is off; how is such as "1h0m ahead of".
func ClockDiffers(how string) metav1.Condition {
	return condition(ClusterConditionClockInSync, metav1.ConditionFalse, ClockDiffersReason,
		"the clock of the cluster is "+how+" that of the control plane: check how both set their time")
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}
