package spread

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
)

// CompareRank is the order in which clusters are preferred: overflow tier, then
// static weight, score and available replicas, the largest first, then name.
func CompareRank(a, b *decision.Candidate) int {
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

// A key is CompareRank packed into one number, the smaller the better, so that thousands of clusters are ranked without comparing
// field by field.
const (
	keyPlaceBits     = 17 // place by name
	keyAvailableBits = 31 // available replicas
	keyScoreBits     = 10
	keyTierBits      = 64 - keyPlaceBits - keyAvailableBits - keyScoreBits
)

// setKeys gives every one of clusters, which come sorted by name, its key.
func setKeys(clusters []*decision.Candidate) {
	if packKeys(clusters) {
		return
	}
	sorted := slices.SortedFunc(slices.Values(clusters), CompareRank)
	for i, v := range sorted {
		v.Key = uint64(i)
	}
}

// packKeys sets the keys of clusters unless one does not fit.
func packKeys(clusters []*decision.Candidate) bool {
	if len(clusters) > 1<<keyPlaceBits {
		return false
	}
	var weights weightRanks
	for _, v := range clusters {
		if v.Weight != 0 && !weights.add(v.Weight) {
			return false
		}
	}
	weights.sort()
	for i, v := range clusters {
		// Overflow tiers and static weights never occur together.
		first := uint64(v.Tier) + weights.of(v.Weight)
		if v.Score < 0 || v.Score >= 1<<keyScoreBits || first >= 1<<keyTierBits {
			return false
		}
		key := first<<keyScoreBits | (1<<keyScoreBits - 1 - uint64(v.Score))
		key = key<<keyAvailableBits | (1<<keyAvailableBits - 1 - uint64(v.Available))
		v.Key = key<<keyPlaceBits | uint64(i)
	}
	return true
}

// weightRanks turns the few different weights of a placement into small numbers, the largest weight into zero.
type weightRanks []int64

func (w *weightRanks) add(weight int64) bool {
	if !slices.Contains(*w, weight) {
		*w = append(*w, weight)
	}
	return len(*w) < 1<<keyTierBits
}

func (w weightRanks) sort() {
	slices.SortFunc(w, func(a, b int64) int { return cmp.Compare(b, a) })
}

func (w weightRanks) of(weight int64) uint64 {
	if at := slices.Index(w, weight); at >= 0 {
		return uint64(at)
	}
	return uint64(len(w)) // no weight comes last
}

func compareKeys(a, b *decision.Candidate) int { return cmp.Compare(a.Key, b.Key) }

// rankBest reorders clusters so that the k best stand first, in order. The rest follows in no particular order.
func rankBest(clusters []*decision.Candidate, k int) {
	switch {
	case k <= 0:
	case k >= len(clusters)/4:
		slices.SortFunc(clusters, compareKeys)
	default:
		// The best so far are kept in a sorted window, which most never enter.
		slices.SortFunc(clusters[:k], compareKeys)
		for i := k; i < len(clusters); i++ {
			v, last := clusters[i], clusters[k-1]
			if v.Key >= last.Key {
				continue
			}
			at, _ := slices.BinarySearchFunc(clusters[:k], v, compareKeys)
			copy(clusters[at+1:k], clusters[at:k-1])
			clusters[at], clusters[i] = v, last
		}
	}
}

// InOrder yields items from the first on. Often the first few are enough, which a heap finds without sorting the others.
func InOrder[T any](items []T, before func(a, b T) bool) iter.Seq[T] {
	return func(yield func(T) bool) {
		heap := slices.Clone(items)
		for i := len(heap)/2 - 1; i >= 0; i-- {
			sink(heap, i, before)
		}
		for len(heap) > 0 && yield(heap[0]) {
			heap[0] = heap[len(heap)-1]
			heap = heap[:len(heap)-1]
			sink(heap, 0, before)
		}
	}
}

// sink restores the heap below i, whose root is before all others. It is not container/heap, since that calls an interface for each
// comparison and swap.
func sink[T any](heap []T, i int, before func(a, b T) bool) {
	for {
		first := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(heap); child++ {
			if before(heap[child], heap[first]) {
				first = child
			}
		}
		if first == i {
			return
		}
		heap[i], heap[first] = heap[first], heap[i]
		i = first
	}
}
