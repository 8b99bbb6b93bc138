package v1alpha1

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Namespaces of the system.
const (
	// SystemNamespace is where components live, on the control plane and in members.
	SystemNamespace = "karmada-system"
	// ClusterNamespace is where credentials and leases of clusters live; in members it holds our service accounts.
	ClusterNamespace = "karmada-cluster"
)

// SystemLabel set to SystemLabelValue marks namespaces and other objects that the system made for itself.
const (
	SystemLabel      = "karmada.io/system"
	SystemLabelValue = "true"
)

// BootstrappingLabel set to BootstrappingRBACDefaults marks RBAC objects that the control plane puts in place.
const (
	BootstrappingLabel        = "karmada.io/bootstrapping"
	BootstrappingRBACDefaults = "rbac-defaults"
)

// CachedFromClusterAnnotation is the cluster that an object comes from, in the answer to a request that reads from several clusters.
const CachedFromClusterAnnotation = "resource.karmada.io/cached-from-cluster"

// ClusterFinalizer keeps a Cluster until its Works and its execution namespace are gone.
const ClusterFinalizer = "karmada.io/cluster-controller"

// OnRemovalAnnotation on a Cluster is what happens to the objects in the cluster when the Cluster is deleted. With
// OnRemovalDeleteObjects they are deleted. Without the annotation, and with any other value, they stay and lose the labels
// and annotations of the control plane.
const (
	OnRemovalAnnotation    = "flagship.io/on-removal"
	OnRemovalDeleteObjects = "DeleteObjects"
)

// DeletesObjects returns whether the deletion of a Cluster also deletes the objects in the cluster.
func DeletesObjects(cluster *Cluster) bool {
	return cluster.Annotations[OnRemovalAnnotation] == OnRemovalDeleteObjects
}

// Annotations on a Cluster by which a person releases its brake. Times are in RFC 3339.
const (
	// BrakeReleasedUntilAnnotation lets removals and shrinkages in the cluster pass until the time it holds. A time that is
	// over, or more than a day away, has no effect.
	BrakeReleasedUntilAnnotation = "flagship.io/brake-released-until"
	// BrakeKeepBeforeAnnotation ends the wait of Works that were deleted at or before the time it holds, without removing
	// their objects: these stay in the cluster as they are, and belong to a later Work of the same name.
	BrakeKeepBeforeAnnotation = "flagship.io/brake-keep-objects-before"
)

// Annotations on a Cluster by which a person decides about evictions. Times are in RFC 3339.
const (
	// EvictionsReleasedUntilAnnotation has objects evicted from the cluster, whether the condition EvictionHeld is True or not, until the
	// time it holds. A time that is over, or more than MaxEvictionRelease away, has no effect.
	EvictionsReleasedUntilAnnotation = "flagship.io/evictions-released-until"
	// FencedAnnotation confirms that nothing that the control plane sent to the cluster runs there any more: the machines are off,
	// or its volumes and credentials are taken away. It counts if it is not before the time at which the cluster failed.
	FencedAnnotation = "flagship.io/fenced"
)

// MaxEvictionRelease is the longest time for which evictions can be released at once.
const MaxEvictionRelease = 24 * time.Hour

// EvictionsReleasedUntil is the time in EvictionsReleasedUntilAnnotation; the zero time without one.
func EvictionsReleasedUntil(cluster *Cluster) time.Time {
	return timeIn(cluster, EvictionsReleasedUntilAnnotation)
}

// IsFenced returns whether a cluster is not ready, and a person has confirmed since then that nothing runs there any more.
func IsFenced(cluster *Cluster) bool {
	ready := meta.FindStatusCondition(cluster.Status.Conditions, ClusterConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return false
	}
	confirmed := timeIn(cluster, FencedAnnotation)
	return !confirmed.IsZero() && !confirmed.Before(ready.LastTransitionTime.Time)
}

// HoldDispatchingAnnotation on a Cluster has the control plane write nothing to the cluster and delete nothing there while the annotation
// is present. Its value states why, for people.
const HoldDispatchingAnnotation = "flagship.io/hold-dispatching"

// ResumeDispatchingAnnotation on a Cluster lets the control plane write to the cluster again after it was restored from a
// backup. It holds a time in RFC 3339, which is not before that of the condition DispatchingHeld.
const ResumeDispatchingAnnotation = "flagship.io/resume-dispatching"

