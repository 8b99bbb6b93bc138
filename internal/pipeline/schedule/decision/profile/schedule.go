package profile

import (
	"math"
	"slices"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision/plugins"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision/spread"
)

// Schedule decides with all plugins of this package. See [Profile.Schedule].
func Schedule(req decision.Request, snapshot *decision.Snapshot) decision.Decision {
	return Default().Schedule(req, snapshot)
}

// Schedule chooses clusters for req and divides its replicas among them. It depends on its arguments alone: the same request on the
// same snapshot always gets the same decision. The terms of clusterAffinities are tried one after the other; the first in which
// everything fits is used.
func (p Profile) Schedule(req decision.Request, snapshot *decision.Snapshot) decision.Decision {
	var d decision.Decision
	for _, term := range req.Terms() {
		round := &decision.Round{Request: &req, Snapshot: snapshot, Term: term}
		attempt := p.attempt(round)
		d.Attempts = append(d.Attempts, attempt)
		if attempt.Failure == nil && attempt.Missing == 0 {
			d.Accept(&attempt)
			return d
		}
	}
	if best := d.MostPlaced(); best != nil {
		d.Accept(best)
		return d
	}
	d.Failure = &decision.Failure{Reason: d.Attempts[0].Failure.Reason, Message: d.Explain()}
	return d
}

// attempt runs one round.
func (p Profile) attempt(r *decision.Round) decision.Attempt {
	a := decision.Attempt{Term: r.Term}
	a.Failure = p.run(r, &a)
	return a
}

// run filters, scores, estimates what is available, selects and divides.
func (p Profile) run(r *decision.Round, a *decision.Attempt) *decision.Failure {
	var err error
	if r.Tiers, err = decision.CompileTerm(r.Term); err != nil {
		return decision.InvalidRequest(err)
	}
	fitting, err := p.filter(r, a)
	if err != nil {
		return decision.InvalidRequest(err)
	}
	if len(fitting) == 0 {
		return decision.NoClusterFits(decision.DroppedMessage(a.Candidates))
	}
	p.score(r, a)
	if err := setStaticWeights(r, fitting); err != nil {
		return decision.InvalidRequest(err)
	}
	estimate(r, a, fitting)
	chosen, failure := spread.Choose(r, a, fitting)
	if failure != nil {
		return failure
	}
	for _, v := range chosen {
		v.Chosen = true
	}
	if a.Missing = divide(r, chosen); a.Missing > 0 {
		a.Shortage = decision.ShortageMessage(r.Request, chosen, int64(a.Missing))
		placed := slices.ContainsFunc(chosen, func(v *decision.Candidate) bool { return v.Replicas > 0 })
		if !r.Request.Partial || !placed {
			return decision.Unschedulable(a.Shortage)
		}
	}
	a.Targets = targetsOf(r.Request, a.Candidates)
	return nil
}

// filter calls every filter for every cluster, and returns those that pass all, by name.
func (p Profile) filter(r *decision.Round, a *decision.Attempt) ([]*decision.Candidate, error) {
	fixed, err := p.planFor(r)
	if err != nil {
		return nil, err
	}
	open := p.prepare(r, notFixed)
	var all []placedCheck // for clusters that hold the object
	if len(r.Request.Current) > 0 {
		all = p.prepare(r, anyFilter)
	}
	a.Filters, a.Candidates = p.filters, make([]decision.Candidate, r.Snapshot.Len())
	for _, t := range r.Request.Current {
		if i, ok := r.Snapshot.Index[t.Name]; ok {
			a.Candidates[i].Held, a.Candidates[i].Current = true, t.Replicas
		}
	}
	fitting := make([]*decision.Candidate, 0, len(a.Candidates))
	for i, c := range r.Snapshot.Clusters {
		v := &a.Candidates[i]
		v.Cluster = c
		switch dropped := fixed.Dropped[i]; {
		case v.Held:
			applyChecks(v, all)
		case dropped == 0:
			applyChecks(v, open)
		default:
			why := fixed.Reasons[dropped-1]
			v.Reason, v.Filter = why.Reason, why.Filter
			applyChecks(v, open)
		}
		if v.Reason == nil {
			fitting = append(fitting, v)
		}
	}
	return fitting, nil
}

