package mcsapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flagship-k8s/flagship/internal/clients/member/memberqueue"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/addresses"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
)

// Deps is what following exports in members needs besides the manager's client and cache.
type Deps struct {
	// Client is that of package hubclient. Required.
	Client client.Client
	// Fleet has the connections to the members. Required.
	Fleet *member.Fleet
	// Clock defaults to the real one.
	Clock clock.WithTicker
	// Workers is how many objects of one member are looked at at a time. Default 4.
	Workers int
}

// Setup adds following exports in members to a manager, and what they and imports are told there. Call it before
// the fleet has connections. The context is for adding indexes only.
func Setup(ctx context.Context, mgr ctrl.Manager, deps Deps) error {
	if deps.Fleet == nil {
		return errors.New("following exports needs Fleet")
	}
	if deps.Clock == nil {
		deps.Clock = clock.RealClock{}
	}
	if deps.Workers == 0 {
		deps.Workers = 4
	}
	if err := exportwork.AddIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	writes := deps.Client
	e := &exporter{client: writes, cache: mgr.GetCache(), fleet: deps.Fleet, clock: deps.Clock, members: map[string]*exporting{}}
	lanes := func(loop string, task memberqueue.ReconcileFunc) *memberqueue.Queues {
		return memberqueue.New(loop, deps.Fleet, deps.Clock, deps.Workers, task)
	}
	e.exports = lanes("exports", e.reconcile)
	e.endpoints = lanes("exported-endpoints", e.reconcileEndpoints)
	deps.Fleet.Subscribe(e.settle)
	if err := mgr.Add(e); err != nil {
		return fmt.Errorf("adding what follows exports: %w", err)
	}
	return addresses.Setup(mgr, addresses.Deps{Client: deps.Client, Fleet: deps.Fleet, Clock: deps.Clock, Workers: deps.Workers})
}

// exporter keeps records of what members export, and tells the exports what the control plane makes of them. It knows the
// hub by Works alone, so it runs wherever a connection is.
type exporter struct {
	client    client.Client
	cache     cache.Cache
	fleet     *member.Fleet
	clock     clock.PassiveClock
	exports   *memberqueue.Queues
	endpoints *memberqueue.Queues

	mu      sync.Mutex
	ctx     context.Context // nil until Start
	members map[string]*exporting
}

// exporting is what is followed in one member. Of Services and slices only those in namespaces with exports.
type exporting struct {
	conn    *member.Conn
	exports *endpointslices.Watch[*multiclusterv1beta1.ServiceExport]
	spaces  map[string]*exportingSpace
}

type exportingSpace struct {
	services *endpointslices.Watch[corev1.ServiceSpec]
	slices   *endpointslices.SliceWatch
}

func (s *exportingSpace) stop() {
	s.services.Stop()
	s.slices.Stop()
}

// Start implements manager.Runnable: it follows the members until ctx ends.
func (e *exporter) Start(ctx context.Context) error {
	e.mu.Lock()
	e.ctx = ctx
	e.mu.Unlock()
	works, err := e.cache.GetInformer(ctx, &workv1alpha1.Work{})
	if err != nil {
		return fmt.Errorf("watching Works: %w", err)
	}
	handle, err := works.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    e.workChanged,
		UpdateFunc: func(_, work any) { e.workChanged(work) },
		DeleteFunc: e.workChanged,
	})
	if err != nil {
		return fmt.Errorf("watching Works: %w", err)
	}
	defer func() { _ = works.RemoveEventHandler(handle) }() // the cache ends with us
	for _, cluster := range e.fleet.Names() {
		e.settle(cluster)
	}
	var group sync.WaitGroup
	var failures [2]error
	group.Go(func() { failures[0] = e.exports.Start(ctx) })
	group.Go(func() { failures[1] = e.endpoints.Start(ctx) })
	group.Wait()
	return errors.Join(failures[:]...)
}

