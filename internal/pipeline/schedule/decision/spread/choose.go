package spread

import (
	"fmt"
	"slices"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
)

// unbounded is a need that any capacity meets.
const unbounded = -1

// quota is what a selection has to satisfy.
type quota struct {
	// least and most bound the number of clusters; most 0 is no bound.
	least, most int
	// need is how many replicas must be available in all, or unbounded.
	need int64
}

func (q quota) atMost(n int) int {
	if q.most == 0 {
		return n
	}
	return min(n, q.most)
}

// Choose selects among the fitting clusters as the spread constraints require. Without any, all are chosen.
func Choose(r *decision.Round, a *decision.Attempt, fitting []*decision.Candidate) ([]*decision.Candidate, *decision.Failure) {
	constraints := r.Request.SpreadConstraints()
	if decision.StrategyOf(r.Request.Placement) == decision.Static && r.Request.Divisible() {
		// A cluster without weight would take up a group and receive nothing.
		fitting = slices.DeleteFunc(fitting, func(v *decision.Candidate) bool { return v.Weight == 0 })
	}
	if len(constraints) == 0 {
		return fitting, nil
	}
	if r.Request.Whole { // a better cluster is no reason to begin it anew
		if held := slices.IndexFunc(fitting, func(v *decision.Candidate) bool { return v.Held }); held >= 0 {
			fitting = fitting[held : held+1]
		}
	}
	q := quota{need: unbounded}
	q.least, q.most = decision.ClusterBounds(constraints)
	if r.Request.ByAvailableReplicas() {
		q.need = int64(r.Request.Replicas)
		if r.Request.WholeSets() {
			q.need = 1
		}
	}
	if len(fitting) < q.least {
		return nil, decision.Unschedulable(fmt.Sprintf("spreadConstraints require at least %d clusters: %s", q.least, decision.DroppedMessage(a.Candidates)))
	}
	setKeys(fitting)
	dims := decision.DimensionsOf(constraints)
	for i := range dims {
		// As in Karmada, each region that is required has its cluster, however few clusters are allowed.
		if dims[i].Name == string(policyv1alpha1.SpreadByFieldRegion) && q.most > 0 {
			q.most = max(q.most, dims[i].Min)
		}
	}
	if len(dims) == 0 {
		return chooseClusters(r, fitting, q)
	}
	return chooseGroups(r, fitting, dims, q)
}

// chooseClusters takes the best clusters, and exchanges the last of them for those with more available replicas until the replicas
// fit.
func chooseClusters(r *decision.Round, fitting []*decision.Candidate, q quota) ([]*decision.Candidate, *decision.Failure) {
	k := q.atMost(len(fitting))
	rankBest(fitting, k)
	chosen, rest := fitting[:k], fitting[k:]
	exchange(chosen, rest, q.need, func(int, *decision.Candidate) bool { return true })
	if missing := shortOf(chosen, q.need); missing > 0 && !r.Request.Partial {
		why := fmt.Sprintf("spreadConstraints allow %d clusters, which is too few", k)
		if r.Request.Whole {
			why = "one cluster runs it as a whole, and a set that runs stays in its cluster"
		}
		return nil, decision.Unschedulable(why + ": " + decision.ShortageMessage(r.Request, chosen, missing))
	}
	return chosen, nil
}

// exchange replaces chosen clusters, from the last backwards, by the one of rest that has the most available replicas and may take
// the place, until need is met.
func exchange(chosen, rest []*decision.Candidate, need int64, may func(i int, candidate *decision.Candidate) bool) {
	for i := len(chosen) - 1; i >= 0 && shortOf(chosen, need) > 0; i-- {
		best := -1
		for j, candidate := range rest {
			if candidate.Available > chosen[i].Available && (best < 0 || moreAvailable(candidate, rest[best])) && may(i, candidate) {
				best = j
			}
		}
		if best >= 0 {
			chosen[i], rest[best] = rest[best], chosen[i]
		}
	}
}

func moreAvailable(a, b *decision.Candidate) bool {
	if a.Available != b.Available {
		return a.Available > b.Available
	}
	return a.Key < b.Key
}

// shortOf returns how many replicas of need are not available in the clusters.
func shortOf(clusters []*decision.Candidate, need int64) int64 {
	if need == unbounded {
		return 0
	}
	for _, v := range clusters {
		need -= int64(v.Available)
	}
	return max(need, 0)
}
