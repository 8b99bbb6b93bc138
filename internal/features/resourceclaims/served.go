package resourceclaims

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
)

// deviceClass is the kind in today's versions; claims and their templates have the same names as in v1alpha2.
const deviceClass = "DeviceClass"

// todays are the versions that a claim can be translated to, the best first.
func todays() []string { return []string{"v1", "v1beta2", "v1beta1"} }

// counterparts leads from a kind of v1alpha2 to the one in today's versions.
func counterparts() map[string]string {
	return map[string]string{
		resourcev1alpha2.KindResourceClass:         deviceClass,
		resourcev1alpha2.KindResourceClaim:         resourcev1alpha2.KindResourceClaim,
		resourcev1alpha2.KindResourceClaimTemplate: resourcev1alpha2.KindResourceClaimTemplate,
	}
}

// Alternatives implements conversion.Adviser.
func (Adviser) Alternatives(_ context.Context, kind schema.GroupVersionKind) []schema.GroupVersionKind {
	return alternatives(kind)
}

func alternatives(kind schema.GroupVersionKind) []schema.GroupVersionKind {
	name := counterparts()[kind.Kind]
	if kind.GroupVersion() != resourcev1alpha2.GroupVersion || name == "" {
		return nil
	}
	var kinds []schema.GroupVersionKind
	for _, version := range todays() {
		kinds = append(kinds, schema.GroupVersionKind{Group: resourcev1alpha2.GroupName, Version: version, Kind: name})
	}
	return kinds
}

// Affected implements conversion.Adviser.
func (Adviser) Affected(before, after *clusterv1alpha1.Cluster) []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for name := range counterparts() {
		kind := resourcev1alpha2.GroupVersion.WithKind(name)
		was, wasSure := targetKind(kind, before)
		is, isSure := targetKind(kind, after)
		if was != is || wasSure != isSure {
			kinds = append(kinds, kind)
		}
	}
	if needsSource(before) != needsSource(after) {
		kinds = slices.AppendSeq(kinds, maps.Keys(podSpecs()))
	}
	return kinds
}

// targetKind is what an object of a kind is to be in a cluster: itself where it is served, else the best counterpart;
// empty if the cluster serves neither. It is not sure while the cluster may serve more than it has said.
func targetKind(kind schema.GroupVersionKind, cluster *clusterv1alpha1.Cluster) (_ schema.GroupVersionKind, sure bool) {
	for _, candidate := range append([]schema.GroupVersionKind{kind}, alternatives(kind)...) {
		if serves(cluster, candidate) {
			return candidate, true
		}
	}
	return schema.GroupVersionKind{}, meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionCompleteAPIEnablements)
}

func serves(cluster *clusterv1alpha1.Cluster, kind schema.GroupVersionKind) bool {
	version := kind.GroupVersion().String()
	for i := range cluster.Status.APIEnablements {
		if cluster.Status.APIEnablements[i].GroupVersion == version {
			return slices.ContainsFunc(cluster.Status.APIEnablements[i].Resources,
				func(r clusterv1alpha1.APIResource) bool { return r.Kind == kind.Kind })
		}
	}
	return false
}
