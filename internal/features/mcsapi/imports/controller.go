package imports

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
)

const exposeWorkers = 4

const (
	// dispatchWorkers bounds the burst in memory: a slice of a hundred endpoints is encoded once for each consumer.
	dispatchWorkers = 8
)

// Deps is what making imports on the control plane needs besides the manager's client and cache.
type Deps struct {
	// Client is that of package hubclient. Required.
	Client client.Client
	// Templates has the namespaces and imports of the control plane. Required.
	Templates Templates
	// Fleet has the connections to the members. Required.
	Fleet *member.Fleet
	// Clock defaults to the real one.
	Clock clock.PassiveClock
	// Grace is how long the endpoints of a cluster that is not ready stay as they were seen last. Default DefaultGrace.
	Grace time.Duration
}

// Setup adds the loops of the control plane that turn exports into imports. It takes SetupExporter on the same
// manager.
func Setup(mgr ctrl.Manager, deps Deps) error {
	if deps.Templates == nil || deps.Fleet == nil {
		return errors.New("importing services needs Templates and Fleet")
	}
	if deps.Clock == nil {
		deps.Clock = clock.RealClock{}
	}
	if deps.Grace == 0 {
		deps.Grace = endpointslices.DefaultGrace
	}
	writes := deps.Client
	d, err := newDefiner(writes)
	if err != nil {
		return err
	}
	present := &spaces{fleet: deps.Fleet, cache: mgr.GetCache(), records: map[types.NamespacedName]bool{}, members: map[string]*spacesOf{}}
	feed := &spaceFeed{}
	present.changed = feed.tell
	deps.Fleet.Subscribe(present.settle)
	if err := mgr.Add(present); err != nil {
		return fmt.Errorf("adding the watch for namespaces: %w", err)
	}
	i := &importer{client: writes, templates: deps.Templates, has: present.has}
	reader := mgr.GetClient()
	if err := endpointslices.AddLoop(mgr, "service-definitions", d, 1,
		source.Kind(mgr.GetCache(), &clusterv1alpha1.Cluster{}, &handler.TypedEnqueueRequestForObject[*clusterv1alpha1.Cluster]{}),
		source.Kind(mgr.GetCache(), &workv1alpha1.Work{}, onDefinition()),
	); err != nil {
		return err
	}
	if err := endpointslices.AddLoop(mgr, "service-import", i, exposeWorkers,
		&importFeed{templates: deps.Templates, changed: func(_ context.Context, key types.NamespacedName, q endpointslices.Queue) {
			q.Add(reconcile.Request{NamespacedName: key})
		}, space: exportsIn(reader)},
		feed.source(exportsIn(reader)),
		source.Kind(mgr.GetCache(), &workv1alpha1.Work{}, onExportWork()),
		source.Kind(mgr.GetCache(), &workv1alpha2.ResourceBinding{}, onImportBinding(func(_ context.Context, key types.NamespacedName, q endpointslices.Queue) {
			q.Add(reconcile.Request{NamespacedName: key})
		})),
		source.Kind(mgr.GetCache(), &clusterv1alpha1.Cluster{}, endpointslices.OnCluster(everywhere(exportsIn(reader)))),
	); err != nil {
		return err
	}
	fleet := endpointslices.Clusters{Reader: writes, Clock: deps.Clock, Grace: deps.Grace}
	slices := &importDispatcher{importer: i, fleet: fleet}
	return endpointslices.AddLoop(mgr, "service-import-endpoints", slices, dispatchWorkers,
		&importFeed{templates: deps.Templates, changed: slicesOf(reader), space: slicesIn(reader)},
		feed.source(slicesIn(reader)),
		source.Kind(mgr.GetCache(), &workv1alpha1.Work{}, onSliceWork(&slices.own, reader)),
		source.Kind(mgr.GetCache(), &workv1alpha2.ResourceBinding{}, onImportBinding(slicesOf(reader))),
		source.Kind(mgr.GetCache(), &clusterv1alpha1.Cluster{}, endpointslices.OnCluster(everywhere(slicesIn(reader)))),
	)
}

