package schedule

import (
	"encoding/json"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
)

// recall makes again the reservations of a result that was written before this controller started, as far as the members do not show
// it yet. Otherwise a restart during a burst would use the same capacity twice.
func (c *Controller) restoreReservations(it types.NamespacedName, b workv1alpha2.Binding) {
	req := decision.RequestOf(b, false)
	scheduled := b.BindingStatus().LastScheduledTime
	if !isReserved(&req, req.Current) || scheduled == nil || c.deps.Clock.Since(scheduled.Time) > reservationLifetime {
		return
	}
	units := map[string]int32{}
	for _, t := range req.Current {
		units[t.Name] = unseen(&req, t, b.BindingStatus().AggregatedStatus)
	}
	c.reservations.Reserve(it.String(), req.Demand(), units, scheduled.Time)
}

// maxCopies is to how many clusters a workload may go in full for its copies to be promised. There may be a thousand of
// them to a binding, and thousands of bindings; clusters that so many are sent to report soon enough.
const maxCopies = 100

// promises returns whether a result is reserved.
func isReserved(req *decision.Request, targets []workv1alpha2.TargetCluster) bool {
	switch {
	case !req.HasReplicas() && !req.WholeSets():
		return false
	case req.WholeSets() || decision.StrategyOf(req.Placement) == decision.Duplicated:
		return len(targets) <= maxCopies
	default:
		return true
	}
}

// unseen is how many units of a target its cluster does not show: those its
// status does not count or, for kinds that do not count, all until it is healthy.
func unseen(req *decision.Request, t workv1alpha2.TargetCluster, statuses []workv1alpha2.AggregatedStatusItem) int32 {
	for i := range statuses {
		item := &statuses[i]
		if item.ClusterName != t.Name {
			continue
		}
		var counted struct {
			Replicas *int32 `json:"replicas"`
		}
		if !req.WholeSets() && item.Status != nil && json.Unmarshal(item.Status.Raw, &counted) == nil && counted.Replicas != nil {
			return max(t.Replicas-*counted.Replicas, 0)
		}
		if item.Health == workv1alpha2.ResourceHealthy {
			return 0
		}
	}
	return req.Units(t)
}
