package evict

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/eviction"
	"github.com/flagship-k8s/flagship/internal/knowledge/fairqueue"
)

// workers is how many bindings are reconciled at once.
const workers = 8

// fieldManager is the name of this package in managed fields.
const fieldManager = client.FieldOwner("flagship-evict")

// Config defines when objects leave clusters. A zero value means the default of each field.
type Config struct {
	// NoExecute has NoExecute taints evict objects whose policies do not have cluster failover, too. Default: only those that do.
	NoExecute bool
	// PurgeMode is that of policies without cluster failover. Default Gracefully.
	PurgeMode policyv1alpha1.PurgeMode
	// Grace is for how long a cluster that is not ready is tolerated if the policy has no time for it. Default 30 s.
	Grace time.Duration
	// Timeout is how long a copy stays if the copies elsewhere do not become healthy and the task has no time of its own.
	Timeout time.Duration
	// Rate is how many clusters of a zone are admitted each second, SecondaryRate the same in a zone of more than LargeZone clusters
	// of which the share UnhealthyZone is not ready; in a smaller one it is 0 then. Defaults 0.1, 0.01, 50 and 0.55.
	Rate, SecondaryRate, UnhealthyZone float64
	LargeZone                          int
	// Share is the part of the fleet from which objects may be evicted at the same time. Default 0.5.
	Share float64
	// Observation is for how long the control plane observes the clusters after a start or a gap in its clock. Default 1 min.
	Observation time.Duration
}

func (c Config) complete() Config {
	c.PurgeMode = cmp.Or(c.PurgeMode, policyv1alpha1.PurgeModeGracefully)
	c.Grace, c.Timeout = cmp.Or(c.Grace, 30*time.Second), cmp.Or(c.Timeout, 10*time.Minute)
	c.Rate, c.SecondaryRate, c.UnhealthyZone = cmp.Or(c.Rate, 0.1), cmp.Or(c.SecondaryRate, 0.01), cmp.Or(c.UnhealthyZone, 0.55)
	c.LargeZone, c.Share, c.Observation = cmp.Or(c.LargeZone, 50), cmp.Or(c.Share, 0.5), cmp.Or(c.Observation, time.Minute)
	return c
}

// Deps is what the package needs. All fields are required.
type Deps struct {
	// Config is called at every decision: what it returns may change, but for NoExecute.
	Config func() Config
	// Client is that of package hubclient.
	Client client.Client
	// Templates reads templates, to find out whether they have persistent volumes.
	Templates hubstore.Reader
	// EvictionRate is shared with application failover.
	EvictionRate *eviction.Rate
	Events       events.Recorder
	Clock        clock.WithTicker
	Metrics      prometheus.Registerer
}

// Reconciler evicts bindings from clusters, and ends their tasks.
type Reconciler struct {
	Deps
	guard   *guard
	metrics *metrics
}

func newReconciler(deps Deps) *Reconciler {
	return &Reconciler{Deps: deps, guard: newGuard(deps.Config), metrics: newMetrics(deps.Metrics)}
}

// Setup adds the controller and its guard to mgr.
func Setup(mgr ctrl.Manager, deps Deps) error {
	r := newReconciler(deps)
	w := &clusterChecker{Reconciler: r, loop: controlloop.Of(mgr), clusters: make(chan struct{}, 1), queue: make(chan queue, 1)}
	if err := mgr.Add(w); err != nil {
		return fmt.Errorf("adding the guard of evictions: %w", err)
	}
	err := builder.TypedControllerManagedBy[types.NamespacedName](mgr).
		Named("evict").
		WithOptions(controller.TypedOptions[types.NamespacedName]{
			MaxConcurrentReconciles: workers,
			NewQueue:                fairqueue.Maker(func(key types.NamespacedName) string { return key.Namespace }),
			RateLimiter:             backoff.Limiter[types.NamespacedName](),
			SkipNameValidation:      new(true),
		}).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), &workv1alpha2.ResourceBinding{}, bindingEvents[*workv1alpha2.ResourceBinding](r))).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), &workv1alpha2.ClusterResourceBinding{}, bindingEvents[*workv1alpha2.ClusterResourceBinding](r))).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), &clusterv1alpha1.Cluster{}, w.clusterEvents())).
		WatchesRawSource(source.TypedFunc[types.NamespacedName](w.start)).
		Complete(controlloop.Track(mgr, r))
	if err != nil {
		return fmt.Errorf("building the controller of evictions: %w", err)
	}
	return nil
}

