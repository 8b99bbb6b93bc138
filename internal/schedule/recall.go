package schedule

import (
	"encoding/json"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// recall makes again the promises of a result that somebody wrote before this
// controller started, as far as the members do not show it yet. Without, a
// restart amid a burst would give the same room away twice.
func (c *Controller) recall(it Item, b workv1alpha2.Binding) {
	req := requestOf(b, false)
	scheduled := b.BindingStatus().LastScheduledTime
	if !promises(&req) || scheduled == nil || c.deps.Clock.Since(scheduled.Time) > promiseLifetime {
		return
	}
	units := map[string]int32{}
	for _, t := range req.Current {
		units[t.Name] = unseen(t, b.BindingStatus().AggregatedStatus)
	}
	c.ledger.Promise(it.String(), req.demand(), units, scheduled.Time)
}

// promises says whether a result is noted in the ledger. Copies that every
// cluster gets in full are not: there may be a thousand to a binding.
func promises(req *Request) bool {
	return req.divisible() && strategyOf(req.Placement) != duplicated
}

// unseen is how many replicas of a target its cluster does not show: those its
// status does not count or, for kinds that do not count, all until it is healthy.
func unseen(t workv1alpha2.TargetCluster, statuses []workv1alpha2.AggregatedStatusItem) int32 {
	for i := range statuses {
		item := &statuses[i]
		if item.ClusterName != t.Name {
			continue
		}
		var counted struct {
			Replicas *int32 `json:"replicas"`
		}
		if item.Status != nil && json.Unmarshal(item.Status.Raw, &counted) == nil && counted.Replicas != nil {
			return max(t.Replicas-*counted.Replicas, 0)
		}
		if item.Health == workv1alpha2.ResourceHealthy {
			return 0
		}
	}
	return t.Replicas
}
