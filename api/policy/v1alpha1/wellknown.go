package v1alpha1

import (
	"strconv"
	"time"
)

// Labels that claim an object for a policy. The value is the policy's permanent
// id (a UUID, stamped once on the policy itself under the same key).
const (
	// PropagationPolicyPermanentIDLabel is on a PropagationPolicy, on the templates it claimed and on their bindings.
	PropagationPolicyPermanentIDLabel = "propagationpolicy.karmada.io/permanent-id"
	// ClusterPropagationPolicyPermanentIDLabel is on a ClusterPropagationPolicy, on the templates it claimed and on their bindings.
	ClusterPropagationPolicyPermanentIDLabel = "clusterpropagationpolicy.karmada.io/permanent-id"
)

// Annotations that say by name which policy claimed a template or binding.
const (
	PropagationPolicyNamespaceAnnotation   = "propagationpolicy.karmada.io/namespace"
	PropagationPolicyNameAnnotation        = "propagationpolicy.karmada.io/name"
	ClusterPropagationPolicyNameAnnotation = "clusterpropagationpolicy.karmada.io/name"
)

// Annotations of a policy for what its placement has no field for; its bindings have them too.
const (
	// PartialPlacementAnnotation set to "true" places the replicas that fit when not all do.
	PartialPlacementAnnotation = "flagship.io/partial-placement"
	// SpreadStaticWeightsAnnotation set to "true" has spread constraints hold where a staticWeightList divides the replicas, too.
	SpreadStaticWeightsAnnotation = "flagship.io/spread-static-weights"
	// MembersIndependentAnnotation set to "true" says that the pods of a StatefulSet, or of another kind whose pods have names, may be
	// divided though each cluster names its own from the first name on: they are independent sets.
	MembersIndependentAnnotation = "flagship.io/members-independent"
	// FailbackAnnotation lets an object return to an earlier term of clusterAffinities once it fits there again: "true" at
	// once, a duration such as "10m" after it has fitted for that long.
	FailbackAnnotation = "flagship.io/failback"
	// KeepUnselectedAnnotation set to "true" keeps copies where they are when the placement selects no cluster any more.
	KeepUnselectedAnnotation = "flagship.io/keep-unselected"
	// PurgeModeAnnotation set to "Directly" removes a copy at the old place at once when the object moves to other clusters.
	// Anything else means "Gracefully", the default: the old copy stays until every new one is healthy, or its time is up.
	PurgeModeAnnotation = "flagship.io/purge-mode"
	// DescheduleAnnotation set to "true" moves replicas of a Deployment that is divided by available replicas out of a cluster in which
	// their pods cannot be scheduled.
	DescheduleAnnotation = "flagship.io/deschedule"
	// DriftAnnotation is what happens to fields of objects in members that others change; DriftRepair is the default. Their Works have it
	// too.
	DriftAnnotation = "flagship.io/drift"
	// DriftRepair puts them back.
	DriftRepair = "Repair"
	// DriftReport leaves them as they are; other changes of the template are applied.
	DriftReport = "Report"
	// DriftPause writes nothing to the object until the template has DriftAcknowledgedAnnotation; then they are put back.
	DriftPause = "Pause"
	// DriftCreateOnly creates objects that do not exist, and never updates one.
	DriftCreateOnly = "CreateOnly"
	// DriftObserveOnly writes nothing to objects, and collects their status. They need not be managed.
	DriftObserveOnly = "ObserveOnly"
	// DriftIgnoreAnnotation names fields of objects that keep the value which they have in a member. They are separated by commas or lines, and
	// each is a JSON pointer in which `*` is any field or item. Works have it, too.
	DriftIgnoreAnnotation = "flagship.io/drift-ignore"
	// HandoverAnnotation is how objects move out of a cluster that fails: HandoverExclusive creates the new copy only after the
	// end of the old one is certain, HandoverOverlap may run both for a while. Objects with persistent volumes move only with one
	// of them; for others HandoverOverlap is the default.
	HandoverAnnotation = "flagship.io/handover"
	HandoverExclusive  = "Exclusive"
	HandoverOverlap    = "Overlap"
	// ClusterFailbackAnnotation is whether an object returns to a cluster that it left because the cluster failed. Absent means
	// ClusterFailbackNever.
	ClusterFailbackAnnotation = "flagship.io/cluster-failback"
	ClusterFailbackNever      = "Never"
	// ClusterFailbackWhenHealthy: once the cluster has been ready for the time in ClusterFailbackSoakAnnotation.
	ClusterFailbackWhenHealthy = "WhenHealthy"
	// ClusterFailbackManual: when ClusterFailbackRequestedAnnotation has a time that is not before the failover.
	ClusterFailbackManual = "Manual"
	// ClusterFailbackSoakAnnotation is a duration, DefaultFailbackSoak if absent.
	ClusterFailbackSoakAnnotation = "flagship.io/cluster-failback-soak"
	// ClusterFailbackRequestedAnnotation is a time in RFC 3339.
	ClusterFailbackRequestedAnnotation = "flagship.io/cluster-failback-requested"
)

