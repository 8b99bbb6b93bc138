package profile

import (
	"github.com/flagship-k8s/flagship/internal/knowledge/affinity"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision/plugins"
)

// Obstacle is a filter that drops a cluster, with all its reasons, not the first alone as in a decision.
type Obstacle struct {
	Filter string
	Reason *decision.Reason
	// Changes would let the cluster pass this filter, together. None means that no small change is known.
	Changes []string
}

// Obstacles returns what keeps an object from a cluster in one term: every filter that drops the candidate.
func (p Profile) Obstacles(req *decision.Request, snapshot *decision.Snapshot, term decision.Term) (func(decision.Candidate) []Obstacle, error) {
	r := &decision.Round{Request: req, Snapshot: snapshot, Term: term}
	var err error
	if r.Tiers, err = decision.CompileTerm(term); err != nil {
		return nil, err
	}
	checks := p.prepare(r, anyFilter)
	return func(v decision.Candidate) []Obstacle {
		var found []Obstacle
		for _, c := range checks {
			if reason := c.check(&v); reason != nil {
				name := p.filters[c.place].Name
				found = append(found, Obstacle{Filter: name, Reason: reason, Changes: changes(name, r, v, c.check)})
			}
		}
		return found
	}, nil
}

// changes lists what to change for a cluster to pass a filter.
func changes(filter string, r *decision.Round, v decision.Candidate, check decision.Check) (out []string) {
	switch filter {
	case decision.ClusterAffinityFilter:
		return affinity.Changes(r.Term.Path(), r.Term.Affinity, v.Cluster.Cluster)
	case plugins.TaintFilter:
		// The check returns the first taint. With one taint at a time it returns each that is not tolerated.
		for i := range v.Cluster.Taints {
			only := *v.Cluster
			only.Taints = v.Cluster.Taints[i : i+1]
			t := &only.Taints[0]
			switch reason := check(&decision.Candidate{Cluster: &only}); {
			case reason == nil:
			case t.Failure:
				out = append(out, "make the cluster ready")
			case reason == t.Limited:
				out = append(out, "tolerate "+t.ToString()+" without tolerationSeconds")
			default:
				out = append(out, "tolerate "+t.ToString())
			}
		}
	case plugins.APIFilter:
		if v.Cluster.APIs.Complete {
			out = append(out, "serve "+r.Request.Resource.APIVersion+" "+r.Request.Resource.Kind+" in the cluster")
		}
	case plugins.SpreadFilter:
		for _, d := range decision.DimensionsOf(r.Request.SpreadConstraints()) {
			if d.GroupOf(v.Cluster) == "" {
				out = append(out, "give the cluster a "+d.Name)
			}
		}
	}
	return out
}
