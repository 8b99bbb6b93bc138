package spread

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
)

// group is the clusters of one region, zone, provider or label value.
type group struct {
	name     string
	clusters []*decision.Candidate
	score    int64
	held     bool // the object is in one of them
	found    int  // its place in the order of the members
}

// groupScore weighs one unit of capacity against the scores of plugins.
const groupScore = 1000

// chooseGroups selects groups by each dimension in turn, each among the clusters that the selections before have left over, then
// the clusters: one of every group, and the best of the rest.
func chooseGroups(r *decision.Round, members []*decision.Candidate, dims []decision.Dimension, q quota) ([]*decision.Candidate, *decision.Failure) {
	s := spread{round: r, dims: dims, quota: q}
	if chosen := s.narrow(0, members, nil); chosen != nil {
		return chosen, nil
	}
	if s.partial != nil {
		return s.partial, nil
	}
	return nil, decision.Unschedulable(s.failure)
}

// spread is one search for a selection that satisfies all spread constraints.
type spread struct {
	round   *decision.Round
	dims    []decision.Dimension
	quota   quota
	partial []*decision.Candidate // satisfies the constraints but not the need
	failure string                // the first reason why there was no selection
	tries   int
	begun   int
}

const (
	// maxTries bounds how many combinations of groups are followed to the end.
	maxTries = 256
	// maxBegun bounds how many are begun: most of those that fail end sooner.
	maxBegun = 2048
)

func (s *spread) fail(format string, args ...any) {
	if s.failure == "" {
		s.failure = fmt.Sprintf(format, args...)
	}
}

// narrow handles the dimensions from depth on. picked are the groups chosen so far, per dimension.
func (s *spread) narrow(depth int, members []*decision.Candidate, picked [][]string) []*decision.Candidate {
	if depth == len(s.dims) {
		s.tries++
		return s.finish(members, picked)
	}
	s.begun++
	dim := s.dims[depth]
	groups, groupAt := s.groupsBy(dim, members)
	if len(groups) < dim.Min {
		s.fail("spreadConstraints require at least %d by %s, clusters that fit are in %d: %s",
			dim.Min, dim.Name, len(groups), groupNames(groups))
		return nil
	}
	// Of as few groups as have clusters enough none may meet the other constraints, or hold the replicas. Then more are
	// tried, as far as they are allowed.
	limit := maxPaths
	for most := max(bound(&dim, len(groups), s.quota), dim.Min); dim.Min <= most; dim.Min++ {
		paths := s.findPaths(dim, groups, limit)
		limit = maxTries
		if len(paths) == 0 {
			s.fail("spreadConstraints require at least %d clusters, no %d by %s have as many: %s",
				s.quota.least, dim.Max, dim.Name, groupNames(groups))
		}
		for _, p := range paths {
			if s.tries >= maxTries || s.begun >= maxBegun {
				return nil
			}
			names, inside := within(p, groups, members, groupAt)
			if chosen := s.narrow(depth+1, inside, append(slices.Clone(picked), names)); chosen != nil {
				return chosen
			}
		}
	}
	return nil
}

// bound is how many of n groups may be chosen.
func bound(d *decision.Dimension, n int, q quota) int {
	for _, most := range []int{d.Max, q.most} {
		if most > 0 {
			n = min(n, most)
		}
	}
	return n
}

// within returns the names of the groups of a combination and the members that are in them.
func within(p path, groups []group, members []*decision.Candidate, groupAt []int) (names []string, inside []*decision.Candidate) {
	in := make([]bool, len(groups))
	size := 0
	for _, g := range p.groups {
		names = append(names, groups[g].name)
		in[g] = true
		size += len(groups[g].clusters)
	}
	inside = make([]*decision.Candidate, 0, size)
	for i, v := range members {
		if in[groupAt[i]] {
			inside = append(inside, v)
		}
	}
	return names, inside
}

func groupNames(groups []group) string {
	names := make([]string, len(groups))
	for i := range groups {
		names[i] = groups[i].name
	}
	slices.Sort(names)
	return decision.FirstNames(names)
}

// openGroups are groups that no cluster represents yet, per dimension.
type openGroups []map[string]bool

func openOf(picked [][]string) openGroups {
	open := make(openGroups, len(picked))
	for d, names := range picked {
		open[d] = map[string]bool{}
		for _, name := range names {
			open[d][name] = true
		}
	}
	return open
}