// exportsIn queues the exported services of a namespace.
func exportsIn(reader client.Reader) func(context.Context, string, endpointslices.Queue) {
	return func(ctx context.Context, namespace string, q endpointslices.Queue) {
		for _, key := range exportedIn(ctx, reader, namespace) {
			q.Add(reconcile.Request{NamespacedName: key})
		}
	}
}

// slicesIn queues the records of their slices.
func slicesIn(reader client.Reader) func(context.Context, string, endpointslices.Queue) {
	add := slicesOf(reader)
	return func(ctx context.Context, namespace string, q endpointslices.Queue) {
		for _, key := range exportedIn(ctx, reader, namespace) {
			add(ctx, key, q)
		}
	}
}

// everywhere is what is added for all namespaces.
func everywhere(add func(context.Context, string, endpointslices.Queue)) func(context.Context, endpointslices.Queue) {
	return func(ctx context.Context, q endpointslices.Queue) { add(ctx, exportwork.AllNamespaces, q) }
}

func exportedIn(ctx context.Context, reader client.Reader, namespace string) []types.NamespacedName {
	works, err := endpointslices.ListWorks(ctx, reader, client.MatchingFields{exportwork.NamespaceIndex: namespace})
	if err != nil { // a cache that has synced fails for a missing index only
		log.FromContext(ctx).Error(err, "Listing records of exports")
	}
	seen := map[types.NamespacedName]bool{}
	var keys []types.NamespacedName
	for _, w := range works {
		if key := exportwork.ExportOf(w); !seen[key] {
			seen[key] = true
			keys = append(keys, key)
		}
	}
	return keys
}

// slicesOf queues the records of the slices of one service.
func slicesOf(reader client.Reader) func(context.Context, types.NamespacedName, endpointslices.Queue) {
	return func(ctx context.Context, key types.NamespacedName, q endpointslices.Queue) {
		works, err := endpointslices.ListWorks(ctx, reader, client.MatchingFields{exportwork.ServiceIndex: exportwork.OfService(key)})
		if err != nil { // a cache that has synced fails for a missing index only
			log.FromContext(ctx).Error(err, "Listing records of slices")
		}
		for _, w := range works {
			if exportwork.RoleOf(w) == multiclusterv1beta1.RoleEndpoints {
				q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w)})
			}
		}
	}
}

// onWork calls add for Works that come, go, or change in spec, labels, annotations or the outcome of applying them.
func onWork(add func(ctx context.Context, work *workv1alpha1.Work, event workEvent, q endpointslices.Queue)) handler.TypedEventHandler[*workv1alpha1.Work, reconcile.Request] {
	type work = *workv1alpha1.Work
	return handler.TypedFuncs[work, reconcile.Request]{
		CreateFunc: func(ctx context.Context, e ctrlevent.TypedCreateEvent[work], q endpointslices.Queue) {
			add(ctx, e.Object, workEvent{came: true, known: e.IsInInitialList}, q)
		},
		UpdateFunc: func(ctx context.Context, e ctrlevent.TypedUpdateEvent[work], q endpointslices.Queue) {
			event := workEvent{reshaped: endpointslices.Changed(e.ObjectOld, e.ObjectNew), respecified: e.ObjectOld.Generation != e.ObjectNew.Generation}
			if !event.reshaped && endpointslices.AppliedResult(e.ObjectOld) == endpointslices.AppliedResult(e.ObjectNew) {
				return
			}
			if !maps.Equal(e.ObjectOld.Labels, e.ObjectNew.Labels) {
				add(ctx, e.ObjectOld, event, q) // what it is may be what was changed
			}
			add(ctx, e.ObjectNew, event, q)
		},
		DeleteFunc: func(ctx context.Context, e ctrlevent.TypedDeleteEvent[work], q endpointslices.Queue) {
			add(ctx, e.Object, workEvent{gone: true}, q)
		},
	}
}

