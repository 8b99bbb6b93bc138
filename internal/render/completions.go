package render

import (
	"cmp"
	"hash/fnv"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// shareCompletions divides spec.completions of a Job whose parallelism was divided, in the proportion of the latter. It
// returns nil for everything else.
func shareCompletions(job *unstructured.Unstructured, spec *workv1alpha2.ResourceBindingSpec) map[string]int64 {
	if gvk := job.GroupVersionKind(); gvk.Group != "batch" || gvk.Kind != "Job" || !isDivided(spec) {
		return nil
	}
	completions, found, err := unstructured.NestedInt64(job.Object, "spec", "completions")
	if err != nil || !found {
		return nil
	}
	return divide(completions, spec.Clusters, job.GetUID())
}

// divide gives n seats to clusters by Webster's method, with their replicas as votes. Of equal claims the one with fewer
// seats goes first; then the name decides, in a direction that depends on the template, so that no cluster is always
// the lucky one.
func divide(n int64, clusters []workv1alpha2.TargetCluster, uid types.UID) map[string]int64 {
	parties := slices.Clone(clusters)
	slices.SortFunc(parties, func(a, b workv1alpha2.TargetCluster) int { return cmp.Compare(a.Name, b.Name) })
	if descends(uid) {
		slices.Reverse(parties)
	}
	var votes int64
	for _, party := range parties {
		votes += int64(party.Replicas)
	}
	seats, left := make(map[string]int64, len(parties)), n
	for _, party := range parties {
		seats[party.Name] = sureSeats(n, party.Replicas, votes, len(parties))
		left -= seats[party.Name]
	}
	if votes == 0 {
		return seats
	}
	for range left {
		best, claim := "", -1.0
		for _, party := range parties {
			taken := seats[party.Name]
			own := float64(party.Replicas) / float64(2*taken+1)
			if own > claim || own == claim && taken < seats[best] {
				best, claim = party.Name, own
			}
		}
		seats[best]++
	}
	return seats
}

// sureSeats is what a party gets whatever the others do, less a margin: it spares handing out a million seats one by one.
func sureSeats(n int64, replicas int32, votes int64, parties int) int64 {
	if votes == 0 {
		return 0
	}
	share := (float64(n) - float64(parties)/2) * float64(replicas) / float64(votes)
	return max(0, int64(share-1.5))
}

func descends(uid types.UID) bool {
	if uid == "" {
		return false
	}
	hash := fnv.New32a()
	hash.Write([]byte(uid)) // Never fails, by the contract of hash.Hash.
	return hash.Sum32()%2 == 1
}