// finish picks the clusters: the best that represents groups not yet represented, until all are, then the best of the others up to
// the bound.
func (s *spread) finish(members []*decision.Candidate, picked [][]string) []*decision.Candidate {
	open := openOf(picked)
	chosen, rest := s.represent(members, open)
	for d := range open {
		if len(open[d]) > 0 {
			s.fail("spreadConstraints by %s cannot be met together with the others", s.dims[d].Name)
			return nil
		}
	}
	total := s.quota.atMost(len(members))
	if len(chosen) > total {
		if chosen = s.cover(members, openOf(picked), total, unbounded); chosen == nil {
			s.fail("spreadConstraints allow %d clusters, too few for one in every group", s.quota.most)
			return nil
		}
		rest = slices.DeleteFunc(slices.Clone(members), func(v *decision.Candidate) bool { return slices.Contains(chosen, v) })
	}
	fixed := len(chosen)
	if total < s.quota.least {
		s.fail("spreadConstraints require at least %d clusters, the chosen groups have %d", s.quota.least, total)
		return nil
	}
	rankBest(rest, total-fixed)
	chosen, rest = append(chosen, rest[:total-fixed]...), rest[total-fixed:]
	exchange(chosen, rest, s.quota.need, func(i int, _ *decision.Candidate) bool { return i >= fixed })
	// Those that represent groups stay as long as that is enough; then others may represent them.
	exchange(chosen, rest, s.quota.need, func(i int, candidate *decision.Candidate) bool {
		was := chosen[i]
		chosen[i] = candidate
		covers := s.covers(chosen, openOf(picked))
		chosen[i] = was
		return covers
	})
	missing := shortOf(chosen, s.quota.need)
	if missing > 0 && len(s.dims) > 1 { // several exchanges at once may be enough
		if others := s.cover(members, openOf(picked), total, s.quota.need); others != nil && len(others) >= s.quota.least {
			return others
		}
	}
	if missing > 0 {
		s.fail("%s", decision.ShortageMessage(s.round.Request, chosen, missing))
		if s.partial == nil && s.round.Request.Partial {
			s.partial = chosen
		}
		return nil
	}
	return chosen
}

// covers returns whether some cluster represents every group in open.
func (s *spread) covers(chosen []*decision.Candidate, open openGroups) bool {
	for d := range open {
		for _, v := range chosen {
			delete(open[d], s.dims[d].GroupOf(v.Cluster))
		}
		if len(open[d]) > 0 {
			return false
		}
	}
	return true
}

// represent splits members into those that represent groups in open and the rest, and removes the groups that are represented.
// A cluster that represents more groups goes first, then the better one.
func (s *spread) represent(members []*decision.Candidate, open openGroups) (chosen, rest []*decision.Candidate) {
	rest = slices.Clone(members)
	for {
		best, most := -1, 0
		for i, v := range rest {
			n := 0
			for d := range s.dims {
				if open[d][s.dims[d].GroupOf(v.Cluster)] {
					n++
				}
			}
			if n > most || n == most && n > 0 && v.Key < rest[best].Key {
				best, most = i, n
			}
		}
		if best < 0 {
			return chosen, rest
		}
		v := rest[best]
		for d := range s.dims {
			delete(open[d], s.dims[d].GroupOf(v.Cluster))
		}
		rest[best] = rest[len(rest)-1]
		chosen, rest = append(chosen, v), rest[:len(rest)-1]
	}
}

// maxCovers bounds the steps of one search by cover.
const maxCovers = 4096

// cover looks for no more than most clusters that represent all groups in open and have need available, where the best ones, taken
// first, do not. Of clusters that represent the same groups only the best counts, or with a need the one with the most available.
func (s *spread) cover(members []*decision.Candidate, open openGroups, most int, need int64) []*decision.Candidate {
	better := func(a, b *decision.Candidate) bool {
		if need != unbounded {
			return moreAvailable(a, b)
		}
		return a.Key < b.Key
	}
	best := map[string]*decision.Candidate{}
	for _, v := range members {
		groups := make([]string, len(s.dims))
		for d := range s.dims {
			groups[d] = s.dims[d].GroupOf(v.Cluster)
		}
		kind := strings.Join(groups, "\x00")
		if known := best[kind]; known == nil || better(v, known) {
			best[kind] = v
		}
	}
	kinds := slices.SortedFunc(maps.Values(best), func(a, b *decision.Candidate) int { return cmp.Compare(a.Key, b.Key) })
	steps := 0
	var search func(chosen []*decision.Candidate, open openGroups) []*decision.Candidate
	search = func(chosen []*decision.Candidate, open openGroups) []*decision.Candidate {
		steps++
		dim := 0 // with the most open groups: each of these needs a cluster of its own
		for d := range open {
			if len(open[d]) > len(open[dim]) {
				dim = d
			}
		}
		switch {
		case len(open[dim]) == 0 && shortOf(chosen, need) == 0:
			return chosen
		case len(open[dim]) == 0:
			return nil
		case len(chosen)+len(open[dim]) > most || steps > maxCovers:
			return nil
		}
		next := slices.Min(slices.Collect(maps.Keys(open[dim])))
		for _, v := range kinds {
			if s.dims[dim].GroupOf(v.Cluster) != next {
				continue
			}
			left := make(openGroups, len(open))
			for d := range open {
				left[d] = maps.Clone(open[d])
				delete(left[d], s.dims[d].GroupOf(v.Cluster))
			}
			if found := search(append(slices.Clone(chosen), v), left); found != nil {
				return found
			}
		}
		return nil
	}
	return search(nil, open)
}

