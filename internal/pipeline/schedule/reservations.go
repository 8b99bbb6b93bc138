package schedule

import (
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
)

// reserve records what a decision assigns to clusters, before it is written.
func (c *Controller) reserve(s *cycle) {
	if c.peers.Place(s.key, s.binding, s.decision.Targets) {
		c.freed()
	}
	if !isReserved(&s.req, s.decision.Targets) {
		return
	}
	s.reserved = map[string]int32{}
	for _, t := range s.decision.Targets {
		s.reserved[t.Name] = s.req.Units(t)
	}
	for _, t := range s.binding.BindingSpec().Clusters {
		if had := s.req.Units(t); s.reserved[t.Name] != had {
			s.reserved[t.Name] -= had
		} else {
			delete(s.reserved, t.Name)
		}
	}
	if c.reservations.Reserve(s.key.String(), s.req.Demand(), s.reserved, c.deps.Clock.Now()) {
		c.freed()
	}
}

// takeBackReservations undoes reserve after a write that failed.
func (c *Controller) takeBackReservations(s *cycle) {
	c.peers.Place(s.key, s.binding, s.binding.BindingSpec().Clusters)
	if s.reserved == nil {
		return
	}
	for name := range s.reserved {
		s.reserved[name] *= -1
	}
	c.reservations.Reserve(s.key.String(), s.req.Demand(), s.reserved, c.deps.Clock.Now())
	s.reserved = nil // once: a refused result is followed by a second write, which may fail as well
}

// expireReservations is called with deciding held.
func (c *Controller) expireReservations() {
	if now := c.deps.Clock.Now(); now.Sub(c.expired) > time.Minute {
		c.expired = now
		c.reservations.Expire(now)
	}
}

// confirm marks the reservations of copies that run since before.
func (c *Controller) confirm(key types.NamespacedName, before, after workv1alpha2.Binding) {
	old := before.BindingStatus().AggregatedStatus
	for i := range after.BindingStatus().AggregatedStatus {
		item := &after.BindingStatus().AggregatedStatus[i]
		if item.Health != workv1alpha2.ResourceHealthy {
			continue
		}
		// A copy that was healthy before the reservation does not prove that the reserved replicas run; only a change does.
		if i < len(old) && equality.Semantic.DeepEqual(old[i], *item) {
			continue
		}
		c.reservations.Running(key.String(), item.ClusterName)
	}
}

// restoreReservations makes again the reservations of a result that was written before this controller started, as far as the members
// do not show it yet. Otherwise a restart during a burst would use the same capacity twice.
func (c *Controller) restoreReservations(key types.NamespacedName, b workv1alpha2.Binding) {
	req := decision.RequestOf(b, false)
	scheduled := b.BindingStatus().LastScheduledTime
	if !isReserved(&req, req.Current) || scheduled == nil || c.deps.Clock.Since(scheduled.Time) > reservationLifetime {
		return
	}
	units := map[string]int32{}
	for _, t := range req.Current {
		units[t.Name] = unseen(&req, t, b.BindingStatus().AggregatedStatus)
	}
	c.reservations.Reserve(key.String(), req.Demand(), units, scheduled.Time)
}

// maxCopies is to how many clusters a workload may go in full for its copies to be reserved. There may be a thousand for a binding,
// and thousands of bindings; clusters that receive so many report soon enough.
const maxCopies = 100

// isReserved returns whether a result is reserved.
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

// unseen is how many units of a target its cluster does not show: those its status does not count or, for kinds that do not count,
// all until it is healthy.
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
			return t.Replicas - min(max(*counted.Replicas, 0), t.Replicas) // it shows neither less than nothing nor more than it should have
		}
		if item.Health == workv1alpha2.ResourceHealthy {
			return 0
		}
	}
	return req.Units(t)
}