// workChanged follows the records, which somebody may have taken away or the control plane has noted something on, and the
// arrival of the definitions.
func (e *exporter) workChanged(obj any) {
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	work, ok := obj.(*workv1alpha1.Work)
	if !ok {
		return
	}
	cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace)
	switch {
	case !ok:
	case exportwork.RoleOf(work) == multiclusterv1beta1.RoleExport:
		e.exports.Add(cluster, exportwork.ExportOf(work))
	case exportwork.RoleOf(work) == multiclusterv1beta1.RoleEndpoints && work.DeletionTimestamp != nil:
		e.endpoints.Add(cluster, endpointslices.SliceOf(work))
	case work.Name == exportwork.ExportDefinition:
		e.settle(cluster)
	}
}

// settle follows the coming and going of a connection. A member is left alone until somebody has tried to put the
// definition of exports there.
func (e *exporter) settle(cluster string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx == nil {
		return // Start looks at all
	}
	conn, connected := e.fleet.Get(cluster)
	m := e.members[cluster]
	if m != nil && (!connected || m.conn != conn) {
		m.exports.Stop()
		for _, space := range m.spaces {
			space.stop()
		}
		delete(e.members, cluster)
		m = nil
	}
	if m != nil || !connected || !e.delivered(cluster) {
		return
	}
	exports, err := followExports(e.ctx, conn, endpointslices.Handlers{
		Changed: func(export types.NamespacedName) { e.exportChanged(cluster, export) },
		Listed:  func() { e.complete(cluster) },
	})
	if err != nil { // The configuration of every connection is the same: it cannot be wrong for one.
		log.FromContext(e.ctx).Error(err, "Cannot watch ServiceExports", "cluster", cluster)
		return
	}
	e.members[cluster] = &exporting{conn: conn, exports: exports, spaces: map[string]*exportingSpace{}}
}

// delivered says that the definition of exports was brought to a member, or that it was tried: it may have one of its own.
func (e *exporter) delivered(cluster string) bool {
	work := &workv1alpha1.Work{}
	key := types.NamespacedName{Namespace: workv1alpha1.ExecutionNamespace(cluster), Name: exportwork.ExportDefinition}
	return e.client.Get(e.ctx, key, work, client.UnsafeDisableDeepCopy) == nil && endpointslices.AppliedResult(work) != ""
}

// exportChanged watches a namespace as long as it has exports.
func (e *exporter) exportChanged(cluster string, export types.NamespacedName) {
	e.mu.Lock()
	if m := e.members[cluster]; m != nil {
		e.adjust(cluster, m)
	}
	e.mu.Unlock()
	e.exports.Add(cluster, export)
}

// adjust makes the watches in a member what its exports need. The lock is held.
func (e *exporter) adjust(cluster string, m *exporting) {
	wanted := map[string]bool{}
	for _, export := range m.exports.Keys(endpointslices.Everything) {
		wanted[export.Namespace] = true
	}
	for namespace, space := range m.spaces {
		if !wanted[namespace] {
			space.stop()
			delete(m.spaces, namespace)
		}
	}
	for namespace := range wanted {
		if m.spaces[namespace] != nil {
			continue
		}
		space, err := e.watchSpace(cluster, m.conn, namespace)
		if err != nil {
			log.FromContext(e.ctx).Error(err, "Cannot watch exported Services", "cluster", cluster)
			continue
		}
		m.spaces[namespace] = space
	}
}

func (e *exporter) watchSpace(cluster string, conn *member.Conn, namespace string) (*exportingSpace, error) {
	services, err := followServices(e.ctx, conn, namespace, endpointslices.Handlers{
		Changed: func(service types.NamespacedName) { e.exports.Add(cluster, service) },
		Listed:  func() { e.complete(cluster) },
	})
	if err != nil {
		return nil, err
	}
	slices, err := endpointslices.StartSlices(e.ctx, conn, endpointslices.Scope{Namespace: namespace}, exportwork.Exported, endpointslices.Handlers{
		Changed: func(slice types.NamespacedName) { e.endpoints.Add(cluster, slice) },
		Listed:  func() { e.complete(cluster) },
	})
	if err != nil {
		services.Stop()
		return nil, err
	}
	return &exportingSpace{services: services, slices: slices}, nil
}

