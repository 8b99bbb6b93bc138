package schedule

import (
	"context"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/cause"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision/plugins"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/peers"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/pending"
)

// cycle is one scheduling cycle: a binding, the request made of it, and what was decided.
type cycle struct {
	key     types.NamespacedName
	binding workv1alpha2.Binding
	req     decision.Request
	// decision is nil if there was nothing to decide.
	decision *decision.Decision
	cause    cause.Cause
	// requeueAfter is when to schedule again if no event requeues the binding before; zero is never.
	requeueAfter time.Duration
	// remaining is what is left of the present result after a failure: all of it but clusters that leave or have left; nothing if the
	// placement selects no cluster any more.
	remaining []workv1alpha2.TargetCluster
	// reserved is to be taken back if the write fails.
	reserved map[string]int32
	// awaitsClaims is true if the binding has to be scheduled again when claims are created.
	awaitsClaims bool
}

const (
	returnsToAffinity cause.Cause = "an earlier affinity fits again"
	claimsCreated     cause.Cause = "the claims it names have been created"
)

// decide makes a decision if b is due. Decisions that depend on reservations are made one at a time, and what they reserve is recorded
// before the next begins.
func (c *Controller) decide(ctx context.Context, key types.NamespacedName, b workv1alpha2.Binding) (*cycle, error) {
	s := &cycle{key: key, binding: b}
	if isOver(b) {
		c.pending.Remove(key) // also one that is stuck
		return s, nil
	}
	var err error
	if s.req, err = c.request(ctx, b); err != nil {
		return nil, err
	}
	s.awaitsClaims = s.req.Devices.Missing && (pending.AwaitsClaims(b) || len(s.req.Current) == 0)
	created := pending.AwaitsClaims(b) && !s.req.Devices.Missing
	if created && !runsAnywhere(b) {
		s.req.Current = nil // nothing of it can have run: it is placed as if it were new
	}
	if s.req.ByAvailableReplicas() || peers.Grouped(b) {
		c.deciding.Lock()
		defer c.deciding.Unlock()
		c.expireReservations()
	}
	snapshot, err := c.fleet.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	c.peers.Fill(&s.req, key, b)
	s.cause = cause.Of(c.profile, b, &s.req, snapshot)
	if s.cause == cause.NotDue && created {
		s.cause = claimsCreated
	}
	if s.decision = c.tryReturn(s, snapshot); s.decision != nil {
		s.cause = returnsToCluster
	} else if s.decision = c.tryRelieve(s, snapshot); s.decision != nil {
		s.cause = cannotRun
	} else if s.decision, s.requeueAfter = c.tryFailback(s, snapshot); s.decision != nil {
		s.cause = returnsToAffinity
	} else if s.cause == cause.NotDue {
		return s, nil
	} else {
		d := c.profile.Schedule(s.req, snapshot)
		s.decision = &d
	}
	c.updatePending(s)
	switch {
	case s.decision.Failure == nil:
		c.reserve(s)
	case s.decision.Unselected(snapshot) && !policyv1alpha1.IsOn(b.GetAnnotations(), policyv1alpha1.KeepUnselectedAnnotation):
		s.remaining = nil
	default:
		s.remaining = c.staying(s, snapshot)
	}
	return s, nil
}

// staying lists the targets that stay after a failure. Copies that are being evicted, and find no other place, have the replicas that they
// would have without the eviction, so that the object can be scaled meanwhile, and the result is the same whichever comes first.
func (c *Controller) staying(s *cycle, snapshot *decision.Snapshot) []workv1alpha2.TargetCluster {
	left := snapshot.Remaining(s.binding.BindingSpec().Clusters)
	if len(s.req.Evicting) == 0 || s.decision.Failure.Reason == workv1alpha2.BindingReasonSchedulerError {
		return left
	}
	req := s.req
	req.Evicting, req.Fresh = nil, false
	d := c.profile.Schedule(req, snapshot)
	moves := slices.ContainsFunc(d.Targets, func(target workv1alpha2.TargetCluster) bool {
		return !slices.ContainsFunc(left, func(t workv1alpha2.TargetCluster) bool { return t.Name == target.Name })
	})
	if d.Failure != nil || d.Missing > 0 || len(d.Targets) == 0 || moves {
		return left
	}
	return d.Targets
}

