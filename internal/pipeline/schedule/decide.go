package schedule

import (
	"context"
	"k8s.io/apimachinery/pkg/types"
	"slices"
	"strconv"
	"time"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision/plugins"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/peers"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/pending"
)

// outcome is what one reconcile of a binding decided.
type outcome struct {
	// decision is nil if there was nothing to decide.
	decision *decision.Decision
	cause    cause
	fresh    bool
	// again is when to look next, if nothing happens before; zero is never.
	requeueAfter time.Duration
	// remaining is what is left of the present result after a failure: all of it but clusters that leave or have left.
	remaining []workv1alpha2.TargetCluster
	// promised is what was reserved, to be taken back if the write fails.
	reserved map[string]int32
	demand   *decision.Request
	// awaits is true if the binding has to be scheduled again when claims are created.
	awaits bool
}

const (
	returnsToAffinity cause = "an earlier affinity fits again"
	claimsCreated     cause = "the claims it names have come"
)

// decide decides whether b is due, and decides. Decisions that depend on what others were promised are made one at a time, and
// what they give away is noted before the next begins.
func (c *Controller) decide(ctx context.Context, it types.NamespacedName, b workv1alpha2.Binding) (outcome, error) {
	req := decision.RequestOf(b, c.kindTravels(b))
	req.Becomes = c.deps.Conversion.Alternatives(ctx, kindOf(b))
	var err error
	if req.Devices, err = c.deps.Conversion.Devices(ctx, b); err != nil {
		return outcome{}, err
	}
	awaits, came := awaitsClaims(b, &req), pending.AwaitsClaims(b) && !req.Devices.Missing
	if came && !runsAnywhere(b) {
		req.Current = nil // nothing of it can have run: it is placed as if it were new
	}
	if req.ByAvailableReplicas() || peers.Grouped(b) {
		c.deciding.Lock()
		defer c.deciding.Unlock()
		c.expireReservations()
	}
	snapshot, err := c.fleet.snapshot(ctx)
	if err != nil {
		return outcome{}, err
	}
	c.peers.Fill(&req, it, b)
	out := outcome{cause: due(c.profile, b, &req, snapshot), fresh: req.Fresh, awaits: awaits}
	if out.cause == notDue && came {
		out.cause = claimsCreated
	}
	if d, again := c.tryFailback(it, b, req, snapshot); d != nil {
		out.decision, out.cause = d, returnsToAffinity
	} else if out.cause != notDue {
		d := c.profile.Schedule(req, snapshot)
		out.decision, out.requeueAfter = &d, again
	} else {
		out.requeueAfter = again
		return out, nil
	}
	c.wait(it, b, &out)
	c.waitForDevices(it, b, &req, &out)
	if out.decision.Failure == nil {
		c.reserve(it, b, &req, &out)
	} else {
		out.remaining = remaining(b.BindingSpec().Clusters, snapshot)
	}
	return out, nil
}

// awaitsClaims returns whether an object is being placed while a claim it names does not exist.
func awaitsClaims(b workv1alpha2.Binding, req *decision.Request) bool {
	return req.Devices.Missing && (pending.AwaitsClaims(b) || len(req.Current) == 0)
}

func runsAnywhere(b workv1alpha2.Binding) bool {
	return slices.ContainsFunc(b.BindingStatus().AggregatedStatus,
		func(item workv1alpha2.AggregatedStatusItem) bool { return item.Health == workv1alpha2.ResourceHealthy })
}

// remaining lists the targets whose clusters are there to stay.
func remaining(current []workv1alpha2.TargetCluster, snapshot *decision.Snapshot) []workv1alpha2.TargetCluster {
	out := make([]workv1alpha2.TargetCluster, 0, len(current))
	for _, t := range current {
		if cluster := snapshot.Get(t.Name); cluster != nil && !cluster.Leaving {
			out = append(out, t)
		}
	}
	return out
}

// tryFailback returns the decision for an earlier term of clusterAffinities, if the binding wants to return to one and it has
// fitted for long enough; otherwise, when to look again.
func (c *Controller) tryFailback(it types.NamespacedName, b workv1alpha2.Binding, req decision.Request, snapshot *decision.Snapshot) (*decision.Decision, time.Duration) {
	after, wanted := failback(b.GetAnnotations())
	now := termIndex(&req, req.ObservedAffinity)
	if !wanted || now <= 0 || req.Fresh {
		return nil, 0
	}
	req.Failback = true
	d := c.profile.Schedule(req, snapshot)
	index := termIndex(&req, d.Affinity)
	fits := d.Failure == nil && d.Missing == 0 && index >= 0 && index < now
	waited := c.pending.Fits(it, fits, c.deps.Clock.Now())
	switch {
	case !fits:
		return nil, recheck
	case waited < after:
		return nil, after - waited
	default:
		return &d, 0
	}
}