// complete queues everything about a member, once all of a kind has been seen: something may have gone while nobody looked,
// and what was seen before could not be judged.
func (e *exporter) complete(cluster string) {
	works, err := endpointslices.ListWorks(e.ctx, e.client, client.MatchingFields{exportwork.ServiceIndex: exportwork.InCluster(cluster)})
	if err != nil { // a cache that has synced fails for a missing index only
		log.FromContext(e.ctx).Error(err, "Listing records of exports")
	}
	for _, w := range works {
		if exportwork.RoleOf(w) == multiclusterv1beta1.RoleExport {
			e.exports.Add(cluster, exportwork.ExportOf(w))
		} else {
			e.endpoints.Add(cluster, endpointslices.SliceOf(w))
		}
	}
	exports, slices := e.seen(cluster)
	for _, export := range exports {
		e.exports.Add(cluster, export)
	}
	for _, slice := range slices {
		e.endpoints.Add(cluster, slice)
	}
}

// seen lists the exports of a member, and the slices in their namespaces.
func (e *exporter) seen(cluster string) (exports, slices []types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.members[cluster]
	if m == nil {
		return nil, nil
	}
	for _, space := range m.spaces {
		slices = append(slices, space.slices.Keys(endpointslices.Everything)...)
	}
	return m.exports.Keys(endpointslices.Everything), slices
}

func (e *exporter) member(cluster string) *exporting {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.members[cluster]
}

func (e *exporter) space(cluster, namespace string) (*exporting, *exportingSpace) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.members[cluster]
	if m == nil {
		return nil, nil
	}
	return m, m.spaces[namespace]
}

// look finds an export and the Service behind it, nil where there is none. Certain is false while not everything has been
// seen.
func (e *exporter) look(cluster string, key types.NamespacedName) (export *multiclusterv1beta1.ServiceExport, service *corev1.ServiceSpec, certain bool) {
	m, space := e.space(cluster, key.Namespace)
	if m == nil {
		return nil, nil, false
	}
	export, exists, certain := m.exports.Get(key)
	if !exists || space == nil || !certain {
		return nil, nil, certain && !exists
	}
	spec, exists, certain := space.services.Get(key)
	if exists {
		return export, &spec, true
	}
	return export, nil, certain
}

// reconcile is the member.Task for exports: it makes the record of one what it is, and its conditions what is noted there.
func (e *exporter) reconcile(ctx context.Context, cluster string, key types.NamespacedName) (time.Duration, error) {
	export, service, certain := e.look(cluster, key)
	if !certain {
		return 0, nil // when it is, the export is queued again
	}
	record, err := endpointslices.GetWorkOf(ctx, e.client, cluster, multiclusterv1beta1.ExportRecordName(key.Namespace, key.Name))
	if err != nil {
		return 0, err
	}
	valid := metav1.Condition{}
	if export != nil {
		valid = validity(export, service)
	}
	known := record != nil
	if valid.Status == metav1.ConditionTrue {
		if record, err = e.record(ctx, cluster, export, *service, record); err != nil {
			return 0, err
		}
	} else if known {
		if err := endpointslices.DeleteAll(ctx, e.client, []*workv1alpha1.Work{record}); err != nil {
			return 0, err
		}
		record = nil
	}
	if known != (record != nil) {
		e.queueSlices(ctx, cluster, key)
	}
	if export == nil {
		return 0, nil
	}
	return 0, e.tell(ctx, cluster, export, exportConditions(export, valid, record, e.clock.Now()))
}

// record writes the record of an export, and returns it as it is known; nil while the cluster cannot have Works.
func (e *exporter) record(ctx context.Context, cluster string, export *multiclusterv1beta1.ServiceExport, service corev1.ServiceSpec, existing *workv1alpha1.Work) (*workv1alpha1.Work, error) {
	desired, err := exportwork.ExportRecord(cluster, export, service, existing)
	if err != nil {
		return nil, err
	}
	err = endpointslices.Write(ctx, e.client, existing, desired)
	if errors.Is(err, endpointslices.ErrNoExecutionNamespace) {
		return nil, nil // the cluster is going
	}
	return desired, err
}