// workEvent is what happened to a Work.
type workEvent struct {
	came, gone bool
	// known says of one that came that it was there before anybody looked.
	known bool
	// reshaped says of one that changed that it is more than its status, respecified that it carries something else, or is
	// going.
	reshaped, respecified bool
}

// onExportWork leads from records of exports, and from what was made of them, to the service.
func onExportWork() handler.TypedEventHandler[*workv1alpha1.Work, reconcile.Request] {
	return onWork(func(_ context.Context, work *workv1alpha1.Work, _ workEvent, q endpointslices.Queue) {
		switch exportwork.RoleOf(work) {
		case multiclusterv1beta1.RoleExport, multiclusterv1beta1.RoleImport, multiclusterv1beta1.RoleDerived:
			q.Add(reconcile.Request{NamespacedName: exportwork.ExportOf(work)})
		}
	})
}

// onSliceWork queues a record that came, changed or went, the one that a Work came from which somebody else changed or
// deleted, and those of a service whose exports changed.
func onSliceWork(own *endpointslices.OwnWrites, reader client.Reader) handler.TypedEventHandler[*workv1alpha1.Work, reconcile.Request] {
	all := slicesOf(reader)
	return onWork(func(ctx context.Context, work *workv1alpha1.Work, event workEvent, q endpointslices.Queue) {
		switch exportwork.RoleOf(work) {
		case multiclusterv1beta1.RoleEndpoints:
			q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(work)})
		case multiclusterv1beta1.RoleImportedEndpoints:
			if event.gone {
				own.Forget(client.ObjectKeyFromObject(work))
			}
			// Of one that is known the record may have gone while nobody looked.
			if event.gone || event.known || (event.came || event.reshaped) && !own.Observe(work) {
				q.Add(reconcile.Request{NamespacedName: exportwork.RecordOf(work)})
			}
		case multiclusterv1beta1.RoleExport:
			if event.gone || event.came && !event.known || event.respecified {
				all(ctx, exportwork.ExportOf(work), q)
			}
		}
	})
}

// onDefinition queues the cluster whose definition somebody took away or changed.
func onDefinition() handler.TypedEventHandler[*workv1alpha1.Work, reconcile.Request] {
	return onWork(func(_ context.Context, work *workv1alpha1.Work, event workEvent, q endpointslices.Queue) {
		cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace)
		if ok && exportwork.RoleOf(work) == multiclusterv1beta1.RoleDefinition && (event.gone || event.reshaped) {
			q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: cluster}})
		}
	})
}

// onImportBinding follows where a policy takes an import that a user made.
func onImportBinding(add func(context.Context, types.NamespacedName, endpointslices.Queue)) handler.TypedEventHandler[*workv1alpha2.ResourceBinding, reconcile.Request] {
	type binding = *workv1alpha2.ResourceBinding
	about := func(ctx context.Context, b binding, q endpointslices.Queue) {
		if of := b.Spec.Resource; of.Kind == multiclusterv1beta1.KindServiceImport {
			add(ctx, types.NamespacedName{Namespace: of.Namespace, Name: of.Name}, q)
		}
	}
	return handler.TypedFuncs[binding, reconcile.Request]{
		CreateFunc: func(ctx context.Context, e ctrlevent.TypedCreateEvent[binding], q endpointslices.Queue) {
			about(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e ctrlevent.TypedUpdateEvent[binding], q endpointslices.Queue) {
			if e.ObjectOld.Generation != e.ObjectNew.Generation {
				about(ctx, e.ObjectNew, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e ctrlevent.TypedDeleteEvent[binding], q endpointslices.Queue) {
			about(ctx, e.Object, q)
		},
	}
}
