package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of every kind in this package.
const GroupName = "fleet.flagship.io"

// GroupVersion and its alias SchemeGroupVersion name this group at this version.
var (
	GroupVersion       = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}
	SchemeGroupVersion = GroupVersion
)

// Kinds and resources (plural names) of this package.
const (
	KindClusterCapacity = "ClusterCapacity"
	KindDriftReport     = "DriftReport"
	KindExplanation     = "Explanation"
	KindHistory         = "History"
	KindTimeline        = "Timeline"
	KindUndeletion      = "Undeletion"
	KindPreview         = "Preview"

	ResourcePluralClusterCapacity = "clustercapacities"
	ResourcePluralDriftReport     = "driftreports"
	ResourcePluralExplanation     = "explanations"
	ResourcePluralHistory         = "histories"
	ResourcePluralTimeline        = "timelines"
	ResourcePluralUndeletion      = "undeletions"
	ResourcePluralPreview         = "previews"
)

// Resource returns the group-qualified form of one of this group's resources.
func Resource(resource string) schema.GroupResource {
	return GroupVersion.WithResource(resource).GroupResource()
}

// AddToScheme registers every kind of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&ClusterCapacity{}, &ClusterCapacityList{},
		&DriftReport{}, &DriftReportList{},
		&Explanation{}, &ExplanationList{},
		&History{}, &HistoryList{},
		&Timeline{}, &TimelineList{},
		&Undeletion{}, &UndeletionList{},
		&Preview{}, &PreviewList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