// DriftAcknowledgedAnnotation on a template has a time in RFC 3339: differences that were found until then, and that a policy with
// DriftPause holds, are put back.
const DriftAcknowledgedAnnotation = "flagship.io/drift-acknowledged"

// DriftModes are the values of DriftAnnotation.
func DriftModes() []string {
	return []string{DriftRepair, DriftReport, DriftPause, DriftCreateOnly, DriftObserveOnly}
}

// AutoscaledAnnotation is on a template whose RetainReplicasLabel the control plane has set, because an autoscaler that is propagated
// scales it.
const AutoscaledAnnotation = "flagship.io/autoscaled"

// Labels that users (or other controllers) put on a template.
const (
	// NamespaceSkipAutoPropagationLabel set to "true" on a Namespace keeps it out of every cluster.
	NamespaceSkipAutoPropagationLabel = "namespace.karmada.io/skip-auto-propagation"
	// RetainReplicasLabel set to "true" leaves spec.replicas to the member cluster. The binding of the template has it as an annotation.
	RetainReplicasLabel = "resourcetemplate.karmada.io/retain-replicas"
	// ResourceTemplateClaimedByLabel names the kind that owns a template; policies never touch such a template.
	ResourceTemplateClaimedByLabel = "resourcetemplate.karmada.io/claimed-by"
	// DeletionProtectionLabel set to DeletionProtectionAlways makes the API refuse to delete an object.
	DeletionProtectionLabel = "resourcetemplate.karmada.io/deletion-protected"
	// DeletionProtectionAlways is the only value of DeletionProtectionLabel with an effect.
	DeletionProtectionAlways = "Always"
)

// Finalizers by which a policy outlives its deletion until its claims are released.
const (
	PropagationPolicyFinalizer        = "karmada.io/propagation-policy-controller"
	ClusterPropagationPolicyFinalizer = "karmada.io/cluster-propagation-policy-controller"
)

// Labels on the Works that carry a FederatedResourceQuota's static assignments.
const (
	FederatedResourceQuotaNamespaceLabel = "federatedresourcequota.karmada.io/namespace"
	FederatedResourceQuotaNameLabel      = "federatedresourcequota.karmada.io/name"
)

// DefaultSchedulerName is the scheduler that serves policies which name none.
const DefaultSchedulerName = "default-scheduler"

// Defaults that the schema or admission fills in.
const (
	// DefaultFailoverTolerationSeconds is how long an application may be unhealthy before it is moved.
	DefaultFailoverTolerationSeconds int32 = 300
	// DefaultFailbackSoak is how long a cluster must have been ready again before objects return.
	DefaultFailbackSoak = 10 * time.Minute
	// DefaultFailoverGracePeriodSeconds is how long a gracefully evicted copy may wait for its replacement.
	DefaultFailoverGracePeriodSeconds int32 = 600
)

// IsOn returns whether an annotation switches its option on: whether strconv.ParseBool reads its value as true.
func IsOn(annotations map[string]string, annotation string) bool {
	on, err := strconv.ParseBool(annotations[annotation])
	return err == nil && on
}
