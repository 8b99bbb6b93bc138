package summary

import (
	"fmt"
	"slices"
	"strings"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
)

// Complete completes an answer: whether anything changes, and all of it in one sentence.
func Complete(status *fleetv1alpha1.PreviewStatus) {
	held := map[string]map[string]bool{}
	for i := range status.Brakes {
		b := &status.Brakes[i]
		if held[b.Condition] == nil {
			held[b.Condition] = map[string]bool{}
		}
		held[b.Condition][b.Cluster] = true
	}
	changed := slices.ContainsFunc(status.Objects, func(o fleetv1alpha1.PreviewObject) bool { return o.Action != fleetv1alpha1.PreviewNone })
	status.Changes = changed || len(status.Refused)+len(status.Policies)+len(status.Placements)+len(status.Copies)+len(status.Taints) > 0
	clusters := map[string]bool{}
	for _, c := range status.Copies {
		for _, name := range c.Clusters {
			clusters[name] = true
		}
	}
	var parts []string
	for _, part := range []struct {
		n          int
		one, other string
	}{
		{len(status.Refused), "%d object is refused", "%d objects are refused"},
		{len(status.Taints), "taints of %d cluster change", "taints of %d clusters change"},
		{len(status.Policies), "%d object gets another policy", "%d objects get another policy"},
		{len(status.Placements), "%d object is placed otherwise", "%d objects are placed otherwise"},
		{len(clusters), "objects change in %d cluster", "objects change in %d clusters"},
		{len(held[clusterv1alpha1.ClusterConditionBrakeEngaged]), "removals wait in %d cluster", "removals wait in %d clusters"},
		{len(held[clusterv1alpha1.ClusterConditionEvictionHeld]), "evictions wait in %d cluster", "evictions wait in %d clusters"},
		{len(held[clusterv1alpha1.ClusterConditionDispatchingHeld]), "nothing is written to %d cluster", "nothing is written to %d clusters"},
	} {
		switch {
		case part.n == 1:
			parts = append(parts, fmt.Sprintf(part.one, part.n))
		case part.n > 1:
			parts = append(parts, fmt.Sprintf(part.other, part.n))
		}
	}
	switch {
	case len(parts) > 0:
		status.Summary = capital(strings.Join(parts, "; ")) + "."
	case status.Changes:
		status.Summary = "Nothing changes in any cluster."
	default:
		status.Summary = "Nothing changes."
	}
	if status.Hidden {
		status.Summary += " What you may not get is left out."
	}
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
