package resourceclaims

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// podSpecs leads from the kinds that have pods to where the spec of one is.
func podSpecs() map[schema.GroupVersionKind][]string {
	template := []string{"spec", "template", "spec"}
	return map[schema.GroupVersionKind][]string{
		{Version: "v1", Kind: "Pod"}:                        {"spec"},
		{Group: "apps", Version: "v1", Kind: "Deployment"}:  template,
		{Group: "apps", Version: "v1", Kind: "ReplicaSet"}:  template,
		{Group: "apps", Version: "v1", Kind: "StatefulSet"}: template,
		{Group: "apps", Version: "v1", Kind: "DaemonSet"}:   template,
		{Group: "batch", Version: "v1", Kind: "Job"}:        template,
		{Group: "batch", Version: "v1", Kind: "CronJob"}:    {"spec", "jobTemplate", "spec", "template", "spec"},
	}
}

// needsSource returns whether pods of a cluster name their claims as Kubernetes 1.30 had it, in a field "source" that later
// versions do without. A cluster that serves a later model of claims has the later pods, whatever else it serves.
func needsSource(cluster *clusterv1alpha1.Cluster) bool {
	return serves(cluster, claimKind()) &&
		!slices.ContainsFunc(alternatives(claimKind()), func(k schema.GroupVersionKind) bool { return serves(cluster, k) })
}

// withSource moves the names of the claims of an object's pods to where a cluster looks for them. Objects without such
// pods are returned as they are.
func withSource(obj *unstructured.Unstructured, cluster *clusterv1alpha1.Cluster) *unstructured.Unstructured {
	path := podSpecs()[obj.GroupVersionKind()]
	if path == nil {
		return obj
	}
	path = append(slices.Clone(path), "resourceClaims")
	if list, found, _ := unstructured.NestedFieldNoCopy(obj.Object, path...); !found || list == nil || !needsSource(cluster) {
		return obj
	}
	out := obj.DeepCopy()
	list, _, _ := unstructured.NestedFieldNoCopy(out.Object, path...)
	entries, _ := list.([]any)
	for _, entry := range entries {
		reference, _ := entry.(map[string]any)
		source := map[string]any{}
		for _, name := range []string{"resourceClaimName", "resourceClaimTemplateName"} {
			if value, there := reference[name]; there {
				source[name] = value
				delete(reference, name)
			}
		}
		if len(source) > 0 {
			reference["source"] = source
		}
	}
	return out
}
