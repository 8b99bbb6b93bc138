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

// rankBest reorders clusters, which come sorted by name, so that the k best
// stand first, in order. The rest follows in no particular order.
func rankBest(clusters []*Verdict, k int) {
	keys, ok := packKeys(clusters)
	if !ok {
		slices.SortFunc(clusters, compareRank)
		return
	}
	if k < len(keys)/4 {
		selectBest(keys, k)
	} else {
		slices.Sort(keys)
	}
	byName := slices.Clone(clusters)
	for i, key := range keys {
		clusters[i] = byName[key&(1<<keyPlaceBits-1)]
	}
}

// A key is compareRank packed into one number, the smaller the better, so that
// thousands of clusters sort without a pointer being followed.
const (
	keyPlaceBits = 17 // place by name
	keyRoomBits  = 31 // available replicas
	keyScoreBits = 10
	keyTierBits  = 64 - keyPlaceBits - keyRoomBits - keyScoreBits
)

// packKeys returns the keys of clusters, or false if one does not fit. Static
// weights never do.
func packKeys(clusters []*Verdict) ([]uint64, bool) {
	if len(clusters) > 1<<keyPlaceBits {
		return nil, false
	}
	keys := make([]uint64, len(clusters))
	for i, v := range clusters {
		if v.Weight != 0 || v.Score < 0 || v.Score >= 1<<keyScoreBits || v.Tier >= 1<<keyTierBits {
			return nil, false
		}
		key := uint64(v.Tier)
		key = key<<keyScoreBits | (1<<keyScoreBits - 1 - uint64(v.Score))
		key = key<<keyRoomBits | (1<<keyRoomBits - 1 - uint64(v.Available))
		keys[i] = key<<keyPlaceBits | uint64(i)
	}
	return keys, true
}

// selectBest moves the k best keys to the front, in order: they are kept in a
// sorted window, which most keys never enter.
func selectBest(keys []uint64, k int) {
	if k == 0 {
		return
	}
	slices.Sort(keys[:k])
	for i := k; i < len(keys); i++ {
		if keys[i] >= keys[k-1] {
			continue
		}
		key, out := keys[i], keys[k-1]
		at, _ := slices.BinarySearch(keys[:k], key)
		copy(keys[at+1:k], keys[at:k-1])
		keys[at], keys[i] = key, out
	}
}
