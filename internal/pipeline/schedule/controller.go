package schedule

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/capacity"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/fairqueue"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision/profile"
)

const (
	// workers is how many bindings are handled at once. They wait for the API
	// most of the time; decisions about capacity are made one at a time.
	workers = 16
	// retryWaiting is how long a binding that found no place waits if nothing wakes it.
	retryWaiting = 5 * time.Minute
	// staleDelay is how long to wait for the cache to show what was just written.
	staleDelay = 50 * time.Millisecond
	// promiseLifetime is how long a promise counts that no member ever confirmed.
	promiseLifetime = 5 * time.Minute
)

// Deps is what the package needs.
type Deps struct {
	// Events takes one event per changed result, and one per new failure.
	Events events.Recorder
	// Clock tells the time.
	Clock clock.Clock
	// SchedulerName is that of the bindings to handle; empty means the default scheduler.
	SchedulerName string
	// Profile is the plugins to decide with; nil means all of this package.
	Profile *profile.Profile
	// Conversion knows definitions that go to members with their objects, kinds that objects can be converted to, and what devices
	// they claim. nil means that there is nothing of it.
	Conversion conversion.Adviser
	// Metrics takes the scheduler's metrics. nil registers none.
	Metrics prometheus.Registerer
}

// Item identifies a binding: a ClusterResourceBinding has no namespace.
type Item = types.NamespacedName

// Controller schedules bindings. It is safe for concurrent use, but not two
// calls of Reconcile for the same Item.
type Controller struct {
	client  client.Client
	deps    Deps
	profile profile.Profile

	metrics      *metrics
	fleet        *fleet
	reservations *capacity.Reservations
	peers        *peerIndex
	pending      *pendingBindings
	// awaiting are those that were placed without a claim they name.
	awaitingClaims *awaitingClaims
	// freed is called when those who wait may fit though the fleet is as it was: somebody went, moved, or wants less. It
	// must not block.
	freed func()
	// written maps an Item to the resource version of our last write to it.
	written sync.Map
	// deciding is held while a decision depends on what others were promised.
	deciding sync.Mutex
	expired  time.Time
}

// New returns a Controller that reads and writes through c.
func New(c client.Client, deps Deps) *Controller {
	if deps.SchedulerName == "" {
		deps.SchedulerName = policyv1alpha1.DefaultSchedulerName
	}
	profile := profile.Default()
	if deps.Profile != nil {
		profile = *deps.Profile
	}
	ledger, waiting := capacity.NewReservations(promiseLifetime), newPendingBindings()
	deps.Conversion = conversion.OrUnchanged(deps.Conversion)
	return &Controller{
		client: c, deps: deps, profile: profile, metrics: newMetrics(deps.Metrics, waiting.size),
		fleet: newFleet(c, ledger), reservations: ledger, peers: newPeerIndex(), pending: waiting, awaitingClaims: &awaitingClaims{names: map[Item]string{}},
		freed: func() {},
	}
}

// Setup adds the room to mgr.
func Setup(mgr ctrl.Manager, deps Deps) error {
	c := New(mgr.GetClient(), deps)
	w := newRequeuer(c)
	c.deps.Conversion.Subscribe(func(change conversion.Change) {
		if change.Kinds != nil {
			w.kindsChanged(change.Kinds)
		} else {
			w.claimChanged(change.Claim.Namespace, change.Claim.Name)
		}
	})
	err := builder.TypedControllerManagedBy[Item](mgr).
		Named("schedule").
		WithOptions(controller.TypedOptions[Item]{
			MaxConcurrentReconciles: workers,
			NewQueue:                fairqueue.Maker(func(it Item) string { return it.Namespace }),
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[Item](50*time.Millisecond, time.Minute),
		}).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), &workv1alpha2.ResourceBinding{}, bindingEvents[*workv1alpha2.ResourceBinding](c))).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), &workv1alpha2.ClusterResourceBinding{}, bindingEvents[*workv1alpha2.ClusterResourceBinding](c))).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), &clusterv1alpha1.Cluster{}, clusterEvents(c, w))).
		WatchesRawSource(source.TypedFunc[Item](w.start)).
		Complete(controlloop.Track(mgr, c))
	if err != nil {
		return fmt.Errorf("building the schedule controller: %w", err)
	}
	return nil
}

