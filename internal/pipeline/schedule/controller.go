package schedule

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/capacity"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/fairqueue"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision/profile"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/fleet"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/metrics"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/peers"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/pending"
)

const (
	// workers is how many bindings are reconciled at once. They wait for the API most of the time; decisions about capacity are made
	// one at a time.
	workers = 16
	// recheck is when a binding that has no place is scheduled again if no event requeues it before.
	recheck = 5 * time.Minute
	// reservationLifetime is how long a reservation counts that no member ever confirmed.
	reservationLifetime = 5 * time.Minute
)

// Deps is what the package needs.
type Deps struct {
	// Client is that of package hubclient: a binding that it reads is not older than the last result.
	Client client.Client
	// Events takes one event per changed result, and one per new failure.
	Events events.Recorder
	Clock  clock.Clock
	// SchedulerName is that of the bindings to handle; empty means the default scheduler.
	SchedulerName string
	// NoExecute is that of package evict: taints NoExecute evict objects without cluster failover, too.
	NoExecute bool
	// Conversion has definitions that go to members with their objects, kinds that objects can be converted to, and what devices
	// they claim. nil means that there is nothing of it.
	Conversion conversion.Adviser
	// Metrics takes the scheduler's metrics. nil registers none.
	Metrics prometheus.Registerer
}

// Controller schedules bindings. It is safe for concurrent use, but not two calls of Reconcile for the same binding.
type Controller struct {
	client  client.Client
	deps    Deps
	profile profile.Profile

	metrics      *metrics.Metrics
	fleet        *fleet.Fleet
	reservations *capacity.Reservations
	peers        *peers.Index
	pending      *pending.Bindings
	// awaitingClaims are those that were placed without a claim they name.
	awaitingClaims pending.Claims
	// freed is called when pending bindings may fit though the clusters are unchanged: another binding was deleted, moved or needs
	// less. It must not block. It is a function since the requeuer is made after the controller.
	freed func()
	// deciding is held while a decision depends on the reservations of others.
	deciding sync.Mutex
	expired  time.Time
}

// New returns a Controller.
func New(deps Deps) *Controller {
	deps.SchedulerName = cmp.Or(deps.SchedulerName, policyv1alpha1.DefaultSchedulerName)
	reservations, waiting := capacity.NewReservations(reservationLifetime), pending.NewBindings()
	deps.Conversion = conversion.OrUnchanged(deps.Conversion)
	return &Controller{
		client: deps.Client, deps: deps, profile: profile.Default(), metrics: metrics.New(deps.Metrics, waiting.Len),
		fleet: fleet.New(deps.Client, reservations), reservations: reservations, peers: peers.New(), pending: waiting,
		freed: func() {},
	}
}

// Setup adds the controller to mgr.
func (c *Controller) Setup(mgr ctrl.Manager) error {
	requeuer := newRequeuer(c, controlloop.Of(mgr))
	if err := mgr.Add(requeuer); err != nil {
		return fmt.Errorf("adding the requeuer: %w", err)
	}
	c.deps.Conversion.Subscribe(requeuer.converted)
	err := builder.TypedControllerManagedBy[types.NamespacedName](mgr).
		Named("schedule").
		WithOptions(controller.TypedOptions[types.NamespacedName]{
			MaxConcurrentReconciles: workers,
			NewQueue:                fairqueue.Maker(func(key types.NamespacedName) string { return key.Namespace }),
			RateLimiter:             backoff.Limiter[types.NamespacedName](),
		}).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), &workv1alpha2.ResourceBinding{}, bindingEvents[*workv1alpha2.ResourceBinding](c))).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), &workv1alpha2.ClusterResourceBinding{}, bindingEvents[*workv1alpha2.ClusterResourceBinding](c))).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), &clusterv1alpha1.Cluster{}, clusterEvents(c, requeuer))).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), &fleetv1alpha1.ClusterCapacity{}, capacityEvents(c, requeuer))).
		WatchesRawSource(source.TypedFunc[types.NamespacedName](requeuer.start)).
		Complete(controlloop.Track(mgr, c))
	if err != nil {
		return fmt.Errorf("building the schedule controller: %w", err)
	}
	return nil
}

// Reconcile schedules one binding if that is due, and writes what changed.
func (c *Controller) Reconcile(ctx context.Context, key types.NamespacedName) (reconcile.Result, error) {
	controlloop.About(ctx, key.String())
	b := workv1alpha2.EmptyBinding(key.Namespace)
	err := c.client.Get(ctx, key, b, client.UnsafeDisableDeepCopy) // it is that of the cache and must not be changed
	if apierrors.IsNotFound(err) {
		c.forget(key)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading binding: %w", err)
	}
	if !c.responsible(b) {
		c.pending.Remove(key)
		return reconcile.Result{}, nil
	}
	start := c.deps.Clock.Now()
	s, err := c.decide(ctx, key, b)
	if err != nil {
		c.metrics.Decided(nil)
		return reconcile.Result{}, err
	}
	if s.decision == nil {
		err = c.observe(ctx, b)
	} else {
		c.metrics.Decided(s.decision)
		c.metrics.Took(metrics.PhaseDecide, c.deps.Clock.Since(start))
		start = c.deps.Clock.Now()
		defer func() { c.metrics.Took(metrics.PhaseWrite, c.deps.Clock.Since(start)) }()
		log.FromContext(ctx).V(1).Info("Scheduled binding", "cause", s.cause, "targets", listTargets(s.decision.Targets))
		err = c.publish(ctx, s)
	}
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: backoff.Conflict}, nil
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: s.requeueAfter}, nil
}

// responsible returns whether b is to be scheduled here and now: it belongs to a policy or to a controller of the control plane,
// names this scheduler, and is not suspended.
func (c *Controller) responsible(b workv1alpha2.Binding) bool {
	spec := b.BindingSpec()
	if !b.GetDeletionTimestamp().IsZero() || cmp.Or(spec.SchedulerName, policyv1alpha1.DefaultSchedulerName) != c.deps.SchedulerName ||
		spec.Suspension != nil && ptr.Deref(spec.Suspension.Scheduling, false) {
		return false
	}
	return slices.ContainsFunc([]string{
		policyv1alpha1.PropagationPolicyPermanentIDLabel, policyv1alpha1.ClusterPropagationPolicyPermanentIDLabel, workv1alpha2.BindingManagedByLabel,
	}, func(label string) bool { return b.GetLabels()[label] != "" })
}

// forget removes a binding that is gone from all indexes.
func (c *Controller) forget(key types.NamespacedName) {
	grouped, reserved := c.peers.Remove(key), c.reservations.Forget(key.String())
	c.pending.Remove(key)
	c.awaitingClaims.Remove(key)
	if grouped || reserved {
		c.freed()
	}
}

// kindTravels returns whether the definition of the kind goes to a cluster with the object of b.
func (c *Controller) kindTravels(b workv1alpha2.Binding) bool {
	spec := b.BindingSpec()
	return spec.PropagateDeps && c.deps.Conversion.Definition(spec.Resource.GroupVersionKind()) != ""
}
