package spread

import (
	"cmp"
	"slices"

	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
)

// path is one combination of groups, the best group first.
type path struct {
	groups   []int
	score    int64
	clusters int
}

// maxPaths bounds how many combinations are compared. Where there would be more, only the best groups take part.
const maxPaths = 20000

// findPaths lists the combinations of groups that dim and the number of clusters allow, the best first. A combination that is large
// enough is not made larger.
//
// The best has the highest sum of scores, then the most clusters, then was found first; a shorter combination that it begins with
// is better still. If the object runs somewhere, combinations that keep all groups it is in come before all others, so that a shift
// in capacity moves nothing.
func (s *spread) findPaths(dim decision.Dimension, groups []group, limit int) []path {
	most := bound(&dim, len(groups), s.quota)
	if most < dim.Min {
		return nil
	}
	// The search itself is bounded as well, for it may take many steps to find nothing.
	all := finder{groups: groups, least: dim.Min, most: most, clusters: max(s.quota.least, 1), maxSteps: 10 * limit}
	if !all.feasible() {
		return nil
	}
	kept, origin := prune(groups, dim.Min, limit)
	f := all
	f.groups = kept
	f.search(0, 0)
	if len(f.found) == 0 {
		all.largest()
		return all.found
	}
	slices.SortStableFunc(f.found, func(a, b path) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.clusters, a.clusters))
	})
	preferPrefix(f.found)
	if !s.round.Request.Fresh {
		preferHeld(f.found, kept)
	}
	for _, p := range f.found {
		for i, g := range p.groups {
			p.groups[i] = origin[g]
		}
	}
	return f.found
}

// prune keeps the best groups if there are more than limit combinations of size. origin is where each of the groups kept was.
func prune(groups []group, size, limit int) (kept []group, origin []int) {
	keep := len(groups)
	for keep > size && combinations(keep, size) > limit {
		keep--
	}
	origin = indexes(len(groups))
	if keep == len(groups) {
		return groups, origin
	}
	slices.SortFunc(origin, func(a, b int) int {
		x, y := groups[a], groups[b]
		return cmp.Or(trueFirst(x.held, y.held), compareGroups(x, y))
	})
	origin = origin[:keep]
	slices.Sort(origin)
	for _, i := range origin {
		kept = append(kept, groups[i])
	}
	return kept, origin
}

// indexes are 0 to n-1.
func indexes(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// combinations is n over k, or something above maxPaths.
func combinations(n, k int) int {
	total := 1
	for i := range min(k, n-k) {
		total = total * (n - i) / (i + 1)
		if total > maxPaths {
			return maxPaths + 1
		}
	}
	return total
}

// finder walks combinations depth first.
type finder struct {
	groups      []group
	least, most int
	clusters    int
	stack       []int
	found       []path
	steps       int
	maxSteps    int
}

// feasible returns whether the largest groups that may be combined have enough clusters.
func (f *finder) feasible() bool {
	_, clusters := f.bySize()
	return clusters >= f.clusters
}

// bySize returns the largest groups, as few as have enough clusters or as many as may be combined, and how many clusters they have.
func (f *finder) bySize() (largest []int, clusters int) {
	order := indexes(len(f.groups))
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(len(f.groups[b].clusters), len(f.groups[a].clusters))
	})
	for _, i := range order[:f.most] {
		if clusters >= f.clusters && len(largest) >= f.least {
			break
		}
		largest = append(largest, i)
		clusters += len(f.groups[i].clusters)
	}
	return largest, clusters
}

// largest records the one combination that is easy to find where the search has reached its limit.
func (f *finder) largest() {
	var clusters int
	f.stack, clusters = f.bySize()
	f.record(clusters)
}

func (f *finder) search(clusters, begin int) {
	if f.steps++; f.steps > f.maxSteps {
		return
	}
	if clusters >= f.clusters && len(f.stack) >= f.least {
		f.record(clusters)
		return
	}
	if len(f.stack) == f.most {
		return
	}
	last := len(f.groups) - max(f.least-len(f.stack), 1) // beyond it too few groups follow
	for i := begin; i <= last; i++ {
		f.stack = append(f.stack, i)
		f.search(clusters+len(f.groups[i].clusters), i+1)
		f.stack = f.stack[:len(f.stack)-1]
	}
}

func (f *finder) record(clusters int) {
	p := path{groups: slices.Clone(f.stack), clusters: clusters}
	for _, g := range p.groups {
		p.score += f.groups[g].score
	}
	slices.SortFunc(p.groups, func(a, b int) int { return compareGroups(f.groups[a], f.groups[b]) })
	f.found = append(f.found, p)
}

// preferPrefix moves to the front the shortest combination that the best one begins with.
func preferPrefix(found []path) {
	best := 0
	for i := 1; i < len(found); i++ {
		short, long := found[i].groups, found[best].groups
		if len(short) < len(long) && slices.Equal(short, long[:len(short)]) {
			best = i
		}
	}
	if best > 0 {
		p := found[best]
		copy(found[1:best+1], found[:best])
		found[0] = p
	}
}

// preferHeld moves to the front the combinations with all groups that the object is in.
func preferHeld(found []path, groups []group) {
	held := 0
	for i := range groups {
		if groups[i].held {
			held++
		}
	}
	if held == 0 {
		return
	}
	keeps := func(p path) bool {
		n := 0
		for _, g := range p.groups {
			if groups[g].held {
				n++
			}
		}
		return n == held
	}
	slices.SortStableFunc(found, func(a, b path) int { return trueFirst(keeps(a), keeps(b)) })
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}
