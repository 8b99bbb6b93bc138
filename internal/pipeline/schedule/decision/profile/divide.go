package profile

import (
	"github.com/flagship-k8s/flagship/internal/knowledge/capacity/division"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision/spread"
)

// setStaticWeights sets the static weights of the fitting clusters, where the placement divides by them: the largest weight of the
// rules that select a cluster, or 1 each if no rule selects any.
func setStaticWeights(r *decision.Round, fitting []*decision.Candidate) error {
	if decision.StrategyOf(r.Request.Placement) != decision.Static {
		return nil
	}
	any := false
	if preference := r.Request.Placement.ReplicaScheduling.WeightPreference; preference != nil {
		for i := range preference.StaticWeightList {
			rule := &preference.StaticWeightList[i]
			s, err := decision.CompileAffinity("staticWeightList.targetCluster", &rule.TargetCluster)
			if err != nil {
				return err
			}
			for _, v := range fitting {
				if rule.Weight > v.Weight && s.Drops(v.Cluster) == nil {
					v.Weight, any = rule.Weight, true
				}
			}
		}
	}
	if !any {
		for _, v := range fitting {
			v.Weight = 1
		}
	}
	return nil
}

// divide gives replicas to the chosen clusters and returns how many found no place.
func divide(r *decision.Round, chosen []*decision.Candidate) (missing int32) {
	req := r.Request
	if !req.Divisible() {
		return 0
	}
	switch decision.StrategyOf(req.Placement) {
	case decision.Duplicated:
		for _, v := range chosen {
			v.Replicas = req.Replicas
		}
		return 0
	case decision.Static:
		divideByWeight(req, chosen)
		return 0
	default:
		return int32(divideByAvailable(req, chosen, len(r.Tiers.Selectors))) // at most all of them
	}
}

func divideByWeight(req *decision.Request, chosen []*decision.Candidate) {
	parts := make([]weighted, 0, len(chosen))
	for _, v := range chosen {
		if v.Weight > 0 {
			parts = append(parts, weighted{v, v.Weight})
		}
	}
	assign(req, parts, int64(req.Replicas))
}

// divideByAvailable fills one overflow tier after the other; each receives no more than it can hold in all.
func divideByAvailable(req *decision.Request, chosen []*decision.Candidate, tierCount int) (missing int64) {
	if tierCount <= 1 {
		return divideSteadily(req, chosen, int64(req.Replicas))
	}
	remaining := int64(req.Replicas)
	for tier := range tierCount {
		var members []*decision.Candidate
		var available int64
		for _, v := range chosen {
			if int(v.Tier) == tier {
				members = append(members, v)
				available += int64(v.Available)
			}
		}
		part := min(remaining, available)
		remaining -= part - divideSteadily(req, members, part)
	}
	return remaining
}

// weighted is a cluster with its weight in a division.
type weighted struct {
	*decision.Candidate
	weight int64
}

// divideSteadily divides desired replicas among clusters by what is available. What runs already stays as far as desired allows:
// growing only places the difference, shrinking takes from all in proportion. A fresh request divides everything anew. It returns
// how many replicas found no place.
func divideSteadily(req *decision.Request, clusters []*decision.Candidate, desired int64) (missing int64) {
	var assigned int64
	for _, v := range clusters {
		assigned += int64(v.Current)
	}
	switch {
	case req.Fresh:
		return divideByWeights(req, clusters, desired, func(v *decision.Candidate) int32 { return v.Available }, false)
	case assigned > desired:
		return divideByWeights(req, clusters, desired, func(v *decision.Candidate) int32 { return v.Current }, false)
	default:
		for _, v := range clusters {
			v.Replicas = v.Current
		}
		return divideByWeights(req, clusters, desired-assigned, func(v *decision.Candidate) int32 { return v.Allocatable }, true)
	}
}

// divideByWeights assigns n replicas in proportion to weight, which is also the most that a cluster takes, and returns how many are
// left over. Aggregated placement uses the fewest clusters that hold them, the largest first; those that hold replicas go before
// others if heldFirst.
func divideByWeights(req *decision.Request, clusters []*decision.Candidate, n int64, weight func(*decision.Candidate) int32, heldFirst bool) (missing int64) {
	if n == 0 {
		return 0
	}
	parts := make([]weighted, 0, len(clusters))
	var sum int64
	for _, v := range clusters {
		if w := int64(weight(v)); w > 0 {
			parts = append(parts, weighted{v, w})
			sum += w
		}
	}
	if sum < n {
		missing, n = n-sum, sum
	}
	if decision.StrategyOf(req.Placement) == decision.Aggregated {
		parts = fewest(parts, n, heldFirst)
	}
	assign(req, parts, n)
	return missing
}

// fewest returns the shortest list of parts, the largest first, whose weights add up to n.
func fewest(parts []weighted, n int64, heldFirst bool) []weighted {
	before := func(a, b weighted) bool {
		if heldFirst && (a.Current > 0) != (b.Current > 0) {
			return a.Current > 0
		}
		if a.weight != b.weight {
			return a.weight > b.weight
		}
		return spread.CompareRank(a.Candidate, b.Candidate) < 0
	}
	out := parts[:0]
	for v := range spread.InOrder(parts, before) {
		if n <= 0 {
			break
		}
		out = append(out, v)
		n -= v.weight
	}
	return out
}

// assign adds n replicas to the clusters by Webster's method.
func assign(req *decision.Request, parts []weighted, n int64) {
	shares := make([]division.Share, len(parts))
	for i, v := range parts {
		shares[i] = division.Share{Name: v.Cluster.Name, Weight: v.weight}
	}
	division.Webster(int32(n), shares, req.Resource.UID)
	for i, v := range parts {
		v.Replicas += shares[i].Replicas
	}
}
