package schedule

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
)

const (
	// roomDelay is how long new room is left to gather before it wakes those who
	// wait for it: many clusters report, and each report may bring some.
	roomDelay = time.Second
	// wokenAtOnce bounds whom it wakes each time, so that thousands that find no
	// place do not keep a whole CPU busy looking for one: the others are next.
	wokenAtOnce = 500
)

// requeuer finds out what changed in the fleet and enqueues the bindings that it
// can matter to. Changes that come while it looks are taken together.
type requeuer struct {
	controller *Controller
	pending    chan struct{}
	stirred    chan struct{}
	redefined  chan struct{}
	seen       *decision.Snapshot

	mu     sync.Mutex
	claims map[Item]struct{} // that came or changed since the last look at who awaits them
	kinds  []interpret.Kinds // that changed since the last look at whom they concern
}

func newRequeuer(c *Controller) *requeuer {
	w := &requeuer{
		controller: c, pending: make(chan struct{}, 1), stirred: make(chan struct{}, 1), redefined: make(chan struct{}, 1),
	}
	c.freed = w.requeueWaiting
	return w
}

// claimChanged requeues the bindings that wait, and before them those that await this claim. It never blocks.
func (w *requeuer) claimChanged(namespace, name string) {
	w.mu.Lock()
	if w.claims == nil {
		w.claims = map[Item]struct{}{}
	}
	w.claims[Item{Namespace: namespace, Name: name}] = struct{}{}
	w.mu.Unlock()
	w.requeueWaiting()
}

// requeueWaiting requeues the bindings that wait, though the clusters are as they were. It never blocks.
func (w *requeuer) requeueWaiting() {
	select {
	case w.stirred <- struct{}{}:
	default:
	}
}

// wakeAwaiting enqueues those who await a claim that came. It does not wait for more to come: until their copies have the
// claim too, no device of theirs can be taken for somebody else's.
func (w *requeuer) requeueAwaitingClaims(q queue) {
	w.mu.Lock()
	claims := w.claims
	w.claims = nil
	w.mu.Unlock()
	for claim := range claims {
		for _, it := range w.controller.awaitingClaims.naming(claim) {
			add(q, it, 0)
		}
	}
}

// redefine has bindings of some kinds looked at again, though the fleet is as it was: a cluster that could not take their
// objects may be able to now. It never blocks.
// Without kinds, those of an earlier look that failed are meant.
func (w *requeuer) kindsChanged(kinds interpret.Kinds) {
	if kinds != nil {
		w.mu.Lock()
		w.kinds = append(w.kinds, kinds)
		w.mu.Unlock()
	}
	select {
	case w.redefined <- struct{}{}:
	default:
	}
}

// wakeKinds enqueues the bindings of kinds that changed. Kinds of a look that failed are kept for the next one.
func (w *requeuer) wakeKinds(ctx context.Context, q queue) error {
	w.mu.Lock()
	changes := slices.Clone(w.kinds)
	w.mu.Unlock()
	changed := map[schema.GroupVersionKind]bool{} // there are many bindings, and few kinds of them
	err := w.each(ctx, func(b workv1alpha2.Binding) {
		resource := b.BindingSpec().Resource
		kind := schema.FromAPIVersionAndKind(resource.APIVersion, resource.Kind)
		concerned, known := changed[kind]
		if !known {
			concerned = slices.ContainsFunc(changes, func(kinds interpret.Kinds) bool { return kinds(kind) })
			changed[kind] = concerned
		}
		if concerned {
			enqueue(q, b, true)
		}
	})
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.kinds = w.kinds[len(changes):] // what came meanwhile is behind
	w.mu.Unlock()
	return nil
}

// signal says that something changed. It never blocks.
func (w *requeuer) signal() {
	select {
	case w.pending <- struct{}{}:
	default:
	}
}

// start runs the requeuer until ctx ends. It is a source of the controller, whose
// workers begin when it returns: what changes after this first look wakes those
// who have been handled by then.
func (w *requeuer) start(ctx context.Context, q queue) error {
	if _, err := w.look(ctx, q); err != nil {
		return err
	}
	go w.run(ctx, q)
	return nil
}

func (w *requeuer) run(ctx context.Context, q queue) {
	var room, retry <-chan time.Time
	var calls batches
	failed := func(err error) {
		log.FromContext(ctx).Error(err, "Looking for the bindings that a change concerns failed, trying again", "after", roomDelay)
		if retry == nil {
			retry = w.controller.deps.Clock.After(roomDelay)
		}
	}
	gather := func() {
		calls.owed = true
		if room == nil {
			room = w.controller.deps.Clock.After(roomDelay)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.pending:
			roomier, err := w.look(ctx, q)
			if err != nil {
				failed(err)
			}
			if roomier {
				gather()
			}
		case <-w.stirred:
			w.requeueAwaitingClaims(q)
			gather()
		case <-w.redefined:
			if err := w.wakeKinds(ctx, q); err != nil {
				failed(err)
			}
		case <-retry:
			retry = nil
			w.signal()
			w.kindsChanged(nil)
		case <-room:
			room = nil
			woken, more := calls.next(w.controller.pending.all)
			for _, who := range woken {
				add(q, who.Item, who.priority+handler.LowPriority)
			}
			if more {
				room = w.controller.deps.Clock.After(roomDelay)
			}
		}
	}
}

