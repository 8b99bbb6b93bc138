package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of every kind in this package.
const GroupName = "resource.k8s.io"

// GroupVersion and its alias SchemeGroupVersion name this group at this version.
var (
	GroupVersion       = schema.GroupVersion{Group: GroupName, Version: "v1alpha2"}
	SchemeGroupVersion = GroupVersion
)

// Kinds and resources (plural names) of this package.
const (
	KindResourceClaim         = "ResourceClaim"
	KindResourceClaimTemplate = "ResourceClaimTemplate"
	KindResourceClass         = "ResourceClass"
	KindPodSchedulingContext  = "PodSchedulingContext"

	ResourcePluralResourceClaim         = "resourceclaims"
	ResourcePluralResourceClaimTemplate = "resourceclaimtemplates"
	ResourcePluralResourceClass         = "resourceclasses"
	ResourcePluralPodSchedulingContext  = "podschedulingcontexts"
)

// Resource returns the group-qualified form of one of this group's resources.
func Resource(resource string) schema.GroupResource {
	return GroupVersion.WithResource(resource).GroupResource()
}

// AddToScheme registers every kind of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, Kinds()...)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Kinds returns an empty object of each kind of this package, lists included.
func Kinds() []runtime.Object {
	return []runtime.Object{
		&ResourceClaim{}, &ResourceClaimList{},
		&ResourceClaimTemplate{}, &ResourceClaimTemplateList{},
		&ResourceClass{}, &ResourceClassList{},
		&PodSchedulingContext{}, &PodSchedulingContextList{},
	}
}
