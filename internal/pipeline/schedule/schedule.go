package schedule

import (
	"fmt"
	"math"
	"strings"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// Schedule decides with all plugins of this package. See [Profile.Schedule].
func Schedule(req Request, snapshot *Snapshot) Decision {
	return DefaultProfile().Schedule(req, snapshot)
}

// Schedule chooses clusters for req and divides its replicas among them. It
// depends on its arguments alone: the same request on the same snapshot always
// gets the same answer. The terms of clusterAffinities are tried one after the
// other; the first in which everything fits is used.
func (p Profile) Schedule(req Request, snapshot *Snapshot) Decision {
	var d Decision
	for _, term := range req.terms() {
		round := &Round{Request: &req, Snapshot: snapshot, Term: term}
		attempt := p.attempt(round)
		d.Attempts = append(d.Attempts, attempt)
		if attempt.Failure == nil && attempt.missing == 0 {
			d.settle(&attempt)
			return d
		}
	}
	if best := d.mostPlaced(); best != nil {
		d.settle(best)
		return d
	}
	d.Failure = &Failure{Reason: d.Attempts[0].Failure.Reason, Message: d.Explain()}
	return d
}

func (d *Decision) settle(a *Attempt) {
	d.Targets, d.Affinity, d.Missing, d.Shortage = a.targets, a.Term.Name, a.missing, a.shortage
}

// mostPlaced returns the attempt that left the fewest replicas without a place, the earlier of equals.
func (d *Decision) mostPlaced() *Attempt {
	var best *Attempt
	for i := range d.Attempts {
		a := &d.Attempts[i]
		if a.Failure == nil && (best == nil || a.missing < best.missing) {
			best = a
		}
	}
	return best
}

// attempt runs one round: filter, score, measure room, select, divide.
func (p Profile) attempt(r *Round) Attempt {
	a := Attempt{Term: r.Term}
	var err error
	if r.tiers, err = compileTerm(r.Term); err != nil {
		a.Failure = notUnderstood(err)
		return a
	}
	fitting, err := p.filter(r, &a)
	if err != nil {
		a.Failure = notUnderstood(err)
		return a
	}
	if len(fitting) == 0 {
		a.Failure = noClusterFits(whyDropped(a.Candidates))
		return a
	}
	p.score(r, &a)
	if err := weigh(r, fitting); err != nil {
		a.Failure = notUnderstood(err)
		return a
	}
	measure(r, &a, fitting)
	chosen, failure := choose(r, &a, fitting)
	if failure != nil {
		a.Failure = failure
		return a
	}
	for _, v := range chosen {
		v.Chosen = true
	}
	if a.missing = divide(r, chosen); a.missing > 0 {
		a.shortage = whyTooLittle(r.Request, chosen, a.missing)
	}
	if a.missing > 0 && (!r.Request.Partial || !anyReplicas(chosen)) {
		a.Failure = unschedulable(a.shortage)
		return a
	}
	a.targets = targetsOf(r.Request, a.Candidates)
	return a
}

// filter asks every filter about every cluster, and returns those that all let pass, by name.
func (p Profile) filter(r *Round, a *Attempt) ([]*Candidate, error) {
	fixed, err := p.planFor(r)
	if err != nil {
		return nil, err
	}
	open, err := p.prepare(r, func(f Filter) bool { return !isFixed(f) })
	if err != nil {
		return nil, err
	}
	var all []placedCheck // for clusters that hold the object
	if len(r.Request.Current) > 0 {
		if all, err = p.prepare(r, anyFilter); err != nil {
			return nil, err
		}
	}
	a.filters, a.Candidates = p.Filters, make([]Candidate, r.Snapshot.Len())
	for _, t := range r.Request.Current {
		if i, ok := r.Snapshot.index[t.Name]; ok {
			a.Candidates[i].Held, a.Candidates[i].Current = true, t.Replicas
		}
	}
	fitting := make([]*Candidate, 0, len(a.Candidates))
	for i, c := range r.Snapshot.clusters {
		v := &a.Candidates[i]
		v.Cluster = c
		switch dropped := fixed.dropped[i]; {
		case v.Held:
			v.ask(all)
		case dropped == 0:
			v.ask(open)
		default:
			why := fixed.reasons[dropped-1]
			v.Reason, v.filter = why.reason, why.filter
			v.ask(open)
		}
		if v.Reason == nil {
			fitting = append(fitting, v)
		}
	}
	return fitting, nil
}

// ask keeps the reason of the first check, in the order of the filters, that
// drops the cluster.
func (v *Candidate) ask(checks []placedCheck) {
	for i := range checks {
		if v.Reason != nil && v.filter < checks[i].place {
			return
		}
		if reason := checks[i].check(v); reason != nil {
			v.Reason, v.filter = reason, checks[i].place
			return
		}
	}
}

func (p Profile) score(r *Round, a *Attempt) {
	var rates []Rate
	for _, s := range p.Scorers {
		if rate := s.Prepare(r); rate != nil {
			rates, a.scorers = append(rates, rate), append(a.scorers, s.Name())
		}
	}
	a.scores = make([]int64, len(rates)*len(a.Candidates))
	for i := range a.Candidates {
		v := &a.Candidates[i]
		if v.Reason != nil {
			continue
		}
		for n, rate := range rates {
			score := rate(v)
			a.scores[i*len(rates)+n] = score
			v.Score += score
		}
	}
}

// measure finds out how much room there is, where that can make a difference.
func measure(r *Round, a *Attempt, fitting []*Candidate) {
	req := r.Request
	if len(r.tiers.selectors) > 1 {
		for _, v := range fitting {
			tier, _ := r.tiers.of(v.Cluster)
			v.Tier = int16(tier)
		}
	}
	if !req.hasReplicas() && !req.wholeSets() {
		for _, v := range fitting {
			v.Allocatable, v.Available = math.MaxInt32, math.MaxInt32
		}
		return
	}
	if !req.capacious() && (len(req.spreadConstraints()) == 0 || strategyOf(req.Placement) == static) {
		return
	}
	demand := req.demand()
	outside := r.outside(r.placesOfNodes())
	for i := range a.Candidates {
		v := &a.Candidates[i]
		if v.Reason != nil {
			continue
		}
		held := v.Current
		if req.wholeSets() && v.Held {
			held = 1
		}
		if !v.Held || !outside(v.Cluster) { // it passed the filter, or keeps what it has and gets no more
			v.Allocatable = v.Cluster.room.Fit(&demand, &r.Snapshot.taken[i])
		}
		v.Available = addSaturating(v.Allocatable, held)
	}
}

func targetsOf(req *Request, candidates []Candidate) []workv1alpha2.TargetCluster {
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

// receives says whether a cluster becomes a target. Of a workload it must
// receive replicas; but scaling a workload to zero leaves its copies where they
// are, and one that is duplicated goes everywhere even with none.
func receives(req *Request, v *Candidate) bool {
	switch {
	case !v.Chosen:
		return false
	case v.Replicas > 0 || !req.divisible():
		return true
	default:
		return req.Replicas == 0 && (v.Held || strategyOf(req.Placement) == duplicated)
	}
}

func anyReplicas(chosen []*Candidate) bool {
	for _, v := range chosen {
		if v.Replicas > 0 {
			return true
		}
	}
	return false
}

// whyTooLittle says how much room there is, and where.
func whyTooLittle(req *Request, chosen []*Candidate, missing int64) string {
	if req.wholeSets() {
		return "Clusters available replicas 0 are not enough to schedule. No chosen cluster has room for a whole set of components"
	}
	var available int64
	rooms := make([]string, 0, namesPerReason)
	for _, v := range chosen {
		room := int64(v.Allocatable)
		if req.Fresh {
			room = int64(v.Available)
		}
		available += room
		if len(rooms) < namesPerReason {
			rooms = append(rooms, fmt.Sprintf("%s for %d", v.Cluster.Name, room))
		}
	}
	text := fmt.Sprintf("Clusters available replicas %d are not enough to schedule. %d of %d replicas found no place; room for more: %s",
		available, missing, req.Replicas, strings.Join(rooms, ", "))
	if more := len(chosen) - len(rooms); more > 0 {
		text += fmt.Sprintf(" and %d more clusters", more)
	}
	return text
}