func termIndex(req *decision.Request, name string) int {
	if req.Placement == nil || name == "" {
		return -1
	}
	for i := range req.Placement.ClusterAffinities {
		if req.Placement.ClusterAffinities[i].AffinityName == name {
			return i
		}
	}
	return -1
}

// wait keeps a binding in pendingBindings that has no place, lacks some, or has one it wants to return from.
func (c *Controller) wait(it types.NamespacedName, b workv1alpha2.Binding, v *outcome) {
	d := v.decision
	_, wantsBack := failback(b.GetAnnotations())
	switch {
	case d.Failure != nil && d.Failure.Reason == workv1alpha2.BindingReasonSchedulerError:
		// Only a change of the binding itself can help.
		c.pending.Remove(it)
	case d.Failure != nil || d.Missing > 0:
		c.pending.Add(it, priorityOf(b))
		if v.requeueAfter == 0 || v.requeueAfter > recheck {
			v.requeueAfter = recheck
		}
	case wantsBack && termIndex(&decision.Request{Placement: b.BindingSpec().Placement}, d.Affinity) > 0:
		c.pending.Add(it, priorityOf(b))
	default:
		c.pending.Remove(it)
	}
}

// waitForDevices keeps an object in pendingBindings as long as some cluster is left out for the devices it claims: it
// may go there when they are free, also if it has a place elsewhere.
func (c *Controller) waitForDevices(it types.NamespacedName, b workv1alpha2.Binding, req *decision.Request, v *outcome) {
	if !req.Devices.Together().IsEmpty() && v.decision.Dropped(plugins.DevicesFilter) {
		c.pending.Add(it, priorityOf(b))
		if v.requeueAfter == 0 || v.requeueAfter > recheck {
			v.requeueAfter = recheck
		}
	}
}

// promise notes what the decision gives away, before it is written.
func (c *Controller) reserve(it types.NamespacedName, b workv1alpha2.Binding, req *decision.Request, v *outcome) {
	if c.peers.Place(it, b, v.decision.Targets) {
		c.freed()
	}
	if !isReserved(req, v.decision.Targets) {
		return
	}
	v.reserved, v.demand = map[string]int32{}, req
	for _, t := range v.decision.Targets {
		v.reserved[t.Name] = req.Units(t)
	}
	for _, t := range b.BindingSpec().Clusters {
		if had := req.Units(t); v.reserved[t.Name] != had {
			v.reserved[t.Name] -= had
		} else {
			delete(v.reserved, t.Name)
		}
	}
	if c.reservations.Reserve(it.String(), req.Demand(), v.reserved, c.deps.Clock.Now()) {
		c.freed()
	}
}

// takeBack undoes promise after a write that failed.
func (c *Controller) takeBackReservations(it types.NamespacedName, b workv1alpha2.Binding, v *outcome) {
	c.peers.Place(it, b, b.BindingSpec().Clusters)
	if v.reserved == nil {
		return
	}
	back := make(map[string]int32, len(v.reserved))
	for name, n := range v.reserved {
		back[name] = -n
	}
	c.reservations.Reserve(it.String(), v.demand.Demand(), back, c.deps.Clock.Now())
	v.reserved = nil // once: a refused result is followed by a second write, which may fail as well
}

// expirePromises is called with deciding held.
func (c *Controller) expireReservations() {
	if now := c.deps.Clock.Now(); now.Sub(c.expired) > time.Minute {
		c.expired = now
		c.reservations.Expire(now)
	}
}

// failback returns how long an earlier term must fit before it is returned to,
// and whether that is wanted at all. What cannot be read is not wanted.
func failback(annotations map[string]string) (time.Duration, bool) {
	value, ok := annotations[policyv1alpha1.FailbackAnnotation]
	if !ok {
		return 0, false
	}
	if yes, err := strconv.ParseBool(value); err == nil {
		return 0, yes
	}
	after, err := time.ParseDuration(value)
	return max(after, 0), err == nil
}
