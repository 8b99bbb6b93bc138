package compose

import (
	"math"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/capacity/division"
)

// ShareCompletions divides spec.completions of a Job whose parallelism was divided, in the proportion of the latter. It
// returns nil for everything else.
func ShareCompletions(job *unstructured.Unstructured, spec *workv1alpha2.ResourceBindingSpec) map[string]int64 {
	if gvk := job.GroupVersionKind(); gvk.Group != "batch" || gvk.Kind != "Job" || !isDivided(spec) {
		return nil
	}
	completions, found, err := unstructured.NestedInt64(job.Object, "spec", "completions")
	if err != nil || !found {
		return nil
	}
	return divide(completions, spec.Clusters, job.GetUID())
}

// divide gives n completions to clusters in proportion to their replicas, the way replicas themselves are divided.
func divide(n int64, clusters []workv1alpha2.TargetCluster, uid types.UID) map[string]int64 {
	shares, weight := make([]division.Share, len(clusters)), int64(0)
	for i, cluster := range clusters {
		shares[i] = division.Share{Name: cluster.Name, Weight: int64(cluster.Replicas)}
		weight += shares[i].Weight
	}
	if weight > 0 {
		division.Webster(int32(min(n, math.MaxInt32)), shares, uid)
	}
	assigned := make(map[string]int64, len(shares))
	for _, share := range shares {
		assigned[share.Name] = int64(share.Replicas)
	}
	return assigned
}
