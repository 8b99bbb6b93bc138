package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of every kind in this package.
const GroupName = "multicluster.x-k8s.io"

// GroupVersion and its alias SchemeGroupVersion name this group at this version.
var (
	GroupVersion       = schema.GroupVersion{Group: GroupName, Version: "v1beta1"}
	SchemeGroupVersion = GroupVersion
)

// Kinds and resources (plural names) of this package.
const (
	KindServiceExport = "ServiceExport"
	KindServiceImport = "ServiceImport"

	ResourcePluralServiceExport = "serviceexports"
	ResourcePluralServiceImport = "serviceimports"
)

// Resource returns the group-qualified form of one of this group's resources.
func Resource(resource string) schema.GroupResource {
	return GroupVersion.WithResource(resource).GroupResource()
}

// AddToScheme registers every kind of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&ServiceExport{}, &ServiceExportList{},
		&ServiceImport{}, &ServiceImportList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
