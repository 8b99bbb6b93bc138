package v1alpha1

import "k8s.io/apimachinery/pkg/api/meta"

// Annotations on Works that are being deleted, written by who deletes them. They reach the agent of a cluster in Pull mode as well.
const (
	// LastCopyAnnotation set to "true" says that the template stays, and that no other cluster has a healthy copy.
	LastCopyAnnotation = "flagship.io/last-copy"
	// RemovalWithdrawnAnnotation set to "true" says that the objects belong in the cluster again: they stay, and the next Work has them.
	RemovalWithdrawnAnnotation = "flagship.io/removal-withdrawn"
)

// IsLastCopy returns whether a Work has the last copy of a template that stays.
func IsLastCopy(work *Work) bool { return work.Annotations[LastCopyAnnotation] == "true" }

// IsWithdrawn returns whether the objects of a Work that is being deleted stay for the next Work.
func IsWithdrawn(work *Work) bool { return work.Annotations[RemovalWithdrawnAnnotation] == "true" }

// AwaitsBrake returns whether the removal of the objects of a Work waits for the brake of its cluster.
func AwaitsBrake(work *Work) bool {
	applied := meta.FindStatusCondition(work.Status.Conditions, WorkApplied)
	return work.DeletionTimestamp != nil && applied != nil && applied.Reason == AppliedBrakedReason
}

// MayWithdraw returns whether the removal of the objects of a Work waits, so that it can be withdrawn. Otherwise who makes a template again
// expects a new object: a Job that is made again has to run again.
func MayWithdraw(work *Work) bool {
	return AwaitsBrake(work) || work.DeletionTimestamp != nil && IsLastCopy(work)
}
