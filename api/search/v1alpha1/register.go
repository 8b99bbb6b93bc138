package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of every kind in this package.
const GroupName = "search.karmada.io"

// GroupVersion and its alias SchemeGroupVersion name this group at this version.
var (
	GroupVersion       = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}
	SchemeGroupVersion = GroupVersion
)

// Kinds and resources (plural names) of this package.
const (
	KindResourceRegistry = "ResourceRegistry"

	ResourcePluralResourceRegistry = "resourceregistries"
)

// Paths of the API below the group. They are no resources with objects of their own: what follows them is a path of the Kubernetes API.
const (
	// SearchCachePath is where the objects that registries select are read, without what only writers need.
	SearchCachePath = "/apis/search.karmada.io/v1alpha1/search/cache"
	// ProxyingPath is where control plane and members are one API server.
	ProxyingPath = "/apis/search.karmada.io/v1alpha1/proxying/karmada/proxy"
)

// Resource returns the group-qualified form of one of this group's resources.
func Resource(resource string) schema.GroupResource {
	return GroupVersion.WithResource(resource).GroupResource()
}

// AddToScheme registers every kind of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&ResourceRegistry{}, &ResourceRegistryList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
