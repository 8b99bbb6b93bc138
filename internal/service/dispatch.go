package service

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// dispatcher takes one collected slice at a time to its consumers.
type dispatcher struct {
	client client.Client
	fleet  roster
}

// Reconcile brings the Works of one record up to date. The request names the record, whether it exists or not.
func (d *dispatcher) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	works, err := listWorks(ctx, d.client, client.MatchingFields{sourceIndex: request.String()})
	if err != nil {
		return reconcile.Result{}, err
	}
	record, mcs, err := d.source(ctx, request)
	if err != nil {
		return reconcile.Result{}, err
	}
	if record == nil || mcs == nil {
		return reconcile.Result{}, deleteAll(ctx, d.client, works)
	}
	registered, err := d.fleet.registered(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	provider, _ := workv1alpha1.ClusterOfExecutionNamespace(record.Namespace)
	exposure := Expose(&mcs.Spec, registered)
	if !slices.Contains(exposure.Providers, provider) {
		return reconcile.Result{}, deleteAll(ctx, d.client, works)
	}
	expired, left := d.fleet.expired(ctx, provider)
	result := reconcile.Result{RequeueAfter: left}
	raw, err := composeSlice(record, provider, registered, expired)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	err = d.spread(ctx, record, provider, exposure.ConsumersOf(provider), works, raw)
	if errors.Is(err, errNoExecutionSpace) && (left == 0 || left > awhile) {
		return reconcile.Result{RequeueAfter: awhile}, nil
	}
	return result, err
}

// source reads a record and whose it is, nil where there is none or it is going.
func (d *dispatcher) source(ctx context.Context, request reconcile.Request) (*workv1alpha1.Work, *networkingv1alpha1.MultiClusterService, error) {
	record := &workv1alpha1.Work{}
	if err := d.client.Get(ctx, request.NamespacedName, record, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, client.IgnoreNotFound(err)
	}
	if record.DeletionTimestamp != nil || !isCollected(record) || len(record.Spec.Workload.Manifests) != 1 {
		return nil, nil, nil
	}
	mcs := &networkingv1alpha1.MultiClusterService{}
	err := d.client.Get(ctx, ownerOf(record), mcs, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err), err == nil && mcs.DeletionTimestamp != nil:
		return record, nil, nil
	case err != nil:
		return nil, nil, fmt.Errorf("reading MultiClusterService %s: %w", ownerOf(record), err)
	}
	return record, mcs, nil
}

func composeSlice(record *workv1alpha1.Work, provider string, registered []string, away bool) ([]byte, error) {
	slice, err := decodeSlice(record.Spec.Workload.Manifests[0].Raw)
	if err != nil {
		return nil, err
	}
	return encodeSlice(dispatched(slice, sliceName(provider, slice.Name, registered), away))
}

// spread writes a Work for each consumer and deletes those of others. One that fails does not hold the rest.
func (d *dispatcher) spread(ctx context.Context, record *workv1alpha1.Work, provider string, consumers []string, works []*workv1alpha1.Work, raw []byte) error {
	existing := map[string]*workv1alpha1.Work{}
	var surplus []*workv1alpha1.Work
	for _, w := range works {
		cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(w.Namespace)
		if slices.Contains(consumers, cluster) {
			existing[cluster] = w
		} else {
			surplus = append(surplus, w)
		}
	}
	failures := []error{deleteAll(ctx, d.client, surplus)}
	for _, consumer := range consumers {
		desired := dispatchedWork(provider, consumer, ownerLabelsOn(record), sliceOf(record), raw, existing[consumer])
		failures = append(failures, write(ctx, d.client, existing[consumer], desired))
	}
	return errors.Join(failures...)
}
