package appfailover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/eviction"
	"github.com/flagship-k8s/flagship/internal/knowledge/fairqueue"
)

// Deps is what Setup needs. All fields are required.
type Deps struct {
	// Client is that of package hubclient.
	Client    client.Client
	Templates Templates
	Events    events.Recorder
	Clock     clock.WithTicker
	// EvictionRate is shared with cluster failover.
	EvictionRate *eviction.Rate
}

// Templates is the part of *hubstore.Store that this package uses, when an application is to be evicted.
type Templates interface {
	Get(context.Context, hubstore.Ref) (*unstructured.Unstructured, error)
}

// Setup adds the loop. It reconciles one binding at a time, of either scope.
func Setup(mgr ctrl.Manager, deps Deps) error {
	if deps.Client == nil || deps.Templates == nil || deps.Events == nil || deps.Clock == nil || deps.EvictionRate == nil {
		return errors.New("appfailover needs all of Deps")
	}
	m := newMover(deps)
	if err := mgr.Add(manager.RunnableFunc(m.presence.run)); err != nil {
		return fmt.Errorf("adding the observation of pauses: %w", err)
	}
	options := controller.Options{
		NewQueue:    fairqueue.Maker(func(q reconcile.Request) string { return q.Namespace }),
		RateLimiter: backoff.Limiter[reconcile.Request](), SkipNameValidation: new(true),
	}
	err := ctrl.NewControllerManagedBy(mgr).Named("application-failover").
		Watches(&workv1alpha2.ResourceBinding{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(concerned())).
		Watches(&workv1alpha2.ClusterResourceBinding{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(concerned())).
		WithOptions(options).Complete(controlloop.Track(mgr, m))
	if err != nil {
		return fmt.Errorf("adding the loop application-failover: %w", err)
	}
	return nil
}

// concerned ignores bindings whose policy has no application failover.
func concerned() predicate.Predicate {
	concerns := func(obj client.Object) bool {
		b, ok := obj.(workv1alpha2.Binding)
		return ok && b.BindingSpec().Failover != nil && b.BindingSpec().Failover.Application != nil
	}
	accepted := predicate.NewPredicateFuncs(concerns)
	accepted.UpdateFunc = func(e event.UpdateEvent) bool { return concerns(e.ObjectOld) || concerns(e.ObjectNew) }
	return accepted
}

// mover evicts applications from clusters in which they are unhealthy.
type mover struct {
	Deps
	presence *presence

	mu sync.Mutex
	// unhealthy has since when a binding is unhealthy in which cluster; bindings that were reconciled once have an entry. It is in
	// memory because the normal path must not cost a write.
	unhealthy map[types.NamespacedName]map[string]time.Time
	// left has when a binding last began to leave which cluster, within returnPause. A restart clears it, and allows one more.
	left map[types.NamespacedName]map[string]time.Time
}

func newMover(deps Deps) *mover {
	return &mover{
		Deps: deps, presence: &presence{clock: deps.Clock}, unhealthy: map[types.NamespacedName]map[string]time.Time{},
		left: map[types.NamespacedName]map[string]time.Time{},
	}
}

// Reconcile implements reconcile.Reconciler.
func (m *mover) Reconcile(ctx context.Context, q reconcile.Request) (reconcile.Result, error) {
	b := workv1alpha2.EmptyBinding(q.Namespace)
	err := m.Client.Get(ctx, q.NamespacedName, b)
	exists := err == nil
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("reading the binding: %w", err)
	}
	failover := b.BindingSpec().Failover
	if !exists || b.GetDeletionTimestamp() != nil || failover == nil || failover.Application == nil {
		m.forget(q.NamespacedName)
		return reconcile.Result{}, nil
	}
	since, err := m.since(ctx, q.NamespacedName, b)
	if err != nil {
		return reconcile.Result{}, err
	}
	before := b.DeepCopyObject().(workv1alpha2.Binding)
	now := m.Clock.Now()
	delay := func(cluster string) time.Duration {
		return m.EvictionRate.Delay(eviction.ApplicationFailure, q.NamespacedName, cluster)
	}
	o, err := decide(b, since, now, m.earliest(q.NamespacedName, now), delay, func() (bool, error) {
		return eviction.IsStateful(b, func() (*unstructured.Unstructured, error) {
			return m.Templates.Get(ctx, hubstore.TemplateOf(b.BindingSpec()))
		})
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	changed, err := hubclient.PatchLocked(ctx, m.Client, before, b)
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: backoff.Conflict}, nil
	case err != nil:
		events.PublishBinding(m.Events, b, events.Warning, events.EvictWorkloadFromClusterFailed, err.Error())
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	m.leave(q.NamespacedName, o.evicted, now)
	for _, message := range o.changes {
		events.PublishBinding(m.Events, b, events.Normal, events.EvictWorkloadFromClusterSucceed, message)
	}
	if o.held != nil {
		events.PublishBinding(m.Events, b, events.Warning, events.EvictWorkloadFromClusterFailed, o.held.message)
	}
	if changed {
		o.again = 0 // the event of the write reconciles the binding again
	}
	return reconcile.Result{RequeueAfter: o.again}, m.reportState(ctx, b, o.held)
}

// since returns since when a binding is unhealthy in those of its targets where it is. The time counts from when this process reads
// it. If it was so before the process started, the time counts from when the Work became degraded, which is later than the truth by
// --degraded-after at most. That is stored in members in push mode only by this control plane; the clock of an agent may be wrong.
func (m *mover) since(ctx context.Context, key types.NamespacedName, b workv1alpha2.Binding) (map[string]time.Time, error) {
	m.mu.Lock()
	before, known := m.unhealthy[key]
	m.mu.Unlock()
	now, since := m.Clock.Now(), map[string]time.Time{}
	for _, cluster := range unhealthyTargets(b) {
		at, ok := before[cluster]
		if !ok || at.After(now) {
			at = now
		}
		if !known {
			degraded, err := m.degradedSince(ctx, b, cluster)
			if err != nil {
				return nil, err
			}
			if !degraded.IsZero() && degraded.Before(at) {
				at = degraded
			}
		}
		since[cluster] = at
	}
	m.storeUnhealthy(key, since)
	return since, nil
}

// earliest returns before when a binding leaves no cluster: while this process has not observed for long enough, and if it left the cluster
// lately.
func (m *mover) earliest(key types.NamespacedName, now time.Time) func(cluster string) time.Time {
	observed := m.presence.since(now).Add(observation)
	m.mu.Lock()
	defer m.mu.Unlock()
	left := m.left[key]
	maps.DeleteFunc(left, func(_ string, at time.Time) bool { return now.Sub(at) >= returnPause || at.After(now) })
	left = maps.Clone(left)
	return func(cluster string) time.Time {
		if at, ok := left[cluster]; ok && at.Add(returnPause).After(observed) {
			return at.Add(returnPause)
		}
		return observed
	}
}

// leave notes that a binding leaves clusters now.
func (m *mover) leave(key types.NamespacedName, clusters []string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, cluster := range clusters {
		if m.left[key] == nil {
			m.left[key] = map[string]time.Time{}
		}
		m.left[key][cluster] = now
	}
}

// storeUnhealthy stores what since returned.
func (m *mover) storeUnhealthy(key types.NamespacedName, since map[string]time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unhealthy[key] = since
}

// forget drops what is kept of a binding.
func (m *mover) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.unhealthy, key)
	delete(m.left, key)
}

// degradedSince is when the Work of a binding for a cluster in push mode became degraded; the zero time if it is not.
func (m *mover) degradedSince(ctx context.Context, b workv1alpha2.Binding, name string) (time.Time, error) {
	cluster := &clusterv1alpha1.Cluster{}
	if err := m.Client.Get(ctx, client.ObjectKey{Name: name}, cluster, client.UnsafeDisableDeepCopy); err != nil || cluster.Spec.SyncMode != clusterv1alpha1.Push {
		return time.Time{}, client.IgnoreNotFound(err)
	}
	of := b.BindingSpec().Resource
	work, err := hubclient.GetWork(ctx, m.Client, types.NamespacedName{
		Namespace: workv1alpha1.ExecutionNamespace(name), Name: workv1alpha1.WorkName(of.Kind, of.Namespace, of.Name)})
	if err != nil || work == nil || workv1alpha2.BoundTo(work) != b.GetNamespace()+"/"+b.GetName() {
		return time.Time{}, err
	}
	degraded := meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkDegraded)
	if degraded == nil || degraded.Status != metav1.ConditionTrue {
		return time.Time{}, nil
	}
	return degraded.LastTransitionTime.Time, nil
}
