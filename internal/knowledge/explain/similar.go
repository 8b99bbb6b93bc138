package explain

import (
	"slices"
	"strings"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
)

// maxEdits is how many letters of a name may differ for it to be similar.
const maxEdits = 2

// Similar returns whether a user may have meant a name when writing another: one contains the other, or few letters differ.
func Similar(name, written string) bool {
	if strings.Contains(name, written) || strings.Contains(written, name) {
		return true
	}
	if len(name)-len(written) > maxEdits || len(written)-len(name) > maxEdits || min(len(name), len(written)) <= maxEdits {
		return false
	}
	// The distance of Levenshtein, row by row.
	row := make([]int, len(written)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(name) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(written) {
			cost := diagonal
			if name[i] != written[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(written)] <= maxEdits
}

// OnlyCluster returns the steps about one cluster, and those about none. A user who may not get the binding gets the same answer about
// every cluster: which steps are hidden would show whether the cluster exists, and whether it is a target.
func OnlyCluster(steps []Step, f Facts, cluster string, may func(Right) bool) []Step {
	needs := []Right{clusterRight(cluster)}
	if f.Binding != nil {
		needs = []Right{rightOf(f.Binding), clusterRight(cluster)}
	}
	hidden, found := !may(needs[0]), false
	kept := slices.DeleteFunc(slices.Clone(steps), func(s Step) bool {
		found = found || s.Cluster == cluster
		return s.Cluster != "" && (hidden || s.Cluster != cluster)
	})
	if hidden || !found {
		step := done(fleetv1alpha1.StageCluster, "the scheduler has no Cluster of that name, and it is not a target", needs...)
		step.Cluster, step.Outcome = cluster, fleetv1alpha1.OutcomeDropped
		kept = append(kept, step)
	}
	return kept
}
