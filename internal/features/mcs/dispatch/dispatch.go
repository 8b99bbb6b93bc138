package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/features/mcs/exposure"
	"github.com/flagship-k8s/flagship/internal/features/mcs/mcswork"
	"github.com/flagship-k8s/flagship/internal/features/mcs/metrics"
)

// dispatcher takes one collected slice at a time to its consumers.
type dispatcher struct {
	client  client.Client
	fleet   endpointslices.Clusters
	own     endpointslices.OwnWrites
	metrics *metrics.Dispatch
}

// Reconcile brings the Works of one record up to date. The request names the record, whether it exists or not.
func (d *dispatcher) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	result, err := d.dispatch(ctx, request)
	if err == nil {
		d.metrics.Underway.End(request.NamespacedName)
	}
	return result, err
}

func (d *dispatcher) dispatch(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	works, err := endpointslices.ListWorks(ctx, d.client, client.MatchingFields{mcswork.SourceIndex: request.String()})
	if err != nil {
		return reconcile.Result{}, err
	}
	record, err := endpointslices.GetWork(ctx, d.client, request.NamespacedName)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case record == nil || record.DeletionTimestamp != nil || mcswork.IsDispatched(record):
		return reconcile.Result{}, d.end(ctx, request, works)
	}
	slice, sound := sliceIn(record)
	if !sound {
		return reconcile.Result{}, nil // collect puts it right, and meanwhile nobody loses endpoints
	}
	mcs, err := d.owner(ctx, record)
	if err != nil {
		return reconcile.Result{}, err
	}
	if mcs == nil {
		return reconcile.Result{}, d.end(ctx, request, works)
	}
	registered, err := d.fleet.Registered(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	provider, _ := workv1alpha1.ClusterOfExecutionNamespace(record.Namespace)
	exposure := exposure.Of(&mcs.Spec, registered)
	if !slices.Contains(exposure.Providers, provider) {
		return reconcile.Result{}, d.end(ctx, request, works)
	}
	expired, left := d.fleet.Expired(ctx, provider)
	result := reconcile.Result{RequeueAfter: left}
	raw, err := endpointslices.Encode(endpointslices.Dispatched(slice, endpointslices.Name(provider, slice.Name, registered), expired))
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	err = d.spread(ctx, record, provider, exposure.ConsumersOf(provider), works, raw)
	d.metrics.Endpoints.Set(request.NamespacedName, len(slice.Endpoints)*len(exposure.ConsumersOf(provider)))
	if errors.Is(err, endpointslices.ErrNoExecutionNamespace) || errors.Is(err, endpointslices.ErrChangedMeanwhile) {
		return reconcile.Result{RequeueAfter: endpointslices.RetryDelay}, nil
	}
	return result, err
}

// end takes a record's slice from all consumers.
func (d *dispatcher) end(ctx context.Context, request reconcile.Request, works []*workv1alpha1.Work) error {
	d.metrics.Endpoints.Set(request.NamespacedName, 0)
	return endpointslices.DeleteAll(ctx, d.client, works)
}

// owner is the MultiClusterService that a record belongs to, nil if there is none or it is going.
func (d *dispatcher) owner(ctx context.Context, record *workv1alpha1.Work) (*networkingv1alpha1.MultiClusterService, error) {
	mcs := &networkingv1alpha1.MultiClusterService{}
	err := d.client.Get(ctx, mcswork.OwnerOf(record), mcs, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err), err == nil && mcs.DeletionTimestamp != nil:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading MultiClusterService %s: %w", mcswork.OwnerOf(record), err)
	}
	return mcs, nil
}

// sliceIn is the slice that a record has; not sound if somebody made something else of the record.
func sliceIn(record *workv1alpha1.Work) (slice *discoveryv1.EndpointSlice, sound bool) {
	if !mcswork.IsCollected(record) || len(record.Spec.Workload.Manifests) != 1 {
		return nil, false
	}
	slice, err := endpointslices.Decode(record.Spec.Workload.Manifests[0].Raw)
	return slice, err == nil && slice.Kind == endpointslices.TypeMeta.Kind && client.ObjectKeyFromObject(slice) == endpointslices.SliceOf(record) &&
		slice.Namespace == mcswork.OwnerOf(record).Namespace && slice.Labels[discoveryv1.LabelServiceName] == mcswork.OwnerOf(record).Name
}

// spread writes a Work for each consumer and deletes all others. One that fails does not hold the rest.
func (d *dispatcher) spread(ctx context.Context, record *workv1alpha1.Work, provider string, consumers []string, works []*workv1alpha1.Work, raw []byte) error {
	slice := endpointslices.SliceOf(record)
	wanted := map[types.NamespacedName]*workv1alpha1.Work{}
	for _, consumer := range consumers {
		wanted[mcswork.DispatchedKey(provider, consumer, slice)] = nil
	}
	var surplus []*workv1alpha1.Work
	for _, w := range works {
		if _, ok := wanted[client.ObjectKeyFromObject(w)]; ok {
			wanted[client.ObjectKeyFromObject(w)] = w
		} else {
			surplus = append(surplus, w)
		}
	}
	failures := []error{endpointslices.DeleteAll(ctx, d.client, surplus)}
	for _, consumer := range consumers {
		key := mcswork.DispatchedKey(provider, consumer, slice)
		existing := wanted[key]
		if existing == nil { // or somebody took off what it is found by
			var err error
			if existing, err = endpointslices.GetWork(ctx, d.client, key); err != nil {
				failures = append(failures, err)
				continue
			}
		}
		started := d.metrics.Sent(key, client.ObjectKeyFromObject(record))
		wrote, err := endpointslices.WriteOwn(ctx, d.client, &d.own, existing, mcswork.Dispatched(provider, consumer, mcswork.OwnerLabelsOn(record), slice, raw, existing))
		if started && !wrote {
			d.metrics.Underway.End(key)
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}