// request reads what a decision about b depends on, without its peers.
func (c *Controller) request(ctx context.Context, b workv1alpha2.Binding) (decision.Request, error) {
	req := decision.RequestOf(b, c.kindTravels(b))
	req.Expelled = req.Expelled || c.deps.NoExecute
	req.Limits = limitsOf(b, c.deps.Clock.Now())
	req.Becomes = c.deps.Conversion.Alternatives(ctx, b.BindingSpec().Resource.GroupVersionKind())
	var err error
	req.Devices, err = c.deps.Conversion.Devices(ctx, b)
	return req, err
}

// isOver returns whether a binding keeps its result for good: its template ran to its end in all its clusters, and in another one it would
// run once more. A policy that requires a run in every cluster that it selects is different: a cluster that is added runs it.
func isOver(b workv1alpha2.Binding) bool {
	placement := cause.PlacementOf(b)
	everyCluster := decision.StrategyOf(placement) == decision.Duplicated && len(placement.SpreadConstraints)+len(placement.ClusterAffinities) == 0
	return !everyCluster && workv1alpha2.FinishedOf(b).Everywhere(b.BindingSpec().Clusters)
}

func runsAnywhere(b workv1alpha2.Binding) bool {
	return slices.ContainsFunc(b.BindingStatus().AggregatedStatus,
		func(item workv1alpha2.AggregatedStatusItem) bool { return item.Health == workv1alpha2.ResourceHealthy })
}

// tryFailback returns the decision for an earlier term of clusterAffinities, if the binding is to return to one and it has fitted
// for long enough; otherwise, when to try again.
func (c *Controller) tryFailback(s *cycle, snapshot *decision.Snapshot) (*decision.Decision, time.Duration) {
	after, wanted := failback(s.binding.GetAnnotations())
	now := cause.TermIndex(s.req.Placement, s.req.ObservedAffinity)
	if !wanted || now <= 0 || s.req.Fresh {
		return nil, 0
	}
	req := s.req
	req.Failback = true
	d := c.profile.Schedule(req, snapshot)
	index := cause.TermIndex(req.Placement, d.Affinity)
	fits := d.Failure == nil && d.Missing == 0 && index >= 0 && index < now
	fitted := c.pending.Fits(s.key, fits, c.deps.Clock.Now())
	switch {
	case !fits:
		return nil, recheck
	case fitted < after:
		return nil, after - fitted
	default:
		return &d, 0
	}
}

// updatePending adds a binding to those that wait if it has no place or lacks some, or if clusters were dropped for the devices that
// its object claims: it may go there when they are free. A binding that is to return to an earlier term waits, too. After an error
// only a change of the binding itself can help.
func (c *Controller) updatePending(s *cycle) {
	d := s.decision
	_, returns := failback(s.binding.GetAnnotations())
	switch {
	case d.Failure != nil && d.Failure.Reason != workv1alpha2.BindingReasonSchedulerError, d.Missing > 0,
		!s.req.Devices.Together().IsEmpty() && d.Dropped(plugins.DevicesFilter):
		c.pending.Add(s.key, priorityOf(s.binding))
		if s.requeueAfter == 0 || s.requeueAfter > recheck {
			s.requeueAfter = recheck
		}
	case returns && cause.TermIndex(s.req.Placement, d.Affinity) > 0:
		c.pending.Add(s.key, priorityOf(s.binding))
	default:
		c.pending.Settle(s.key)
	}
	if s.requeueAfter > 0 {
		c.pending.SetNext(s.key, c.deps.Clock.Now().Add(s.requeueAfter))
	}
}

// failback returns for how long an earlier term must fit before the object returns to it, and whether it is to return at all. A value
// that cannot be parsed counts as false.
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
