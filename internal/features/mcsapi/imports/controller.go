package imports

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

const (
	importWorkers = 4
	// dispatchWorkers bounds the burst in memory: a slice of a hundred endpoints is encoded once for each importing cluster.
	dispatchWorkers = 8
)

// Deps is what making imports on the control plane needs besides the manager's cache, which has the indexes of package exportwork.
type Deps struct {
	// Client is that of package hubclient. Required.
	Client client.Client
	// Templates has the namespaces and imports of the control plane. Required.
	Templates Templates
	// Fleet has the connections to the members. Required.
	Fleet *member.Fleet
	// Events takes what succeeded. Required.
	Events events.Recorder
	// Clock defaults to the real one.
	Clock clock.PassiveClock
	// Grace is that of endpointslices.Clusters.
	Grace func() time.Duration
}

// Setup adds the loops of the control plane that turn exports into imports.
func Setup(ctx context.Context, mgr ctrl.Manager, deps Deps) error {
	if deps.Client == nil || deps.Templates == nil || deps.Fleet == nil {
		return errors.New("imports need Client, Templates and Fleet")
	}
	if deps.Clock == nil {
		deps.Clock = clock.RealClock{}
	}
	if err := addIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := setupDefinitions(mgr, deps.Client); err != nil {
		return err
	}
	present := newNamespaces(mgr.GetCache(), deps.Fleet)
	if err := mgr.Add(present); err != nil {
		return fmt.Errorf("adding the watch for namespaces: %w", err)
	}
	clusters := endpointslices.Clusters{Reader: deps.Client, Clock: deps.Clock, Grace: deps.Grace}
	i := &importer{client: deps.Client, templates: deps.Templates, clusters: clusters, events: deps.Events, has: present.has}
	if err := endpointslices.AddLoop(mgr, "service-import", importWorkers, i, i.services,
		&templates{deps.Templates, one}, present.source(),
		source.Kind(mgr.GetCache(), &workv1alpha1.Work{}, handler.TypedEnqueueRequestsFromMapFunc(serviceOfWork), workChanges()),
		source.Kind(mgr.GetCache(), &workv1alpha2.ResourceBinding{}, onBinding(one), predicate.TypedGenerationChangedPredicate[*workv1alpha2.ResourceBinding]{}),
		source.Kind(mgr.GetCache(), &corev1.Service{}, handler.TypedEnqueueRequestsFromMapFunc(serviceOfDerived)),
	); err != nil {
		return err
	}
	h := &hubEndpoints{importer: i}
	if err := endpointslices.AddLoop(mgr, "service-import-hub-endpoints", importWorkers, h, i.records,
		&templates{deps.Templates, endpointslices.Group},
		source.Kind(mgr.GetCache(), &workv1alpha1.Work{}, handler.TypedEnqueueRequestsFromMapFunc(recordOfWork), contentChanges()),
		source.Kind(mgr.GetCache(), &discoveryv1.EndpointSlice{}, handler.TypedEnqueueRequestsFromMapFunc(recordOfSlice)),
	); err != nil {
		return err
	}
	d := &dispatcher{importer: i}
	return endpointslices.AddLoop(mgr, "service-import-endpoints", dispatchWorkers, d, d.records,
		&templates{deps.Templates, endpointslices.Group}, present.source(),
		source.Kind(mgr.GetCache(), &workv1alpha1.Work{}, d.onWork()),
		source.Kind(mgr.GetCache(), &workv1alpha2.ResourceBinding{}, onBinding(endpointslices.Group), predicate.TypedGenerationChangedPredicate[*workv1alpha2.ResourceBinding]{}),
	)
}

// one is the request for a service, where endpointslices.Group is that for the records of its slices.
func one(service types.NamespacedName) reconcile.Request {
	return reconcile.Request{NamespacedName: service}
}

// templates is the imports and namespaces of the control plane as a source. Both are known before the first reconcile: what a user
// made wins over what is exported.
type templates struct {
	Templates
	request func(service types.NamespacedName) reconcile.Request
}

// Start implements source.Source.
func (t *templates) Start(_ context.Context, q endpointslices.Queue) error {
	t.Subscribe(func(ref hubstore.Ref) {
		switch ref.GroupVersionKind {
		case importKind:
			q.Add(t.request(types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}))
		case namespaceKind:
			q.Add(endpointslices.Group(types.NamespacedName{Namespace: ref.Name}))
		}
	})
	return nil
}

// workChanges lets Works pass that come, go, or change in spec, labels, annotations or the result of applying them.
func workChanges() predicate.TypedPredicate[*workv1alpha1.Work] {
	return predicate.TypedFuncs[*workv1alpha1.Work]{UpdateFunc: func(e ctrlevent.TypedUpdateEvent[*workv1alpha1.Work]) bool {
		return endpointslices.Changed(e.ObjectOld, e.ObjectNew) || endpointslices.AppliedResult(e.ObjectOld) != endpointslices.AppliedResult(e.ObjectNew)
	}}
}

// serviceOfWork maps the record of an export, and what was made of it, to the service.
func serviceOfWork(_ context.Context, work *workv1alpha1.Work) []reconcile.Request {
	switch exportwork.RoleOf(work) {
	case multiclusterv1beta1.RoleExport, multiclusterv1beta1.RoleImport, multiclusterv1beta1.RoleDerived:
		return []reconcile.Request{one(exportwork.ServiceOf(work))}
	}
	return nil
}

// serviceOfDerived enqueues the service of a derived Service on the control plane.
func serviceOfDerived(_ context.Context, derived *corev1.Service) []reconcile.Request {
	return []reconcile.Request{one(types.NamespacedName{Namespace: derived.Namespace, Name: derived.Labels[multiclusterv1beta1.ServiceNameLabel]})}
}

// onBinding enqueues the service whose import a user made and a policy propagates.
func onBinding(request func(types.NamespacedName) reconcile.Request) handler.TypedEventHandler[*workv1alpha2.ResourceBinding, reconcile.Request] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, binding *workv1alpha2.ResourceBinding) []reconcile.Request {
		of := binding.Spec.Resource
		if of.Kind != multiclusterv1beta1.KindServiceImport {
			return nil
		}
		return []reconcile.Request{request(types.NamespacedName{Namespace: of.Namespace, Name: of.Name})}
	})
}