// applyChecks keeps the reason of the first check, in the order of the filters, that drops the cluster.
func applyChecks(v *decision.Candidate, checks []placedCheck) {
	for i := range checks {
		if v.Reason != nil && v.Filter < checks[i].place {
			return
		}
		if reason := checks[i].check(v); reason != nil {
			v.Reason, v.Filter = reason, checks[i].place
			return
		}
	}
}

func (p Profile) score(r *decision.Round, a *decision.Attempt) {
	var rates []decision.Rate
	for _, s := range p.scorers {
		if rate := s.Prepare(r); rate != nil {
			rates, a.Scorers = append(rates, rate), append(a.Scorers, s.Name)
		}
	}
	a.Points = make([]int64, len(rates)*len(a.Candidates))
	for i := range a.Candidates {
		v := &a.Candidates[i]
		if v.Reason != nil {
			continue
		}
		for n, rate := range rates {
			score := rate(v)
			a.Points[i*len(rates)+n] = score
			v.Score += score
		}
	}
}

// estimate computes how many replicas fit, where that can make a difference.
func estimate(r *decision.Round, a *decision.Attempt, fitting []*decision.Candidate) {
	req := r.Request
	if len(r.Tiers.Selectors) > 1 {
		for _, v := range fitting {
			tier, _ := r.Tiers.Of(v.Cluster)
			v.Tier = int16(tier)
		}
	}
	if !req.HasReplicas() && !req.WholeSets() {
		for _, v := range fitting {
			v.Allocatable, v.Available = math.MaxInt32, math.MaxInt32
		}
		return
	}
	if !req.ByAvailableReplicas() && (len(req.SpreadConstraints()) == 0 || decision.StrategyOf(req.Placement) == decision.Static) {
		return
	}
	demand := req.Demand()
	outside := plugins.OutsideNodes(r)
	for i := range a.Candidates {
		v := &a.Candidates[i]
		if v.Reason != nil {
			continue
		}
		held := v.Current
		if req.WholeSets() && v.Held {
			held = 1
		}
		if !v.Held || !outside(v.Cluster) { // it passed the filter, or keeps what it has and gets no more
			v.Allocatable = v.Cluster.Headroom.Fit(&demand, &r.Snapshot.Taken[i])
		}
		if limit, ok := req.Limits[v.Cluster.Name]; ok {
			v.Allocatable = min(v.Allocatable, max(limit-held, 0))
		}
		v.Available = int32(min(int64(v.Allocatable)+int64(held), math.MaxInt32))
	}
}

func targetsOf(req *decision.Request, candidates []decision.Candidate) []workv1alpha2.TargetCluster {
	n := 0
	for i := range candidates {
		if receives(req, &candidates[i]) {
			n++
		}
	}
	targets := make([]workv1alpha2.TargetCluster, 0, n)
	for i := range candidates {
		if v := &candidates[i]; receives(req, v) {
			targets = append(targets, workv1alpha2.TargetCluster{Name: v.Cluster.Name, Replicas: v.Replicas})
		}
	}
	return targets
}

// receives returns whether a cluster becomes a target. Of a workload it must receive replicas; but scaling a workload to zero leaves
// its copies where they are, one that is duplicated goes everywhere even with none, and one whose clusters keep their replicas stays
// where a share is none.
func receives(req *decision.Request, v *decision.Candidate) bool {
	switch {
	case !v.Chosen:
		return false
	case v.Replicas > 0 || !req.Divisible():
		return true
	case req.Retained && v.Held:
		return v.Weight > 0 || decision.StrategyOf(req.Placement) != decision.Static
	default:
		return req.Replicas == 0 && (v.Held || decision.StrategyOf(req.Placement) == decision.Duplicated)
	}
}