// ResumeOperationsAnnotation on a Cluster lets the control plane make some kinds of writes while the condition DispatchingHeld is True. It holds
// a time in RFC 3339, which is not before that of the condition, a space, and some of the operations, separated by commas.
const ResumeOperationsAnnotation = "flagship.io/resume-operations"

// Operations in ResumeOperationsAnnotation.
const (
	// ResumeCreate makes what the cluster lacks.
	ResumeCreate = "create"
	// ResumeChange makes what differs in the cluster as the control plane has it, newer objects included.
	ResumeChange = "change"
	// ResumeDelete deletes what the control plane made and does not apply in the cluster any more. Orphans stay.
	ResumeDelete = "delete"
)

// ResumedOperations are those in ResumeOperationsAnnotation, and when they were allowed; the zero time without one.
func ResumedOperations(cluster *Cluster) (at time.Time, operations []string) {
	when, which, _ := strings.Cut(cluster.Annotations[ResumeOperationsAnnotation], " ")
	return timeOf(when), strings.Split(which, ",")
}

// ResumedAt is the time in ResumeDispatchingAnnotation; the zero time without one.
func ResumedAt(cluster *Cluster) time.Time {
	return timeIn(cluster, ResumeDispatchingAnnotation)
}

// BrakeReleasedUntil is the time in BrakeReleasedUntilAnnotation; the zero time without one.
func BrakeReleasedUntil(cluster *Cluster) time.Time {
	return timeIn(cluster, BrakeReleasedUntilAnnotation)
}

// BrakeKeepBefore is the time in BrakeKeepBeforeAnnotation; the zero time without one.
func BrakeKeepBefore(cluster *Cluster) time.Time {
	return timeIn(cluster, BrakeKeepBeforeAnnotation)
}

func timeIn(cluster *Cluster, annotation string) time.Time {
	return timeOf(cluster.Annotations[annotation])
}

// timeOf reads a time in an annotation. What is no time counts as none, since acting on it would remove objects.
func timeOf(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// ApplyAsAnnotation, on a Cluster, names the ServiceAccount as which objects are written in the member: the one of that name
// in the namespace of each object. The member's RBAC then decides about every write and deletion. The control plane's own
// account impersonates it, and writes only what has no namespace. On a propagation policy the annotation holds for what the
// policy propagates, to clusters that do not name an account themselves. Absent: objects are written as the control plane.
const ApplyAsAnnotation = "flagship.io/apply-as"

// Taints of clusters.
const (
	// TaintClusterNotReady is put on a cluster that answers but is not ready.
	TaintClusterNotReady = "cluster.karmada.io/not-ready"
	// TaintClusterUnreachable is put on a cluster that nothing is known about.
	TaintClusterUnreachable = "cluster.karmada.io/unreachable"
	// TaintClusterUnscheduler is put on a cluster that a person has cordoned.
	TaintClusterUnscheduler = "cluster.karmada.io/unschedulable"
)

// IsConditionTaint returns whether a taint follows from the Ready condition. One of the same key and another effect does not.
func IsConditionTaint(key string, effect corev1.TaintEffect) bool {
	return effect == corev1.TaintEffectNoSchedule && (key == TaintClusterNotReady || key == TaintClusterUnreachable)
}

// Keys of the Secrets that hold credentials for a cluster.
const (
	SecretTokenKey  = "token"
	SecretCADataKey = "caBundle"
	// SecretRenewalTokenKey holds a token without expiry of the same account. It is used only to request new tokens, when the
	// cluster does not accept the token.
	SecretRenewalTokenKey = "renewalToken"
	impersonatorInfix     = "-impersonator"
)

// MaxClusterNameLength is the longest name a cluster may have, so that names derived from it stay legal.
const MaxClusterNameLength = 48

// ImpersonatorSecretName returns the name of the Secret with the credential
// that may only impersonate users in the cluster.
func ImpersonatorSecretName(cluster string) string { return cluster + impersonatorInfix }

const (
	// OperatorsGroup is the group of the user in the control plane's default kubeconfig. Its rights come from the
	// ClusterRoleBinding of the same name, which is made once, and can be changed or deleted like any other.
	OperatorsGroup = "flagship:operators"
	// OperatorUser is that user.
	OperatorUser = "flagship:operator"
)
