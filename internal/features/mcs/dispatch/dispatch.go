package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/features/mcs/exposure"
	"github.com/flagship-k8s/flagship/internal/features/mcs/mcswork"
	"github.com/flagship-k8s/flagship/internal/features/mcs/metrics"
)

// workers bounds the burst in memory: a slice of a hundred endpoints is encoded once for each consumer.
const workers = 8

// Setup adds the loop. The cache needs the indexes of package mcswork.
func Setup(mgr ctrl.Manager, c client.Client, clusters endpointslices.Clusters, registerer prometheus.Registerer) error {
	d := &dispatcher{client: c, clusters: clusters, metrics: metrics.NewDispatch(registerer, clusters.Clock)}
	return endpointslices.AddLoop(mgr, "service-dispatch", workers, d, d.records,
		source.Kind(mgr.GetCache(), &networkingv1alpha1.MultiClusterService{}, handler.TypedEnqueueRequestsFromMapFunc(
			func(_ context.Context, mcs *networkingv1alpha1.MultiClusterService) []reconcile.Request {
				return []reconcile.Request{endpointslices.Group(client.ObjectKeyFromObject(mcs))}
			}), exposure.Changes()),
		source.Kind(mgr.GetCache(), &workv1alpha1.Work{}, d.onWork()),
	)
}

// dispatcher reconciles the Works of one record.
type dispatcher struct {
	client   client.Client
	clusters endpointslices.Clusters
	own      endpointslices.OwnWrites
	metrics  *metrics.Dispatch
}

// records lists the records of a MultiClusterService; of all for the zero key.
func (d *dispatcher) records(ctx context.Context, owner types.NamespacedName) ([]types.NamespacedName, error) {
	owners := []types.NamespacedName{owner}
	if owner.Name == "" {
		var err error
		if owners, err = mcswork.ListOwners(ctx, d.client); err != nil {
			return nil, err
		}
	}
	var keys []types.NamespacedName
	for _, owner := range owners {
		works, err := mcswork.ListOf(ctx, d.client, owner)
		if err != nil {
			return nil, err
		}
		for _, w := range works {
			if mcswork.IsCollected(w) {
				keys = append(keys, client.ObjectKeyFromObject(w))
			}
		}
	}
	return keys, nil
}

// onWork enqueues a record that came, changed or went, and the record of a Work that others changed or deleted.
func (d *dispatcher) onWork() handler.TypedEventHandler[*workv1alpha1.Work, reconcile.Request] {
	type work = *workv1alpha1.Work
	add := func(w work, q endpointslices.Queue) {
		switch {
		case mcswork.IsCollected(w):
			d.metrics.Changed(w)
			q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w)})
		case mcswork.IsDispatched(w):
			q.Add(reconcile.Request{NamespacedName: mcswork.SourceOf(w)})
		}
	}
	return handler.TypedFuncs[work, reconcile.Request]{
		CreateFunc: func(_ context.Context, e ctrlevent.TypedCreateEvent[work], q endpointslices.Queue) {
			if !d.own.Observe(e.Object) {
				add(e.Object, q) // A dispatched Work of the initial list: its record may be gone since.
			}
		},
		UpdateFunc: func(_ context.Context, e ctrlevent.TypedUpdateEvent[work], q endpointslices.Queue) {
			if mcswork.IsDispatched(e.ObjectNew) && isApplied(e.ObjectNew) {
				d.metrics.Arrived(e.ObjectNew)
			}
			if endpointslices.Changed(e.ObjectOld, e.ObjectNew) && !d.own.Observe(e.ObjectNew) {
				add(e.ObjectOld, q) // The labels that say what it is may have changed.
				add(e.ObjectNew, q)
			}
		},
		DeleteFunc: func(_ context.Context, e ctrlevent.TypedDeleteEvent[work], q endpointslices.Queue) {
			d.own.Forget(client.ObjectKeyFromObject(e.Object))
			d.metrics.Deleted(e.Object)
			add(e.Object, q)
		},
	}
}

// isApplied returns whether a member has a Work as it is now.
func isApplied(w *workv1alpha1.Work) bool {
	c := meta.FindStatusCondition(w.Status.Conditions, workv1alpha1.WorkApplied)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == w.Generation
}

// Reconcile brings the Works of one record up to date. The request names the record, whether it exists or not.
func (d *dispatcher) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	result, err := d.dispatch(ctx, request.NamespacedName)
	if err == nil {
		d.metrics.Dispatched(request.NamespacedName)
	}
	return endpointslices.Requeue(result, err)
}

