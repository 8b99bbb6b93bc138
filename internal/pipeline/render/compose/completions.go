package compose

import (
	"math"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/capacity"
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
	parties, votes := make([]capacity.Party, len(clusters)), int64(0)
	for i, cluster := range clusters {
		parties[i] = capacity.Party{Name: cluster.Name, Votes: int64(cluster.Replicas)}
		votes += parties[i].Votes
	}
	if votes > 0 {
		capacity.Webster(int32(min(n, math.MaxInt32)), parties, uid)
	}
	seats := make(map[string]int64, len(parties))
	for _, party := range parties {
		seats[party.Name] = int64(party.Seats)
	}
	return seats
}
