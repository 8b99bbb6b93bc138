package v1alpha1

import (
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of every kind in this package.
const GroupName = "cluster.karmada.io"

// GroupVersion and its alias SchemeGroupVersion name this group at this version.
var (
	GroupVersion       = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}
	SchemeGroupVersion = GroupVersion
)

// Kinds and resources (plural names) of this package.
const (
	KindCluster           = "Cluster"
	ResourcePluralCluster = "clusters"
)

// ProxyPath returns the path of the control plane below which is the API of a member; it does not end with a slash.
func ProxyPath(cluster string) string {
	return "/apis/" + GroupVersion.String() + "/" + ResourcePluralCluster + "/" + url.PathEscape(cluster) + "/proxy"
}

// Resource returns the group-qualified form of one of this group's resources.
func Resource(resource string) schema.GroupResource {
	return GroupVersion.WithResource(resource).GroupResource()
}

// AddToScheme registers every kind of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Cluster{}, &ClusterList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
