package mcs

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/mcs/dispatch"
	"github.com/flagship-k8s/flagship/internal/features/mcs/exposure"
	"github.com/flagship-k8s/flagship/internal/features/mcs/mcswork"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// Deps is what the loops on the control plane need besides the manager's cache, which has the index of hubclient.IndexPolicies.
type Deps struct {
	// Client is that of package hubclient. Required.
	Client client.Client
	// Templates has the Services. Required.
	Templates Templates
	// Events records the events of MultiClusterServices. Required.
	Events events.Recorder
	// Metrics registers the metrics. Nil registers none.
	Metrics prometheus.Registerer
	// Clock defaults to the real one.
	Clock clock.PassiveClock
	// Grace is that of endpointslices.Clusters.
	Grace func() time.Duration
}

const workers = 4

// Setup adds the loops of the control plane: for MultiClusterServices and for recorded slices. The context is for adding indexes only.
func Setup(ctx context.Context, mgr ctrl.Manager, deps Deps) error {
	if deps.Client == nil || deps.Templates == nil || deps.Events == nil {
		return errors.New("MultiClusterServices need Client, Templates and Events")
	}
	if err := Indexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r := newReconciler(&deps)
	all := func(ctx context.Context, _ types.NamespacedName) ([]types.NamespacedName, error) {
		return mcswork.ListOwners(ctx, deps.Client)
	}
	if err := endpointslices.AddLoop(mgr, "service", workers, r, all,
		services{deps.Templates},
		source.Kind(mgr.GetCache(), &networkingv1alpha1.MultiClusterService{},
			&handler.TypedEnqueueRequestForObject[*networkingv1alpha1.MultiClusterService]{}, exposure.Changes()),
		source.Kind(mgr.GetCache(), &workv1alpha2.ResourceBinding{}, handler.TypedEnqueueRequestsFromMapFunc(ownerOfBinding)),
		source.Kind(mgr.GetCache(), &workv1alpha1.Work{}, onWork()),
	); err != nil {
		return err
	}
	return dispatch.Setup(mgr, deps.Client, r.clusters, deps.Metrics)
}

// newReconciler also completes deps.
func newReconciler(deps *Deps) *reconciler {
	if deps.Clock == nil {
		deps.Clock = clock.RealClock{}
	}
	return &reconciler{
		client: deps.Client, templates: deps.Templates, policies: hubclient.Policies{Reader: deps.Client}, events: deps.Events,
		clusters: endpointslices.Clusters{Reader: deps.Client, Clock: deps.Clock, Grace: deps.Grace},
	}
}

// services is the Services of the control plane as a source.
type services struct{ Templates }

// Start implements source.Source.
func (s services) Start(_ context.Context, q endpointslices.Queue) error {
	s.Subscribe(func(ref hubstore.Ref) {
		if ref.GroupVersionKind == serviceKind {
			q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}})
		}
	})
	return nil
}

// ownerOfBinding maps the binding of a claimed Service to its MultiClusterService.
func ownerOfBinding(_ context.Context, binding *workv1alpha2.ResourceBinding) []reconcile.Request {
	name := binding.Annotations[networkingv1alpha1.MultiClusterServiceNameLabel]
	if !ours(binding) || name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{
		Namespace: binding.Annotations[networkingv1alpha1.MultiClusterServiceNamespaceLabel], Name: name,
	}}}
}

// onWork enqueues the MultiClusterService of a Work that comes, goes, or whose part in the status changes.
func onWork() handler.TypedEventHandler[*workv1alpha1.Work, reconcile.Request] {
	type work = *workv1alpha1.Work
	add := func(w work, q endpointslices.Queue) {
		if owner := mcswork.OwnerOf(w); owner.Name != "" {
			q.Add(reconcile.Request{NamespacedName: owner})
		}
	}
	return handler.TypedFuncs[work, reconcile.Request]{
		CreateFunc: func(_ context.Context, e ctrlevent.TypedCreateEvent[work], q endpointslices.Queue) { add(e.Object, q) },
		UpdateFunc: func(_ context.Context, e ctrlevent.TypedUpdateEvent[work], q endpointslices.Queue) {
			if endpointslices.AppliedResult(e.ObjectOld) != endpointslices.AppliedResult(e.ObjectNew) || mcswork.IsRegistration(e.ObjectNew) || mcswork.IsRegistration(e.ObjectOld) {
				add(e.ObjectOld, q) // Others may have removed the name of its owner.
				add(e.ObjectNew, q)
			}
		},
		DeleteFunc: func(_ context.Context, e ctrlevent.TypedDeleteEvent[work], q endpointslices.Queue) { add(e.Object, q) },
	}
}