// rollCall goes through those who wait, some at a time.
type batches struct {
	left []call
	owed bool // there is new room for everybody
}

// next returns whom to wake now, and whether that was not all.
func (r *batches) next(all func() []call) (woken []call, more bool) {
	if len(r.left) == 0 && r.owed {
		r.left, r.owed = all(), false
	}
	n := min(len(r.left), wokenAtOnce)
	woken, r.left = r.left[:n], r.left[n:]
	return woken, len(r.left) > 0 || r.owed
}

// look compares the fleet with what it was at the last look that succeeded, enqueues the
// bindings that a difference concerns, and says whether some cluster has more room.
func (w *requeuer) look(ctx context.Context, q queue) (roomier bool, err error) {
	now, err := w.controller.fleet.snapshot(ctx)
	if err != nil {
		return false, err
	}
	if w.seen == nil {
		// At the start every binding is looked at anyway.
		w.seen = now
		return false, nil
	}
	changes, roomier := compareFleets(w.seen, now)
	if len(changes) > 0 {
		if err := w.wake(ctx, q, changes); err != nil {
			return roomier, err
		}
	}
	w.seen = now
	return roomier, nil
}

// clusterChange is one cluster before and after; nil if it was, or is, not there.
type clusterChange struct{ before, after *decision.Cluster }

func compareFleets(before, after *decision.Snapshot) (changes []clusterChange, roomier bool) {
	for _, c := range after.Clusters {
		old := before.Get(c.Name)
		if old == c {
			continue
		}
		if decision.Differs(old, c) {
			changes = append(changes, clusterChange{old, c})
		}
		if old == nil || c.Headroom.Exceeds(&old.Headroom) {
			roomier = true
		}
	}
	for _, old := range before.Clusters {
		if after.Get(old.Name) == nil {
			changes = append(changes, clusterChange{old, nil})
		}
	}
	return changes, roomier
}

func (w *requeuer) wake(ctx context.Context, q queue, changes []clusterChange) error {
	return w.each(ctx, func(b workv1alpha2.Binding) {
		if concerns(b, w.controller.pending.has(itemOf(b)), changes) {
			enqueue(q, b, true)
		}
	})
}

// each calls do for every binding that is to be scheduled here.
func (w *requeuer) each(ctx context.Context, do func(workv1alpha2.Binding)) error {
	c := w.controller
	var bindings workv1alpha2.ResourceBindingList
	if err := c.client.List(ctx, &bindings, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing bindings: %w", err)
	}
	for i := range bindings.Items {
		if b := &bindings.Items[i]; c.mine(b) {
			do(b)
		}
	}
	var clusterBindings workv1alpha2.ClusterResourceBindingList
	if err := c.client.List(ctx, &clusterBindings, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing cluster bindings: %w", err)
	}
	for i := range clusterBindings.Items {
		if b := &clusterBindings.Items[i]; c.mine(b) {
			do(b)
		}
	}
	return nil
}

// concerns says whether a change in the fleet can change the result of b: it is
// in one of the clusters; or one of them can be selected, and either it is
// placed by the fleet as a whole or it waits for a place.
func concerns(b workv1alpha2.Binding, waiting bool, changes []clusterChange) bool {
	spec := b.BindingSpec()
	held := make(map[string]struct{}, len(spec.Clusters))
	for _, t := range spec.Clusters {
		held[t.Name] = struct{}{}
	}
	req := decision.Request{Replicas: spec.Replicas, Requirements: spec.ReplicaRequirements, Components: spec.Components, Placement: spec.Placement}
	follows := waiting || !req.Divisible() || writtenDown(spec.Placement)
	var selectors []*decision.Selector
	if follows {
		var err error
		if selectors, err = allSelectors(&req); err != nil {
			return true
		}
	}
	for _, change := range changes {
		name := ""
		for _, c := range []*decision.Cluster{change.before, change.after} {
			if c == nil {
				continue
			}
			name = c.Name
			for _, s := range selectors {
				if s.Drops(c) == nil {
					return true
				}
			}
		}
		if _, ok := held[name]; ok {
			return true
		}
	}
	return false
}

// allSelectors compiles every affinity of the placement, overflow tiers included.
func allSelectors(req *decision.Request) ([]*decision.Selector, error) {
	var out []*decision.Selector
	for _, term := range req.Terms() {
		t, err := decision.CompileTerm(term)
		if err != nil {
			return nil, err
		}
		out = append(out, t.Selectors...)
	}
	return out, nil
}
