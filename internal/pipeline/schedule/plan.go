package schedule

import (
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// Fixed is a Filter whose answer about a cluster that does not hold the object
// follows from the description of the cluster, its room apart, and from the
// term, the tolerations, the spread constraints and the kind of the object.
// What it answers is kept for the next object of the same kind and placement:
// mostly one policy places thousands.
type Fixed interface {
	Filter
	// Fixed does nothing but say so.
	Fixed()
}

func isFixed(f Filter) bool {
	_, ok := f.(Fixed)
	return ok
}

// placedCheck is a check and the place of its filter in the profile.
type placedCheck struct {
	check Check
	place uint8
}

// prepare readies the filters that wanted selects for a round, in order.
func (p Profile) prepare(r *Round, wanted func(Filter) bool) ([]placedCheck, error) {
	checks := make([]placedCheck, 0, len(p.Filters))
	for place, f := range p.Filters {
		if !wanted(f) {
			continue
		}
		check, err := f.Prepare(r)
		if err != nil {
			return nil, fmt.Errorf("preparing %s: %w", f.Name(), err)
		}
		if check != nil {
			checks = append(checks, placedCheck{check, uint8(place)})
		}
	}
	return checks, nil
}

func anyFilter(Filter) bool { return true }

// plan is what the fixed filters say of every cluster of a snapshot.
type plan struct {
	dropped []uint16 // per cluster: 0 for one that passes, else 1 + the place in reasons
	reasons []planReason
}

type planReason struct {
	reason *Reason
	filter uint8
}

// planFor returns the plan for a round, from the snapshot's memory if it has one.
func (p Profile) planFor(r *Round) (*plan, error) {
	key, err := p.planKey(r)
	if err != nil {
		return nil, err
	}
	if known := r.Snapshot.plans.get(key); known != nil {
		return known, nil
	}
	checks, err := p.prepare(r, isFixed)
	if err != nil {
		return nil, err
	}
	made := &plan{dropped: make([]uint16, r.Snapshot.Len())}
	places := map[Reason]uint16{}
	var v Candidate // one for all: checks keep none
	for i, c := range r.Snapshot.clusters {
		v = Candidate{Cluster: c}
		for _, check := range checks {
			reason := check.check(&v)
			if reason == nil {
				continue
			}
			if places[*reason] == 0 {
				made.reasons = append(made.reasons, planReason{reason, check.place})
				places[*reason] = uint16(len(made.reasons))
			}
			made.dropped[i] = places[*reason]
			break
		}
	}
	r.Snapshot.plans.put(key, made)
	return made, nil
}

// planKey says everything that fixed filters may depend on.
func (p Profile) planKey(r *Round) (string, error) {
	key := struct {
		Filters     []string
		Term        string
		Affinity    *policyv1alpha1.ClusterAffinity
		Overflow    []policyv1alpha1.OverflowAffinityTerm
		Tolerations []corev1.Toleration
		Spread      []policyv1alpha1.SpreadConstraint
		APIVersion  string
		Kind        string
		KindTravels bool
		Becomes     []schema.GroupVersionKind
	}{
		Filters: p.filterNames(), Term: r.Term.Name, Affinity: r.Term.Affinity, Overflow: r.Term.Overflow,
		Spread:     r.Request.spreadConstraints(),
		APIVersion: r.Request.Resource.APIVersion, Kind: r.Request.Resource.Kind, KindTravels: r.Request.KindTravels,
		Becomes: r.Request.Becomes,
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

func (p Profile) filterNames() []string {
	names := make([]string, len(p.Filters))
	for i, f := range p.Filters {
		names[i] = f.Name()
	}
	return names
}

// maxPlanned bounds the plans that are kept, by the clusters in them all: at two
// bytes each a few megabytes.
const maxPlanned = 2_000_000

// plans remembers plans. It is safe for concurrent use.
type plans struct {
	mu    sync.Mutex
	known map[string]*plan
	size  int
}

func (p *plans) get(key string) *plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[key]
}

func (p *plans) put(key string, made *plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.size += len(made.dropped); p.known == nil || p.size > maxPlanned {
		p.known, p.size = map[string]*plan{}, len(made.dropped)
	}
	p.known[key] = made
}
