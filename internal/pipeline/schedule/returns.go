package schedule

import (
	"slices"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/eviction"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
)

const returnsToCluster cause = "a cluster that it left is well again"

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
	req.Current, req.Failback = returned(req.Current, returns, req.Replicas, req.Divisible() && decision.StrategyOf(req.Placement) != decision.Duplicated), true
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

// returned is where an object is after it has returned. Replicas that are divided are taken from clusters that took over first, from
// the largest first; otherwise one of those clusters makes way.
func returned(current []workv1alpha2.TargetCluster, returns []eviction.Return, replicas int32, divided bool) []workv1alpha2.TargetCluster {
	out := slices.Clone(current)
	for _, r := range returns {
		newcomer := func(t workv1alpha2.TargetCluster) bool { return !slices.Contains(r.Before, t.Name) }
		if !divided {
			if at := slices.IndexFunc(out, newcomer); at >= 0 {
				out = slices.Delete(out, at, at+1)
			}
			out = append(out, workv1alpha2.TargetCluster{Name: r.Cluster, Replicas: r.Replicas})
			continue
		}
		take := min(r.Replicas, replicas)
		excess := take - replicas
		for _, t := range out {
			excess += t.Replicas
		}
		for excess > 0 {
			from, all := largest(out, newcomer), true
			if from < 0 {
				from, all = largest(out, func(workv1alpha2.TargetCluster) bool { return true }), false
			}
			n := out[from].Replicas
			if !all {
				n = (n + 1) / 2 // so that the others keep about the same
			}
			n = min(n, excess)
			out[from].Replicas, excess = out[from].Replicas-n, excess-n
		}
		out = slices.DeleteFunc(out, func(t workv1alpha2.TargetCluster) bool { return t.Replicas == 0 })
		out = append(out, workv1alpha2.TargetCluster{Name: r.Cluster, Replicas: take})
	}
	return out
}

// largest returns which of the targets that may give replicas has the most; -1 if none has any.
func largest(targets []workv1alpha2.TargetCluster, may func(workv1alpha2.TargetCluster) bool) int {
	at := -1
	for i, t := range targets {
		if t.Replicas > 0 && may(t) && (at < 0 || t.Replicas > targets[at].Replicas) {
			at = i
		}
	}
	return at
}