func (e *exporter) queueSlices(ctx context.Context, cluster string, export types.NamespacedName) {
	if _, space := e.space(cluster, export.Namespace); space != nil {
		for _, slice := range space.slices.Keys(endpointslices.OfService(export)) {
			e.endpoints.Add(cluster, slice)
		}
	}
	works, err := endpointslices.ListWorks(ctx, e.client, client.MatchingFields{exportwork.ServiceIndex: exportwork.InCluster(cluster)})
	if err != nil { // a cache that has synced fails for a missing index only
		log.FromContext(ctx).Error(err, "Listing records of exports")
	}
	for _, w := range works {
		if exportwork.RoleOf(w) == multiclusterv1beta1.RoleEndpoints && exportwork.ExportOf(w) == export {
			e.endpoints.Add(cluster, endpointslices.SliceOf(w))
		}
	}
}

// tell writes the conditions of an export, if they are others. What somebody else wrote meanwhile is not lost: nothing is
// written then, and the news of it, which follows, leads here again.
func (e *exporter) tell(ctx context.Context, cluster string, export *multiclusterv1beta1.ServiceExport, conditions []metav1.Condition) error {
	m := e.member(cluster)
	if m == nil || export.DeletionTimestamp != nil || equality.Semantic.DeepEqual(conditions, export.Status.Conditions) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": export.UID, "resourceVersion": export.ResourceVersion},
		"status":   map[string]any{"conditions": conditions},
	})
	if err != nil {
		return fmt.Errorf("encoding the conditions of an export: %w", err)
	}
	_, err = m.conn.Dynamic().Resource(exportwork.ServiceExports).Namespace(export.Namespace).Patch(ctx, export.Name,
		types.MergePatchType, patch, metav1.PatchOptions{FieldManager: exportwork.ConditionsManager}, "status")
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("writing the conditions of ServiceExport %s: %w", client.ObjectKeyFromObject(export), err)
	}
	return nil
}

// reconcileEndpoints is the member.Task for slices: it makes the record of one what the slice is.
func (e *exporter) reconcileEndpoints(ctx context.Context, cluster string, slice types.NamespacedName) (time.Duration, error) {
	existing, err := endpointslices.GetWorkOf(ctx, e.client, cluster, multiclusterv1beta1.EndpointsRecordName(slice.Namespace, slice.Name))
	if err != nil {
		return 0, err
	}
	seen := e.lookAtSlice(cluster, slice)
	switch {
	case !seen.Certain:
		return 0, nil // when it is, the slice is queued again
	case seen.Raw == nil && existing != nil:
		return 0, endpointslices.DeleteAll(ctx, e.client, []*workv1alpha1.Work{existing})
	case seen.Raw == nil:
		return 0, nil
	}
	err = endpointslices.Write(ctx, e.client, existing, exportwork.EndpointsRecord(cluster, seen.Service, slice, seen.Raw, existing))
	if errors.Is(err, endpointslices.ErrNoExecutionNamespace) {
		return 0, nil // the cluster is going
	}
	return 0, err
}

// lookAtSlice finds a slice of an exported Service.
func (e *exporter) lookAtSlice(cluster string, slice types.NamespacedName) endpointslices.Seen {
	m, space := e.space(cluster, slice.Namespace)
	if m == nil {
		return endpointslices.Seen{}
	}
	if space == nil { // while an export is there, it is about to be watched
		here := m.exports.Keys(func(export *multiclusterv1beta1.ServiceExport) bool { return export.Namespace == slice.Namespace })
		return endpointslices.Seen{Certain: m.exports.HasSynced() && len(here) == 0}
	}
	found, exists, certain := space.slices.Get(slice)
	if !exists {
		return endpointslices.Seen{Certain: certain}
	}
	export, service, certain := e.look(cluster, found.Service)
	if export == nil || service == nil || service.Type == corev1.ServiceTypeExternalName {
		return endpointslices.Seen{Certain: certain}
	}
	return endpointslices.Seen{Raw: found.Raw, Service: found.Service, Certain: true}
}