func (d *dispatcher) dispatch(ctx context.Context, key types.NamespacedName) (reconcile.Result, error) {
	works, err := mcswork.ListFrom(ctx, d.client, key)
	if err != nil {
		return reconcile.Result{}, err
	}
	record, err := hubclient.GetWork(ctx, d.client, key)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case record == nil || record.DeletionTimestamp != nil || mcswork.IsDispatched(record):
		return reconcile.Result{}, d.withdraw(ctx, key, works)
	}
	slice, intact := sliceIn(record)
	if !intact {
		return reconcile.Result{}, nil // The collector repairs it; until then no consumer loses endpoints.
	}
	mcs := &networkingv1alpha1.MultiClusterService{}
	err = d.client.Get(ctx, mcswork.OwnerOf(record), mcs, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err), err == nil && mcs.DeletionTimestamp != nil:
		return reconcile.Result{}, d.withdraw(ctx, key, works)
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("reading MultiClusterService %s: %w", mcswork.OwnerOf(record), err)
	}
	registered, err := d.clusters.Registered(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	names := endpointslices.Names(registered)
	provider, _ := workv1alpha1.ClusterOfExecutionNamespace(record.Namespace)
	exposed := exposure.Of(&mcs.Spec, names)
	owner := mcswork.OwnerOf(record)
	if !slices.Contains(exposed.Providers, provider) || workv1alpha1.ReservedService(owner.Namespace, owner.Name) ||
		endpointslices.CheckOwner(registered, provider, slice) != nil {
		return reconcile.Result{}, d.withdraw(ctx, key, works)
	}
	expired, left := d.clusters.Expired(registered, provider)
	name := endpointslices.DistinctName(networkingv1alpha1.DispatchedEndpointSliceName(provider, slice.Name), provider, slice.Name, names)
	raw, err := endpointslices.Encode(endpointslices.Dispatched(slice, name, expired))
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	consumers := exposed.ConsumersOf(provider)
	d.metrics.Endpoints.Set(key, len(slice.Endpoints)*len(consumers))
	return reconcile.Result{RequeueAfter: left}, d.write(ctx, record, provider, consumers, works, raw)
}

// withdraw deletes the Works of a record.
func (d *dispatcher) withdraw(ctx context.Context, record types.NamespacedName, works []*workv1alpha1.Work) error {
	d.metrics.Endpoints.Set(record, 0)
	return hubclient.DeleteWorks(ctx, d.client, works...)
}

// sliceIn returns the slice that a record has; intact is false if others changed what the record is about.
func sliceIn(record *workv1alpha1.Work) (slice *discoveryv1.EndpointSlice, intact bool) {
	if !mcswork.IsCollected(record) || len(record.Spec.Workload.Manifests) != 1 {
		return nil, false
	}
	slice, err := endpointslices.DecodeRecord(record.Spec.Workload.Manifests[0].Raw, endpointslices.Collected)
	owner := mcswork.OwnerOf(record)
	return slice, err == nil && client.ObjectKeyFromObject(slice) == endpointslices.SliceOf(record) &&
		slice.Namespace == owner.Namespace && slice.Labels[discoveryv1.LabelServiceName] == owner.Name
}

// write writes a Work for each consumer and deletes all others. A failure of one does not hold up the others.
func (d *dispatcher) write(ctx context.Context, record *workv1alpha1.Work, provider string, consumers []string, works []*workv1alpha1.Work, raw []byte) error {
	slice, owner := endpointslices.SliceOf(record), mcswork.OwnerLabelsOn(record)
	wanted := map[types.NamespacedName]bool{}
	var failures []error
	for _, consumer := range consumers {
		key := mcswork.DispatchedKey(provider, consumer, slice)
		wanted[key] = true
		existing, err := hubclient.GetWork(ctx, d.client, key) // By name: others may have removed the labels that the index reads.
		if err != nil {
			failures = append(failures, err)
			continue
		}
		started := d.metrics.Sent(key, client.ObjectKeyFromObject(record))
		wrote, err := endpointslices.WriteOwn(ctx, d.client, &d.own, existing, mcswork.Dispatched(provider, consumer, owner, slice, raw, existing))
		if started && !wrote {
			d.metrics.Dispatched(key)
		}
		failures = append(failures, err)
	}
	for _, w := range works {
		if !wanted[client.ObjectKeyFromObject(w)] {
			failures = append(failures, hubclient.DeleteWorks(ctx, d.client, w))
		}
	}
	return errors.Join(failures...)
}
