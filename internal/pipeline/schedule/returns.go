package schedule

import (
	"slices"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/eviction"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/cause"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
)

const returnsToCluster cause.Cause = "a cluster that it left is well again"

// tryReturn returns the decision that gives clusters their replicas back, if the binding is to return to some and fits there.
func (c *Controller) tryReturn(s *cycle, snapshot *decision.Snapshot) *decision.Decision {
	returns := slices.DeleteFunc(eviction.Returns(s.binding), func(r eviction.Return) bool {
		return eviction.IsTarget(s.binding.BindingSpec(), r.Cluster)
	})
	if len(returns) == 0 || s.req.Fresh || len(s.req.Current) == 0 {
		return nil
	}
	for _, r := range returns {
		if !fitsBack(s, snapshot, r) {
			return nil
		}
	}
	req := s.req
	req.Current, req.Failback = eviction.Returned(req.Current, returns, req.Replicas, req.Divisible() && decision.StrategyOf(req.Placement) != decision.Duplicated), true
	d := c.profile.Schedule(req, snapshot)
	for _, r := range returns {
		if !slices.ContainsFunc(d.Targets, func(t workv1alpha2.TargetCluster) bool { return t.Name == r.Cluster }) {
			return nil
		}
	}
	return &d
}

// fitsBack returns whether the replicas that return fit in the cluster. Those whose copy has never left it do.
func fitsBack(s *cycle, snapshot *decision.Snapshot, r eviction.Return) bool {
	cluster := snapshot.Get(r.Cluster)
	if cluster == nil || cluster.Leaving {
		return false
	}
	stayed := slices.ContainsFunc(s.binding.BindingStatus().AggregatedStatus, func(i workv1alpha2.AggregatedStatusItem) bool { return i.ClusterName == r.Cluster })
	if stayed || !s.req.ByAvailableReplicas() {
		return true
	}
	demand := s.req.Demand()
	return cluster.Headroom.Fit(&demand, &snapshot.Taken[snapshot.Index[r.Cluster]]) >= s.req.Units(workv1alpha2.TargetCluster{Replicas: r.Replicas})
}