// Reconcile looks at one binding, schedules it if that is due, and writes what changed.
func (c *Controller) Reconcile(ctx context.Context, it Item) (reconcile.Result, error) {
	b, err := c.read(ctx, it)
	if apierrors.IsNotFound(err) {
		c.forget(it)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading binding: %w", err)
	}
	if !c.mine(b) {
		c.pending.leave(it)
		return reconcile.Result{}, nil
	}
	if c.cacheIsBehind(it, b) {
		return reconcile.Result{RequeueAfter: staleDelay}, nil
	}
	start := c.deps.Clock.Now()
	outcome, err := c.decide(ctx, it, b)
	if err != nil {
		c.metrics.decided(nil)
		return reconcile.Result{}, err
	}
	if outcome.decision == nil {
		err = c.observe(ctx, it, b)
	} else {
		c.metrics.decided(outcome.decision)
		c.metrics.took(phaseDecide, c.deps.Clock.Since(start))
		start = c.deps.Clock.Now()
		defer func() { c.metrics.took(phaseWrite, c.deps.Clock.Since(start)) }()
		log.FromContext(ctx).V(1).Info("Scheduled binding", "cause", outcome.cause, "targets", listTargets(outcome.decision.Targets))
		err = c.publish(ctx, it, b, &outcome)
	}
	switch {
	case apierrors.IsConflict(err):
		// Somebody was faster. What they wrote is on its way into the cache.
		return reconcile.Result{RequeueAfter: staleDelay}, nil
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: outcome.again}, nil
}

// read gets a binding from the cache. It is shared: it must not be changed.
func (c *Controller) read(ctx context.Context, it Item) (workv1alpha2.Binding, error) {
	if it.Namespace == "" {
		b := &workv1alpha2.ClusterResourceBinding{}
		return b, c.client.Get(ctx, it, b, client.UnsafeDisableDeepCopy)
	}
	b := &workv1alpha2.ResourceBinding{}
	return b, c.client.Get(ctx, it, b, client.UnsafeDisableDeepCopy)
}

// mine says whether b is to be scheduled here and now: it belongs to a policy
// or to a controller of ours, names this scheduler, and is not suspended.
func (c *Controller) mine(b workv1alpha2.Binding) bool {
	spec := b.BindingSpec()
	if !b.GetDeletionTimestamp().IsZero() {
		return false
	}
	name := spec.SchedulerName
	if name == "" {
		name = policyv1alpha1.DefaultSchedulerName
	}
	if name != c.deps.SchedulerName {
		return false
	}
	if spec.Suspension != nil && spec.Suspension.Scheduling != nil && *spec.Suspension.Scheduling {
		return false
	}
	for _, key := range []string{
		policyv1alpha1.PropagationPolicyPermanentIDLabel,
		policyv1alpha1.ClusterPropagationPolicyPermanentIDLabel,
		workv1alpha2.BindingManagedByLabel,
	} {
		if b.GetLabels()[key] != "" {
			return true
		}
	}
	return false
}

func (c *Controller) forget(it Item) {
	grouped, promised := c.peers.forget(it), c.reservations.Forget(it.String())
	c.pending.leave(it)
	c.awaitingClaims.leave(it)
	c.written.Delete(it)
	if grouped || promised {
		c.freed()
	}
}

// kindTravels says whether a cluster may receive the object of b before it serves its kind.
func (c *Controller) kindTravels(b workv1alpha2.Binding) bool {
	spec := b.BindingSpec()
	return spec.PropagateDeps && c.deps.Conversion.Definition(kindOf(b)) != ""
}

func kindOf(b workv1alpha2.Binding) schema.GroupVersionKind {
	resource := b.BindingSpec().Resource
	return schema.FromAPIVersionAndKind(resource.APIVersion, resource.Kind)
}
