package schedule

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
	"github.com/flagship-k8s/flagship/internal/knowledge/fairqueue"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/cause"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/fleet"
)

// requeuer enqueues the bindings that a change of other objects concerns: of clusters, definitions or claims. It runs in a goroutine of
// its own, since a change may concern thousands, and changes that come meanwhile are handled together.
type requeuer struct {
	controller *Controller
	loop       *controlloop.Loop
	// queue receives the queue of the controller once.
	queue chan queue
	// Each of these has one element after a change of its kind.
	clusters, capacity, kinds chan struct{}
	// changes of clusters are those whose bindings are not enqueued yet.
	changes []fleet.Change

	changedKinds interpret.PendingKinds

	mu            sync.Mutex
	changedClaims map[types.NamespacedName]struct{}
}

func newRequeuer(c *Controller, loop *controlloop.Loop) *requeuer {
	r := &requeuer{
		controller: c, loop: loop, queue: make(chan queue, 1), changedClaims: map[types.NamespacedName]struct{}{},
		clusters: make(chan struct{}, 1), capacity: make(chan struct{}, 1), kinds: make(chan struct{}, 1),
	}
	c.freed = r.requeuePending
	return r
}

// notify sends to a channel that holds one element. It never blocks.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// requeuePending requeues the bindings that wait, though the clusters are unchanged.
func (r *requeuer) requeuePending() { notify(r.capacity) }

// clusterChanged requeues the bindings that the changes of clusters concern.
func (r *requeuer) clusterChanged() { notify(r.clusters) }

