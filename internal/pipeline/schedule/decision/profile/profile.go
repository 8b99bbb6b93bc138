package profile

import (
	"slices"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision/plugins"
)

// Profile is the set of plugins that decisions are made with. Filters are called in order, until the first that drops a cluster;
// scores are added up.
type Profile struct {
	filters []decision.Filter
	scorers []decision.Scorer
}

// Default returns the profile with all plugins.
func Default() Profile {
	return Profile{filters: plugins.Filters(), scorers: plugins.Scorers()}
}

// Displaced returns whether a target has left the fleet or no longer passes the filters.
func (p Profile) Displaced(req *decision.Request, snapshot *decision.Snapshot) bool {
	if len(req.Current) == 0 {
		return false
	}
	r := &decision.Round{Request: req, Snapshot: snapshot, Term: req.Terms()[0]}
	var err error
	if r.Tiers, err = decision.CompileTerm(r.Term); err != nil {
		return true
	}
	checks := p.prepare(r, anyFilter)
	return slices.ContainsFunc(req.Current, func(t workv1alpha2.TargetCluster) bool {
		v := decision.Candidate{Cluster: snapshot.Get(t.Name), Held: true, Current: t.Replicas}
		return v.Cluster == nil || slices.ContainsFunc(checks, func(c placedCheck) bool { return c.check(&v) != nil })
	})
}
