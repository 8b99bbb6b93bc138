package schedule

import (
	"cmp"
	"slices"
	"strings"
)

// compareRank is the order in which clusters are preferred: overflow tier, then
// static weight, score and available replicas, the largest first, then name.
func compareRank(a, b *Verdict) int {
	switch {
	case a.Tier != b.Tier:
		return cmp.Compare(a.Tier, b.Tier)
	case a.Weight != b.Weight:
		return cmp.Compare(b.Weight, a.Weight)
	case a.Score != b.Score:
		return cmp.Compare(b.Score, a.Score)
	case a.Available != b.Available:
		return cmp.Compare(b.Available, a.Available)
	default:
		return strings.Compare(a.Cluster.Name, b.Cluster.Name)
	}
}

func rank(clusters []*Verdict) { slices.SortFunc(clusters, compareRank) }
