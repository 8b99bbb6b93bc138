package schedule

import (
	"slices"
	"time"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/cause"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
)

const cannotRun cause.Cause = "some replicas cannot run in their cluster"

// limitsOf are the limits of a binding by cluster.
func limitsOf(b workv1alpha2.Binding, now time.Time) map[string]int32 {
	limits := workv1alpha2.ReplicaLimits(b, now)
	if len(limits) == 0 {
		return nil
	}
	out := make(map[string]int32, len(limits))
	for cluster, limit := range limits {
		out[cluster] = limit.Replicas
	}
	return out
}

// tryRelieve returns the decision that moves the replicas which are over a limit to other clusters, if all of them fit there. Otherwise
// they stay, and the binding waits for a place until the limit ends.
func (c *Controller) tryRelieve(s *cycle, snapshot *decision.Snapshot) (d *decision.Decision) {
	over := false
	defer func() { c.pending.SetStuck(s.key, priorityOf(s.binding), over && d == nil) }()
	if len(s.req.Limits) == 0 || s.req.Fresh || !s.req.Divisible() || !s.req.ByAvailableReplicas() {
		return nil
	}
	req := s.req
	req.Current = slices.Clone(s.req.Current)
	for i := range req.Current {
		if limit, ok := req.Limits[req.Current[i].Name]; ok && req.Current[i].Replicas > limit {
			req.Current[i].Replicas, over = limit, true
		}
	}
	if !over {
		return nil
	}
	req.Current = slices.DeleteFunc(req.Current, func(t workv1alpha2.TargetCluster) bool { return t.Replicas == 0 })
	relieved := c.profile.Schedule(req, snapshot)
	if relieved.Failure != nil || relieved.Missing > 0 {
		return nil
	}
	return &relieved
}
