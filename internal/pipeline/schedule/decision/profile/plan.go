package profile

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
)

// placedCheck is a check and the place of its filter in the profile.
type placedCheck struct {
	check decision.Check
	place uint8
}

// prepare readies the filters that wanted selects for a round, in order.
func (p Profile) prepare(r *decision.Round, wanted func(decision.Filter) bool) []placedCheck {
	checks := make([]placedCheck, 0, len(p.filters))
	for place, f := range p.filters {
		if !wanted(f) {
			continue
		}
		if check := f.Prepare(r); check != nil {
			checks = append(checks, placedCheck{check, uint8(place)})
		}
	}
	return checks
}

func anyFilter(decision.Filter) bool  { return true }
func isFixed(f decision.Filter) bool  { return f.Fixed }
func notFixed(f decision.Filter) bool { return !f.Fixed }

// planFor returns the plan for a round, from the snapshot's memory if it has one.
func (p Profile) planFor(r *decision.Round) (*decision.Plan, error) {
	key, err := planKey(r)
	if err != nil {
		return nil, err
	}
	if known := r.Snapshot.Plans.Get(key); known != nil {
		return known, nil
	}
	checks := p.prepare(r, isFixed)
	made := &decision.Plan{Dropped: make([]uint16, r.Snapshot.Len())}
	places := map[decision.Reason]uint16{}
	var v decision.Candidate // one for all: checks keep none
	for i, c := range r.Snapshot.Clusters {
		v = decision.Candidate{Cluster: c}
		for _, check := range checks {
			reason := check.check(&v)
			if reason == nil {
				continue
			}
			if places[*reason] == 0 {
				made.Reasons = append(made.Reasons, decision.PlanReason{Reason: reason, Filter: check.place})
				places[*reason] = uint16(len(made.Reasons))
			}
			made.Dropped[i] = places[*reason]
			break
		}
	}
	r.Snapshot.Plans.Put(key, made)
	return made, nil
}

// planKey has everything that fixed filters may depend on.
func planKey(r *decision.Round) (string, error) {
	key := struct {
		Term        string
		Affinity    *policyv1alpha1.ClusterAffinity
		Overflow    []policyv1alpha1.OverflowAffinityTerm
		Tolerations []corev1.Toleration
		Spread      []policyv1alpha1.SpreadConstraint
		APIVersion  string
		Kind        string
		KindTravels bool
		Becomes     []schema.GroupVersionKind
		Failover    bool
		Expelled    bool
	}{
		Term: r.Term.Name, Affinity: r.Term.Affinity, Overflow: r.Term.Overflow,
		Spread:     r.Request.SpreadConstraints(),
		APIVersion: r.Request.Resource.APIVersion, Kind: r.Request.Resource.Kind, KindTravels: r.Request.KindTravels,
		Becomes: r.Request.Becomes, Failover: r.Request.Failover, Expelled: r.Request.Expelled,
	}
	if placement := r.Request.Placement; placement != nil {
		key.Tolerations = placement.ClusterTolerations
	}
	raw, err := json.Marshal(key)
	if err != nil {
		return "", fmt.Errorf("encoding the placement: %w", err)
	}
	return string(raw), nil
}