// groupsBy forms the groups of members by one dimension and scores them, in the order that the search for combinations needs:
// fewest clusters first, then the best score, then name. groupAt is the place of the group of each cluster.
func (s *spread) groupsBy(dim decision.Dimension, members []*decision.Candidate) (groups []group, groupAt []int) {
	groups, groupAt = sortInto(dim, members)
	for i := range groups {
		groups[i].found, groups[i].score = i, s.scoreOf(dim, groups[i].clusters)
	}
	slices.SortFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(len(a.clusters), len(b.clusters)), compareGroups(a, b))
	})
	moved := make([]int, len(groups))
	for i := range groups {
		moved[groups[i].found] = i
	}
	for n := range groupAt {
		groupAt[n] = moved[groupAt[n]]
	}
	return groups, groupAt
}

// sortInto forms the groups of members in the order of their first members.
func sortInto(dim decision.Dimension, members []*decision.Candidate) (groups []group, groupAt []int) {
	index := map[string]int{}
	groupAt = make([]int, len(members))
	var sizes []int
	for n, v := range members {
		name := dim.GroupOf(v.Cluster)
		at, ok := index[name]
		if !ok {
			at = len(groups)
			index[name] = at
			groups, sizes = append(groups, group{name: name}), append(sizes, 0)
		}
		groups[at].held = groups[at].held || v.Held
		groupAt[n] = at
		sizes[at]++
	}
	// All groups share one array, each its own stretch of it.
	clusters := make([]*decision.Candidate, len(members))
	for at, size := range sizes {
		groups[at].clusters, clusters = clusters[:0:size], clusters[size:]
	}
	for n, at := range groupAt {
		groups[at].clusters = append(groups[at].clusters, members[n])
	}
	return groups, groupAt
}

func compareGroups(a, b group) int {
	return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(a.name, b.name))
}

// scoreOf rates a group: by how many of its clusters can take all replicas if every cluster gets them all; by weight if weights
// divide; otherwise by how much of its share the group can take, and how good the clusters are that it needs for that.
func (s *spread) scoreOf(dim decision.Dimension, clusters []*decision.Candidate) int64 {
	req := s.round.Request
	if decision.StrategyOf(req.Placement) == decision.Static && req.Divisible() {
		return scoreByWeight(clusters)
	}
	if !req.ByAvailableReplicas() {
		return scoreOfDuplicates(clusters, req.Replicas)
	}
	least := int64(dim.Min)
	want := (s.quota.need + least - 1) / least
	atLeast := max(s.quota.least, dim.Min)
	var available, scores int64
	walked := 0
	for v := range InOrder(clusters, func(a, b *decision.Candidate) bool { return a.Key < b.Key }) {
		walked++
		available += int64(v.Available)
		scores += v.Score
		if walked >= atLeast && available >= want {
			return want*groupScore + scores/int64(walked)
		}
	}
	if available >= want {
		return want*groupScore + scores/int64(len(clusters))
	}
	return available*groupScore + scores/int64(len(clusters))
}

func scoreOfDuplicates(clusters []*decision.Candidate, replicas int32) int64 {
	var able, scores int64
	for _, v := range clusters {
		if v.Available >= replicas {
			able++
			scores += v.Score
		}
	}
	if able == 0 {
		return 0
	}
	return able*groupScore + scores/able
}

func scoreByWeight(clusters []*decision.Candidate) int64 {
	var weight float64
	for _, v := range clusters {
		weight += float64(v.Weight)
	}
	return int64(min(weight*groupScore, 1<<52))
}
