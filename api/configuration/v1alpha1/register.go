package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of every kind in this package.
const GroupName = "configuration.flagship.io"

// GroupVersion names this group at this version.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// Kinds of this package.
const (
	KindServerConfiguration = "ServerConfiguration"
	KindAgentConfiguration  = "AgentConfiguration"
)

// AddToScheme registers every kind of this package.
func AddToScheme(scheme *runtime.Scheme) {
	scheme.AddKnownTypes(GroupVersion, &ServerConfiguration{}, &AgentConfiguration{})
}