// converted requeues the bindings that a change of definitions or claims concerns: those of some kinds; or those that await a claim,
// and after them all that wait.
func (r *requeuer) converted(change conversion.Change) {
	if change.Kinds != nil {
		r.changedKinds.Add(change.Kinds)
		notify(r.kinds)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changedClaims[change.Claim] = struct{}{}
	notify(r.capacity)
}

// start is a source of the controller. The workers begin when it returns: a change after this first snapshot is handled.
func (r *requeuer) start(ctx context.Context, q queue) error {
	if _, err := r.compare(ctx, q); err != nil {
		return err
	}
	r.queue <- q
	return nil
}

// Start runs until ctx ends. The manager waits for it.
func (r *requeuer) Start(ctx context.Context) error {
	var q queue
	select {
	case <-ctx.Done():
		return nil
	case q = <-r.queue:
	}
	clock := r.controller.deps.Clock
	var gathered, retry <-chan time.Time
	turn := func(f func(context.Context) error) {
		if !r.loop.Turn(ctx, "finding the bindings that a change concerns", f) && retry == nil {
			retry = clock.After(backoff.Gather)
		}
	}
	requeueAll := func() {
		r.controller.pending.RequeueAll()
		if gathered == nil {
			gathered = clock.After(backoff.Gather)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.clusters:
			turn(func(ctx context.Context) error {
				more, err := r.compare(ctx, q)
				if more {
					requeueAll()
				}
				return err
			})
		case <-r.capacity:
			turn(func(context.Context) error {
				defer requeueAll()
				r.requeueAwaitingClaims(q)
				return nil
			})
		case <-r.kinds:
			turn(func(ctx context.Context) error { return r.requeueKinds(ctx, q) })
		case <-retry:
			retry = nil
			notify(r.clusters)
			notify(r.capacity)
			notify(r.kinds)
		case <-gathered:
			gathered = nil
			batch, more := r.controller.pending.NextBatch()
			for _, b := range batch {
				fairqueue.Enqueue(q, b.Priority+handler.LowPriority, b.Key)
			}
			if more {
				gathered = clock.After(backoff.Gather)
			}
		}
	}
}

// requeueAwaitingClaims enqueues the bindings that await a claim that changed. It does not wait for more changes: until their copies
// have the claim too, their devices may seem free.
func (r *requeuer) requeueAwaitingClaims(q queue) {
	r.mu.Lock()
	claims := r.changedClaims
	r.changedClaims = map[types.NamespacedName]struct{}{}
	r.mu.Unlock()
	for claim := range claims {
		for _, key := range r.controller.awaitingClaims.Naming(claim) {
			fairqueue.Enqueue(q, 0, key)
		}
	}
}

// requeueKinds enqueues the bindings of kinds that changed. After a failure the kinds are kept.
func (r *requeuer) requeueKinds(ctx context.Context, q queue) error {
	return r.changedKinds.Handle(func(kinds interpret.Kinds) error {
		changed := map[schema.GroupVersionKind]bool{} // there are many bindings, and few kinds of them
		return r.each(ctx, func(b workv1alpha2.Binding) {
			kind := b.BindingSpec().Resource.GroupVersionKind()
			concerned, known := changed[kind]
			if !known {
				concerned = kinds(kind)
				changed[kind] = concerned
			}
			if concerned {
				enqueue(q, b, true)
			}
		})
	})
}

// compare enqueues the bindings that changes of clusters concern, and returns whether some cluster has more capacity. After a failure the
// changes are kept.
func (r *requeuer) compare(ctx context.Context, q queue) (more bool, err error) {
	changes, err := r.controller.fleet.TakeChanges(ctx)
	if err != nil {
		return false, err
	}
	r.changes = append(r.changes, changes...)
	differing := slices.DeleteFunc(slices.Clone(r.changes), func(c fleet.Change) bool { return !decision.Differs(c.Before, c.After) })
	more = slices.ContainsFunc(r.changes, func(c fleet.Change) bool {
		return c.After != nil && (c.Before == nil || c.After.Headroom.Exceeds(&c.Before.Headroom))
	})
	if len(differing) > 0 {
		changed := namesOf(differing)
		err := r.each(ctx, func(b workv1alpha2.Binding) {
			if holdsAny(b, changed) || selectsAny(b, r.controller.pending.Has(client.ObjectKeyFromObject(b)), differing) {
				enqueue(q, b, true)
			}
		})
		if err != nil {
			return more, err
		}
	}
	r.changes = nil
	return more, nil
}

// each calls do for every binding that is to be scheduled here.
func (r *requeuer) each(ctx context.Context, do func(workv1alpha2.Binding)) error {
	bindings, err := hubclient.Bindings(ctx, r.controller.client)
	if err != nil {
		return fmt.Errorf("finding bindings to requeue: %w", err)
	}
	for _, b := range bindings {
		if r.controller.responsible(b) {
			do(b)
		}
	}
	return nil
}

// namesOf returns the names of clusters that changed.
func namesOf(changes []fleet.Change) sets.Set[string] {
	names := sets.New[string]()
	for _, change := range changes {
		for _, c := range []*decision.Cluster{change.Before, change.After} {
			if c != nil {
				names.Insert(c.Name)
			}
		}
	}
	return names
}

// holdsAny returns whether b is in one of some clusters.
func holdsAny(b workv1alpha2.Binding, names sets.Set[string]) bool {
	return slices.ContainsFunc(b.BindingSpec().Clusters, func(t workv1alpha2.TargetCluster) bool { return names.Has(t.Name) })
}

// selectsAny returns whether one of the clusters that changed can be, or could be, selected for b, and b follows the clusters as a whole or
// waits for a place.
func selectsAny(b workv1alpha2.Binding, waiting bool, changes []fleet.Change) bool {
	spec := b.BindingSpec()
	req := decision.Request{Replicas: spec.Replicas, Requirements: spec.ReplicaRequirements, Components: spec.Components, Placement: spec.Placement}
	if !waiting && !cause.FollowsClusters(&req) {
		return false
	}
	var selectors []*decision.Selector
	for _, term := range req.Terms() {
		tiers, err := decision.CompileTerm(term)
		if err != nil {
			return true
		}
		selectors = append(selectors, tiers.Selectors...)
	}
	selected := func(c *decision.Cluster) bool {
		return c != nil && slices.ContainsFunc(selectors, func(s *decision.Selector) bool { return s.Drops(c) == nil })
	}
	return slices.ContainsFunc(changes, func(change fleet.Change) bool { return selected(change.Before) || selected(change.After) })
}
