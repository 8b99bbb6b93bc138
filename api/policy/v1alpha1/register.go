package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of every kind in this package.
const GroupName = "policy.karmada.io"

// GroupVersion and its alias SchemeGroupVersion name this group at this version.
var (
	GroupVersion       = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}
	SchemeGroupVersion = GroupVersion
)

// Kinds and resources (plural names) of this package.
const (
	KindPropagationPolicy        = "PropagationPolicy"
	KindClusterPropagationPolicy = "ClusterPropagationPolicy"
	KindOverridePolicy           = "OverridePolicy"
	KindClusterOverridePolicy    = "ClusterOverridePolicy"
	KindFederatedResourceQuota   = "FederatedResourceQuota"
	KindClusterTaintPolicy       = "ClusterTaintPolicy"

	ResourcePluralPropagationPolicy        = "propagationpolicies"
	ResourcePluralClusterPropagationPolicy = "clusterpropagationpolicies"
	ResourcePluralOverridePolicy           = "overridepolicies"
	ResourcePluralClusterOverridePolicy    = "clusteroverridepolicies"
	ResourcePluralFederatedResourceQuota   = "federatedresourcequotas"
	ResourcePluralClusterTaintPolicy       = "clustertaintpolicies"
)

// Resource returns the group-qualified form of one of this group's resources.
func Resource(resource string) schema.GroupResource {
	return GroupVersion.WithResource(resource).GroupResource()
}

// AddToScheme registers every kind of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&PropagationPolicy{}, &PropagationPolicyList{},
		&ClusterPropagationPolicy{}, &ClusterPropagationPolicyList{},
		&OverridePolicy{}, &OverridePolicyList{},
		&ClusterOverridePolicy{}, &ClusterOverridePolicyList{},
		&FederatedResourceQuota{}, &FederatedResourceQuotaList{},
		&ClusterTaintPolicy{}, &ClusterTaintPolicyList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