// bindingEvents enqueues bindings with tasks, with places to return to, or with targets in clusters that fail.
func bindingEvents[B interface {
	client.Object
	workv1alpha2.Binding
}](r *Reconciler) handler.TypedFuncs[B, types.NamespacedName] {
	enqueue := func(b workv1alpha2.Binding, q queue) {
		if r.concerns(b) {
			fairqueue.Enqueue(q, 0, client.ObjectKeyFromObject(b))
		}
	}
	return handler.TypedFuncs[B, types.NamespacedName]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[B], q queue) { enqueue(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[B], q queue) {
			if e.ObjectOld.GetResourceVersion() != e.ObjectNew.GetResourceVersion() {
				enqueue(e.ObjectNew, q)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[B], _ queue) {
			r.guard.forget(client.ObjectKeyFromObject(e.Object))
		},
	}
}

// concerns returns whether there may be something to do about a binding.
func (r *Reconciler) concerns(b workv1alpha2.Binding) bool {
	spec, annotations := b.BindingSpec(), b.GetAnnotations()
	return len(spec.GracefulEvictionTasks) > 0 || annotations[workv1alpha2.ReturnsAnnotation] != "" || annotations[workv1alpha2.FailedOverAnnotation] != "" ||
		conditionOf(b) != nil ||
		slices.ContainsFunc(spec.Clusters, func(t workv1alpha2.TargetCluster) bool { return r.guard.concerns(t.Name) })
}

// names returns whether a binding is in a cluster, leaves it, or may return to it.
func names(b workv1alpha2.Binding, clusters []string) bool {
	spec := b.BindingSpec()
	in := func(name string) bool { return slices.Contains(clusters, name) }
	returns := func(p eviction.Return) bool { return in(p.Cluster) }
	return slices.ContainsFunc(spec.Clusters, func(t workv1alpha2.TargetCluster) bool { return in(t.Name) }) ||
		slices.ContainsFunc(spec.GracefulEvictionTasks, func(t workv1alpha2.GracefulEvictionTask) bool { return in(t.FromCluster) }) ||
		slices.ContainsFunc(eviction.Returns(b), returns) || slices.ContainsFunc(eviction.FailedOver(b), returns)
}

// Reconcile brings the tasks of one binding up to date.
func (r *Reconciler) Reconcile(ctx context.Context, key types.NamespacedName) (reconcile.Result, error) {
	b := workv1alpha2.EmptyBinding(key.Namespace)
	err := r.Client.Get(ctx, key, b, client.UnsafeDisableDeepCopy) // it is that of the cache and must not be changed
	if apierrors.IsNotFound(err) || err == nil && b.GetDeletionTimestamp() != nil {
		r.guard.forget(key)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the binding: %w", err)
	}
	p := &pass{Reconciler: r, Config: r.Deps.Config().complete(), key: key, now: r.Clock.Now(), before: b, next: b.DeepCopyObject().(workv1alpha2.Binding), clusters: map[string]*clusterv1alpha1.Cluster{}}
	if err := p.run(ctx); err != nil {
		return reconcile.Result{}, err
	}
	_, err = hubclient.PatchLocked(ctx, r.Client, b, p.next, fieldManager)
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: backoff.Conflict}, nil
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case err != nil:
		events.PublishBinding(r.Events, b, events.Warning, events.EvictWorkloadFromClusterFailed, err.Error())
		return reconcile.Result{}, err
	}
	for _, done := range p.done {
		r.metrics.done(done.what)
		events.PublishBinding(r.Events, b, events.Normal, events.EvictWorkloadFromClusterSucceed, done.message)
	}
	if err := p.report(ctx); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: p.again}, nil
}
