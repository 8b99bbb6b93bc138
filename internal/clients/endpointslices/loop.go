package endpointslices

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/fairqueue"
)

// Queue is the work queue of a loop.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// groupPrefix is no part of the name of any object.
const groupPrefix = "*"

// Group is the request to enqueue several objects, such as all that belong to an owner; the zero key stands for all objects of a loop.
// Which those are is listed by a worker, not by the handler of an event, so that a list that fails is repeated with backoff.
func Group(key types.NamespacedName) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: key.Namespace, Name: groupPrefix + key.Name}}
}

// groups enqueues the objects of a group, and leaves the reconcile of a single object to the loop.
type groups struct {
	reconcile.Reconciler
	list  func(ctx context.Context, group types.NamespacedName) ([]types.NamespacedName, error)
	queue Queue
}

// Start implements source.Source: it has no events, and stores the work queue.
func (g *groups) Start(_ context.Context, q Queue) error {
	g.queue = q
	return nil
}

// Reconcile implements reconcile.Reconciler.
func (g *groups) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	name, isGroup := strings.CutPrefix(request.Name, groupPrefix)
	if !isGroup {
		return g.Reconciler.Reconcile(ctx, request)
	}
	keys, err := g.list(ctx, types.NamespacedName{Namespace: request.Namespace, Name: name})
	for _, key := range keys {
		g.queue.Add(reconcile.Request{NamespacedName: key})
	}
	return reconcile.Result{}, err
}

// AddLoop adds a loop whose objects depend on which clusters there are and which of them are ready. List returns the objects of a
// group.
func AddLoop(mgr ctrl.Manager, name string, workers int, reconciler reconcile.Reconciler, list func(context.Context, types.NamespacedName) ([]types.NamespacedName, error), sources ...source.Source) error {
	g := &groups{Reconciler: reconciler, list: list}
	b := ctrl.NewControllerManagedBy(mgr).Named(name).
		WatchesRawSource(g).
		WatchesRawSource(source.Kind(mgr.GetCache(), &clusterv1alpha1.Cluster{}, everything[*clusterv1alpha1.Cluster](), clusterChanges())).
		WatchesRawSource(source.Kind(mgr.GetCache(), &corev1.Namespace{}, everything[*corev1.Namespace](), NewExecutionNamespaces())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers, RateLimiter: backoff.Limiter[reconcile.Request](),
			NewQueue:           fairqueue.Maker(func(q reconcile.Request) string { return q.Namespace }),
			SkipNameValidation: new(true), // Several control planes may run in one process.
		})
	for _, s := range sources {
		b.WatchesRawSource(s)
	}
	if err := b.Complete(controlloop.Track(mgr, g)); err != nil {
		return fmt.Errorf("adding the loop %s: %w", name, err)
	}
	return nil
}

func everything[O client.Object]() handler.TypedEventHandler[O, reconcile.Request] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(context.Context, O) []reconcile.Request {
		return []reconcile.Request{Group(types.NamespacedName{})}
	})
}

// clusterChanges lets events of clusters pass that come, go, become ready or not, have too much or not any more, or may export another number of
// Services. At the start every object is enqueued anyway.
func clusterChanges() predicate.TypedPredicate[*clusterv1alpha1.Cluster] {
	type cluster = *clusterv1alpha1.Cluster
	ready := func(c cluster) bool {
		return meta.IsStatusConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
	}
	return predicate.TypedFuncs[cluster]{
		CreateFunc: func(e ctrlevent.TypedCreateEvent[cluster]) bool { return !e.IsInInitialList },
		UpdateFunc: func(e ctrlevent.TypedUpdateEvent[cluster]) bool {
			const limit = clusterv1alpha1.ExportLimitAnnotation
			return ready(e.ObjectOld) != ready(e.ObjectNew) || excessOf(e.ObjectOld) != excessOf(e.ObjectNew) || e.ObjectOld.Annotations[limit] != e.ObjectNew.Annotations[limit] || (e.ObjectOld.DeletionTimestamp == nil) != (e.ObjectNew.DeletionTimestamp == nil)
		},
	}
}

// NewExecutionNamespaces lets events pass of execution namespaces that are created: from then on their clusters can have Works.
func NewExecutionNamespaces() predicate.TypedPredicate[*corev1.Namespace] {
	type namespace = *corev1.Namespace
	return predicate.TypedFuncs[namespace]{
		CreateFunc: func(e ctrlevent.TypedCreateEvent[namespace]) bool {
			_, ok := workv1alpha1.ClusterOfExecutionNamespace(e.Object.Name)
			return ok && !e.IsInInitialList
		},
		UpdateFunc: func(ctrlevent.TypedUpdateEvent[namespace]) bool { return false },
		DeleteFunc: func(ctrlevent.TypedDeleteEvent[namespace]) bool { return false },
	}
}

// Requeue is the result of a reconcile that wrote Works: it is repeated after left, if that is not zero, and soon if others changed a
// Work meanwhile.
func Requeue(left reconcile.Result, err error) (reconcile.Result, error) {
	if errors.Is(err, ErrChangedMeanwhile) {
		return reconcile.Result{RequeueAfter: backoff.Conflict}, nil
	}
	return left, err
}
