package service

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
)

// dispatcher takes one collected slice at a time to its consumers.
type dispatcher struct {
	client  client.Client
	fleet   clusterReader
	own     ownWrites
	metrics *metrics
}

// Reconcile brings the Works of one record up to date. The request names the record, whether it exists or not.
func (d *dispatcher) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	result, err := d.dispatch(ctx, request)
	if err == nil {
		d.metrics.underway.end(request.NamespacedName)
	}
	return result, err
}

func (d *dispatcher) dispatch(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	works, err := listWorks(ctx, d.client, client.MatchingFields{sourceIndex: request.String()})
	if err != nil {
		return reconcile.Result{}, err
	}
	record, err := workNamed(ctx, d.client, request.NamespacedName)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case record == nil || record.DeletionTimestamp != nil || isDispatched(record):
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
	registered, err := d.fleet.registered(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	provider, _ := workv1alpha1.ClusterOfExecutionNamespace(record.Namespace)
	exposure := Expose(&mcs.Spec, registered)
	if !slices.Contains(exposure.Providers, provider) {
		return reconcile.Result{}, d.end(ctx, request, works)
	}
	expired, left := d.fleet.expired(ctx, provider)
	result := reconcile.Result{RequeueAfter: left}
	raw, err := encodeSlice(dispatched(slice, sliceName(provider, slice.Name, registered), expired))
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	err = d.spread(ctx, record, provider, exposure.ConsumersOf(provider), works, raw)
	d.metrics.endpoints.set(request.NamespacedName, len(slice.Endpoints)*len(exposure.ConsumersOf(provider)))
	if errors.Is(err, errNoExecutionSpace) || errors.Is(err, errOvertaken) {
		return reconcile.Result{RequeueAfter: awhile}, nil
	}
	return result, err
}

// end takes a record's slice from all consumers.
func (d *dispatcher) end(ctx context.Context, request reconcile.Request, works []*workv1alpha1.Work) error {
	d.metrics.endpoints.set(request.NamespacedName, 0)
	return deleteAll(ctx, d.client, works)
}

// owner is the MultiClusterService that a record belongs to, nil if there is none or it is going.
func (d *dispatcher) owner(ctx context.Context, record *workv1alpha1.Work) (*networkingv1alpha1.MultiClusterService, error) {
	mcs := &networkingv1alpha1.MultiClusterService{}
	err := d.client.Get(ctx, ownerOf(record), mcs, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err), err == nil && mcs.DeletionTimestamp != nil:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading MultiClusterService %s: %w", ownerOf(record), err)
	}
	return mcs, nil
}

// sliceIn is the slice that a record has; not sound if somebody made something else of the record.
func sliceIn(record *workv1alpha1.Work) (slice *discoveryv1.EndpointSlice, sound bool) {
	if !isCollected(record) || len(record.Spec.Workload.Manifests) != 1 {
		return nil, false
	}
	slice, err := decodeSlice(record.Spec.Workload.Manifests[0].Raw)
	return slice, err == nil && slice.Kind == sliceMeta.Kind && client.ObjectKeyFromObject(slice) == sliceOf(record) &&
		slice.Namespace == ownerOf(record).Namespace && slice.Labels[discoveryv1.LabelServiceName] == ownerOf(record).Name
}

// spread writes a Work for each consumer and deletes all others. One that fails does not hold the rest.
func (d *dispatcher) spread(ctx context.Context, record *workv1alpha1.Work, provider string, consumers []string, works []*workv1alpha1.Work, raw []byte) error {
	slice := sliceOf(record)
	wanted := map[types.NamespacedName]*workv1alpha1.Work{}
	for _, consumer := range consumers {
		wanted[dispatchedKey(provider, consumer, slice)] = nil
	}
	var surplus []*workv1alpha1.Work
	for _, w := range works {
		if _, ok := wanted[client.ObjectKeyFromObject(w)]; ok {
			wanted[client.ObjectKeyFromObject(w)] = w
		} else {
			surplus = append(surplus, w)
		}
	}
	failures := []error{deleteAll(ctx, d.client, surplus)}
	for _, consumer := range consumers {
		key := dispatchedKey(provider, consumer, slice)
		existing := wanted[key]
		if existing == nil { // or somebody took off what it is found by
			var err error
			if existing, err = workNamed(ctx, d.client, key); err != nil {
				failures = append(failures, err)
				continue
			}
		}
		started := d.metrics.sent(key, client.ObjectKeyFromObject(record))
		wrote, err := recorded(ctx, d.client, &d.own, existing, dispatchedWork(provider, consumer, ownerLabelsOn(record), slice, raw, existing))
		if started && !wrote {
			d.metrics.underway.end(key)
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}
