package imports

import (
	"context"
	"errors"
	"slices"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
)

// dispatcher reconciles the Works of one recorded slice of an exported Service, one for each cluster that imports it.
type dispatcher struct {
	*importer
	own endpointslices.OwnWrites
}

// records lists the records of the slices of a service; for a key without a name those of all services of a namespace, and for an
// empty key all.
func (i *importer) records(ctx context.Context, group types.NamespacedName) ([]types.NamespacedName, error) {
	services := []types.NamespacedName{group}
	if group.Name == "" {
		var err error
		if services, err = exportwork.ListServices(ctx, i.client, group.Namespace); err != nil {
			return nil, err
		}
	}
	var keys []types.NamespacedName
	for _, service := range services {
		works, err := exportwork.ListOf(ctx, i.client, service)
		if err != nil {
			return nil, err
		}
		for _, w := range works {
			if exportwork.RoleOf(w) == multiclusterv1beta1.RoleEndpoints {
				keys = append(keys, client.ObjectKeyFromObject(w))
			}
		}
	}
	return keys, nil
}

// onWork enqueues a record that came, changed or went, the record of a Work that others changed or deleted, and the records of a
// service whose exports changed.
func (d *dispatcher) onWork() handler.TypedEventHandler[*workv1alpha1.Work, reconcile.Request] {
	type work = *workv1alpha1.Work
	add := func(w work, own, sameExports bool, q endpointslices.Queue) {
		switch role := exportwork.RoleOf(w); {
		case role == multiclusterv1beta1.RoleEndpoints:
			q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w)})
		case role == multiclusterv1beta1.RoleImportedEndpoints && !own:
			q.Add(reconcile.Request{NamespacedName: exportwork.RecordOf(w)})
		case role == multiclusterv1beta1.RoleExport && !sameExports:
			q.Add(endpointslices.Group(exportwork.ServiceOf(w)))
		}
	}
	return handler.TypedFuncs[work, reconcile.Request]{
		CreateFunc: func(_ context.Context, e ctrlevent.TypedCreateEvent[work], q endpointslices.Queue) {
			// The record of a Work of the initial list may be gone since.
			add(e.Object, d.own.Observe(e.Object) && !e.IsInInitialList, e.IsInInitialList, q)
		},
		UpdateFunc: func(_ context.Context, e ctrlevent.TypedUpdateEvent[work], q endpointslices.Queue) {
			if endpointslices.Changed(e.ObjectOld, e.ObjectNew) {
				own, sameExports := d.own.Observe(e.ObjectNew), e.ObjectOld.Generation == e.ObjectNew.Generation
				add(e.ObjectOld, own, sameExports, q) // The labels that say what it is may have changed.
				add(e.ObjectNew, own, sameExports, q)
			}
		},
		DeleteFunc: func(_ context.Context, e ctrlevent.TypedDeleteEvent[work], q endpointslices.Queue) {
			d.own.Forget(client.ObjectKeyFromObject(e.Object))
			add(e.Object, false, false, q)
		},
	}
}

// recorded is what a record of a slice is about.
type recorded struct {
	set      *set
	transfer transfer
	slice    *discoveryv1.EndpointSlice // nil if no cluster gets it
	// left is when a cluster that is not ready is to be seen again.
	left time.Duration
}

// readRecord reads a record and what it is about.
func (i *importer) readRecord(ctx context.Context, key types.NamespacedName) (recorded, error) {
	record, err := hubclient.GetWork(ctx, i.client, key)
	if err != nil {
		return recorded{}, err
	}
	if record == nil || exportwork.RoleOf(record) != multiclusterv1beta1.RoleEndpoints || record.DeletionTimestamp != nil || len(record.Spec.Workload.Manifests) != 1 {
		return recorded{}, nil
	}
	s, err := i.read(ctx, exportwork.ServiceOf(record))
	if err != nil {
		return recorded{}, err
	}
	from, _ := workv1alpha1.ClusterOfExecutionNamespace(record.Namespace)
	if !slices.Contains(s.exporting(), from) {
		return recorded{}, nil
	}
	slice, err := endpointslices.DecodeRecord(record.Spec.Workload.Manifests[0].Raw, exportwork.Exported)
	if err == nil {
		err = endpointslices.CheckOwner(s.registered, from, slice)
	}
	if err != nil { // A member sent it that means harm: what others have of it goes.
		ctrl.LoggerFrom(ctx).Info("Ignoring a slice", "record", key, "reason", err.Error())
		return recorded{}, nil
	}
	// The agent of a member writes its records. Its endpoints are not added to another Service than the exported one.
	if client.ObjectKeyFromObject(slice) != endpointslices.SliceOf(record) || slice.Namespace != s.key.Namespace || slice.Labels[discoveryv1.LabelServiceName] != s.key.Name {
		return recorded{}, nil
	}
	names := endpointslices.Names(s.registered)
	expired, left := i.clusters.Expired(s.registered, from)
	return recorded{set: s, slice: slice, left: left, transfer: transfer{
		from: from, service: s.key, expired: expired,
		name: endpointslices.DistinctName(networkingv1alpha1.ImportedEndpointSliceName(from, slice.Name), from, slice.Name, names),
	}}, nil
}

// Reconcile brings the Works of one record up to date. The request names the record, whether it exists or not.
func (d *dispatcher) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	works, err := exportwork.ListFrom(ctx, d.client, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	r, err := d.readRecord(ctx, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if r.slice == nil {
		return reconcile.Result{}, hubclient.DeleteWorks(ctx, d.client, works...)
	}
	return endpointslices.Requeue(reconcile.Result{RequeueAfter: r.left}, d.writeAll(ctx, r.set, r.transfer, r.slice, works))
}

// writeAll writes a Work for each cluster that imports and deletes those of others. A failure of one does not hold up the others.
func (d *dispatcher) writeAll(ctx context.Context, s *set, t transfer, slice *discoveryv1.EndpointSlice, works []*workv1alpha1.Work) error {
	existing := map[string]*workv1alpha1.Work{}
	for _, w := range works {
		cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(w.Namespace)
		existing[cluster] = w
	}
	var failures []error
	for _, cluster := range s.registered {
		if !d.imports(s, cluster, existing[cluster.Name] != nil) {
			continue
		}
		t.to, t.spec = cluster.Name, *s.spec(cluster.Name)
		failures = append(failures, d.writeTo(ctx, slice, t))
		delete(existing, cluster.Name)
	}
	for _, w := range existing {
		failures = append(failures, hubclient.DeleteWorks(ctx, d.client, w))
	}
	return errors.Join(failures...)
}

func (d *dispatcher) writeTo(ctx context.Context, slice *discoveryv1.EndpointSlice, t transfer) error {
	raw, err := endpointslices.Encode(imported(slice, t))
	if err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(slice)
	existing, err := hubclient.GetWork(ctx, d.client, importedKey(t, key)) // By name: others may have removed the labels that the index reads.
	if err != nil {
		return err
	}
	_, err = endpointslices.WriteOwn(ctx, d.client, &d.own, existing, importedWork(t, key, raw, existing))
	return err
}
