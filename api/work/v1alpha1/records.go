package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Labels and annotations of the Works of the two APIs of services, which have constants of the same values.
const (
	multiClusterServiceLabel = "multiclusterservice.karmada.io/name"
	dispatchedAnnotation     = "endpointslice.karmada.io/provision-cluster"
	exportRoleLabel          = "serviceexport.karmada.io/role"
	sliceLabel               = "endpointslice.karmada.io/namespace"
)

// The record of what a member warns of, which its agent writes: one Work with an Event as each manifest. Object and Related of an Event
// are the object in the member and the Work.
const (
	// EventsRecordName is the name of this Work, and EventsRecordLabel marks it.
	EventsRecordName  = "flagship-member-events"
	EventsRecordLabel = "flagship.io/member-events"
	// MaxRecordedEvents and MaxRecordedEventBytes bound it.
	MaxRecordedEvents, MaxRecordedEventBytes = 128, 8192
)

// IsRecord returns whether a Work is kept for the control plane to read, and is never applied: what a member warns of, what it has of a
// MultiClusterService or of a ServiceExport, and endpoints collected from it. Records are known by the labels of those APIs: those
// in existing data directories have no label in common.
func IsRecord(work metav1.Object) bool {
	labels := work.GetLabels()
	if labels[EventsRecordLabel] != "" {
		return true
	}
	if role := labels[exportRoleLabel]; role == "export" || role == "endpoints" {
		return true
	}
	_, service := labels[multiClusterServiceLabel]
	_, dispatched := work.GetAnnotations()[dispatchedAnnotation]
	return service && !dispatched
}

// IsReport returns whether a Work is a record whose content is from a member: all but those by which a MultiClusterService names its
// providers.
func IsReport(work metav1.Object) bool {
	labels := work.GetLabels()
	_, slice := labels[sliceLabel]
	return IsRecord(work) && (slice || labels[EventsRecordLabel] != "" || labels[exportRoleLabel] != "")
}
