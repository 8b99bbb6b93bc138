package imports

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
)

// importDispatcher takes one recorded slice of an exported Service at a time to the clusters that import it.
type importDispatcher struct {
	*importer
	fleet endpointslices.Clusters
	own   endpointslices.OwnWrites
}

// Reconcile brings the Works of one record up to date. The request names the record, whether it exists or not.
func (d *importDispatcher) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	works, err := endpointslices.ListWorks(ctx, d.client, client.MatchingFields{exportwork.RecordIndex: request.String()})
	if err != nil {
		return reconcile.Result{}, err
	}
	record := &workv1alpha1.Work{}
	if err := d.client.Get(ctx, request.NamespacedName, record, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("reading Work %s: %w", request, err)
	}
	if exportwork.RoleOf(record) != multiclusterv1beta1.RoleEndpoints || record.DeletionTimestamp != nil || len(record.Spec.Workload.Manifests) != 1 {
		return reconcile.Result{}, endpointslices.DeleteAll(ctx, d.client, works)
	}
	s, err := d.look(ctx, exportwork.ExportOf(record))
	if err != nil {
		return reconcile.Result{}, err
	}
	from, _ := workv1alpha1.ClusterOfExecutionNamespace(record.Namespace)
	if !slices.Contains(s.exporting(), from) {
		return reconcile.Result{}, endpointslices.DeleteAll(ctx, d.client, works)
	}
	slice, err := endpointslices.Decode(record.Spec.Workload.Manifests[0].Raw)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	expired, left := d.fleet.Expired(ctx, from)
	err = d.spread(ctx, s, passage{from: from, service: s.key, away: expired}, slice, works)
	return again(left, err)
}

// again is when to look again, left being what is left of a grace: sooner where a cluster was too new to have Works, or
// somebody else wrote to one.
func again(left time.Duration, err error) (reconcile.Result, error) {
	if errors.Is(err, endpointslices.ErrNoExecutionNamespace) || errors.Is(err, endpointslices.ErrChangedMeanwhile) {
		return reconcile.Result{RequeueAfter: endpointslices.RetryDelay}, nil
	}
	return reconcile.Result{RequeueAfter: left}, err
}

// spread writes a Work for each cluster that imports and deletes those of others. One that fails does not hold the rest.
func (d *importDispatcher) spread(ctx context.Context, s *set, way passage, slice *discoveryv1.EndpointSlice, works []*workv1alpha1.Work) error {
	existing := map[string]*workv1alpha1.Work{}
	for _, w := range works {
		cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(w.Namespace)
		existing[cluster] = w
	}
	way.name = importedSliceName(way.from, slice.Name, s.names())
	var failures []error
	for _, cluster := range s.registered {
		if !d.imports(s, cluster, existing[cluster.Name] != nil) {
			continue
		}
		way.to, way.spec = cluster.Name, *s.spec(cluster.Name)
		failures = append(failures, d.send(ctx, slice, way))
		delete(existing, cluster.Name)
	}
	var surplus []*workv1alpha1.Work
	for _, w := range existing {
		surplus = append(surplus, w)
	}
	return errors.Join(append(failures, endpointslices.DeleteAll(ctx, d.client, surplus))...)
}

// send writes the Work for one cluster.
func (d *importDispatcher) send(ctx context.Context, slice *discoveryv1.EndpointSlice, way passage) error {
	raw, err := endpointslices.Encode(imported(slice, way))
	if err != nil {
		return err
	}
	key := types.NamespacedName{
		Namespace: workv1alpha1.ExecutionNamespace(way.to), Name: multiclusterv1beta1.ImportedEndpointsWorkName(way.from, slice.Namespace, slice.Name),
	}
	existing, err := endpointslices.GetWork(ctx, d.client, key) // by name: somebody may have taken off what it is found by
	if err != nil {
		return err
	}
	_, err = endpointslices.WriteOwn(ctx, d.client, &d.own, existing, importedWork(way, client.ObjectKeyFromObject(slice), raw, existing))
	return err
}
