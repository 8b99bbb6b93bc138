package mcsapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberqueue"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/addresses"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// Deps is what the loops over exports and imports in members need besides the manager's cache.
type Deps struct {
	// Client is that of package hubclient. Required.
	Client client.Client
	// Fleet has the connections to the members. Required.
	Fleet *member.Fleet
	// Clock defaults to the real one.
	Clock clock.WithTicker
	// Workers is how many objects of one member are reconciled at a time. Default 4.
	Workers int
}

// Setup adds the loops over exports in members, and over the imports there. Call it before the fleet has connections. The context is
// for adding indexes only.
func Setup(ctx context.Context, mgr ctrl.Manager, deps Deps) error {
	if deps.Client == nil || deps.Fleet == nil {
		return errors.New("exports need Client and Fleet")
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
	if err := mgr.Add(newExporter(mgr.GetCache(), deps)); err != nil {
		return fmt.Errorf("adding the loop over exports: %w", err)
	}
	return addresses.Setup(mgr, deps.Client, deps.Fleet, deps.Clock, deps.Workers)
}

// exporter keeps records of what members export, and writes the verdicts of the control plane into the conditions of the exports. It
// reads and writes only Works in the control plane, so that it runs wherever a connection is.
type exporter struct {
	client    client.Client
	cache     cache.Cache
	fleet     *member.Fleet
	clock     clock.PassiveClock
	exports   *memberqueue.Queues
	endpoints *memberqueue.Queues
	watches   *memberwatch.Group // since Start

	mu      sync.Mutex
	members map[string]*exporting
}

// exporting is what is watched in one member. Of Services and slices only those in namespaces with exports.
type exporting struct {
	conn       *member.Conn
	exports    *memberwatch.Watch[*multiclusterv1beta1.ServiceExport]
	namespaces map[string]*exportingNamespace
	// refused are the slices of which nothing is recorded.
	refused map[types.NamespacedName]refusedSlice
}

type refusedSlice struct {
	export types.NamespacedName
	why    string
}

type exportingNamespace struct {
	services *memberwatch.Watch[corev1.ServiceSpec]
	slices   *memberwatch.Watch[endpointslices.Slice]
}

func (n *exportingNamespace) stop() {
	n.services.Stop()
	n.slices.Stop()
}

func newExporter(works cache.Cache, deps Deps) *exporter {
	e := &exporter{client: deps.Client, cache: works, fleet: deps.Fleet, clock: deps.Clock, members: map[string]*exporting{}}
	e.exports = memberqueue.New("exports", deps.Fleet, deps.Clock, deps.Workers, e.reconcile)
	e.endpoints = memberqueue.New("exported-endpoints", deps.Fleet, deps.Clock, deps.Workers, e.reconcileEndpoints)
	return e
}

// Start implements manager.Runnable: it watches the members until ctx is done.
func (e *exporter) Start(ctx context.Context) error {
	e.watches = memberwatch.NewGroup(ctx)
	defer e.watches.Close()
	_, stop, err := hubclient.Follow(ctx, e.cache, func(before, after *workv1alpha1.Work, _ bool) {
		e.workChanged(cmp.Or(after, before))
		if before != nil && after != nil && isRefused(before) != isRefused(after) {
			if cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(after.Namespace); ok {
				e.exports.Add(cluster, slicesOf(exportwork.ServiceOf(after)))
			}
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	e.fleet.Subscribe(func(cluster string) { e.exports.Add(cluster, definition) })
	var running sync.WaitGroup
	var failures [2]error
	running.Go(func() { failures[0] = e.exports.Start(ctx) })
	running.Go(func() { failures[1] = e.endpoints.Start(ctx) })
	running.Wait()
	return errors.Join(failures[:]...)
}

// workChanged follows the records, which others may have deleted or the control plane has written a verdict on, and the Works with the
// definitions.
func (e *exporter) workChanged(work *workv1alpha1.Work) {
	cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace)
	switch {
	case !ok:
	case exportwork.RoleOf(work) == multiclusterv1beta1.RoleExport:
		e.exports.Add(cluster, exportwork.ServiceOf(work))
	case exportwork.RoleOf(work) == multiclusterv1beta1.RoleEndpoints && work.DeletionTimestamp != nil:
		e.endpoints.Add(cluster, endpointslices.SliceOf(work))
	case work.Name == exportwork.ExportDefinition:
		e.exports.Add(cluster, definition)
	}
}

// definition is the key to enqueue a member whose connection, or whose Work with the definition of exports, changed.
var definition = types.NamespacedName{Name: "*"}

// slicesOf is the key to enqueue the slices of an export, which the control plane refused, or does not refuse any more.
func slicesOf(export types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: export.Namespace, Name: definition.Name + export.Name}
}

// isRefused returns whether the control plane refuses the export of a record, which may be nil.
func isRefused(record *workv1alpha1.Work) bool {
	verdict, given := exportwork.ReadVerdict(record)
	return given && verdict.Refused != ""
}

// sync starts or stops the watch of exports in a member. It starts after the first attempt to apply the definition of exports there.
func (e *exporter) sync(ctx context.Context, cluster string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	conn, connected := e.fleet.Get(cluster)
	m := e.members[cluster]
	if m != nil && (!connected || m.conn != conn) {
		m.exports.Stop()
		for _, namespace := range m.namespaces {
			namespace.stop()
		}
		delete(e.members, cluster)
		m = nil
	}
	if m != nil || !connected {
		return nil
	}
	if delivered, err := e.delivered(ctx, cluster); err != nil || !delivered {
		return err
	}
	changed := func(export types.NamespacedName) {
		e.syncNamespaces(cluster)
		e.exports.Add(cluster, export)
	}
	e.members[cluster] = &exporting{
		conn: conn, namespaces: map[string]*exportingNamespace{}, refused: map[types.NamespacedName]refusedSlice{},
		exports: watchExports(e.watches, conn, newExports(changed, func() { e.exports.Add(cluster, everything) })),
	}
	return nil
}

// delivered returns whether the definition of exports was applied to a member, or could not be: the member may have one of its own.
func (e *exporter) delivered(ctx context.Context, cluster string) (bool, error) {
	work, err := hubclient.GetWork(ctx, e.client, endpointslices.WorkKey(cluster, exportwork.ExportDefinition))
	return work != nil && endpointslices.AppliedResult(work) != "", err
}

// maxNamespaces is in how many namespaces of a member exports are watched: each costs two watches.
const maxNamespaces = 250

// syncNamespaces watches exactly the namespaces of a member that have exports, except those that are reserved or too many.
func (e *exporter) syncNamespaces(cluster string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.members[cluster]
	if m == nil {
		return
	}
	wanted := map[string]bool{}
	for _, export := range m.exports.Keys(nil) {
		if !workv1alpha1.ReservedNamespace(export.Namespace) {
			wanted[export.Namespace] = true
		}
	}
	for name, namespace := range m.namespaces {
		if !wanted[name] {
			namespace.stop()
			delete(m.namespaces, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if m.namespaces[name] != nil || len(m.namespaces) >= maxNamespaces {
			continue
		}
		listed := func() { e.exports.Add(cluster, everything) }
		m.namespaces[name] = &exportingNamespace{
			services: watchServices(e.watches, m.conn, name, newServices(func(service types.NamespacedName) { e.exports.Add(cluster, service) }, listed)),
			slices: endpointslices.StartSlices(e.watches, m.conn, endpointslices.Scope{Namespace: name},
				endpointslices.NewSlices(exportwork.Exported, func(slice types.NamespacedName) { e.endpoints.Add(cluster, slice) }, listed)),
		}
	}
}

// everything is the key to enqueue all exports and slices of a member. It is enqueued when all objects of a kind are known: some may be
// gone since they were watched, and what was known before could not be reconciled.
var everything types.NamespacedName

func (e *exporter) enqueueAll(ctx context.Context, cluster string) error {
	works, err := exportwork.ListRecords(ctx, e.client, cluster)
	for _, w := range works {
		if exportwork.RoleOf(w) == multiclusterv1beta1.RoleExport {
			e.exports.Add(cluster, exportwork.ServiceOf(w))
		} else {
			e.endpoints.Add(cluster, endpointslices.SliceOf(w))
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.members[cluster]
	if m == nil {
		return err
	}
	for _, export := range m.exports.Keys(nil) {
		e.exports.Add(cluster, export)
	}
	for _, namespace := range m.namespaces {
		for _, slice := range namespace.slices.Keys(nil) {
			e.endpoints.Add(cluster, slice)
		}
	}
	for slice := range m.refused {
		e.endpoints.Add(cluster, slice)
	}
	return err
}

// enqueueSlices enqueues the slices of one export.
func (e *exporter) enqueueSlices(ctx context.Context, cluster string, export types.NamespacedName) error {
	if _, namespace := e.watched(cluster, export.Namespace); namespace != nil {
		for _, slice := range namespace.slices.Keys(endpointslices.Of(export)) {
			e.endpoints.Add(cluster, slice)
		}
	}
	works, err := exportwork.ListRecords(ctx, e.client, cluster)
	for _, w := range works {
		if exportwork.RoleOf(w) == multiclusterv1beta1.RoleEndpoints && exportwork.ServiceOf(w) == export {
			e.endpoints.Add(cluster, endpointslices.SliceOf(w))
		}
	}
	return err
}

// watched returns what is watched in a member and in one of its namespaces; nil if nothing is.
func (e *exporter) watched(cluster, namespace string) (*exporting, *exportingNamespace) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.members[cluster]
	if m == nil {
		return nil, nil
	}
	return m, m.namespaces[namespace]
}

// read returns an export and its Service, nil if there is none. Certain is false while not everything is known.
func (e *exporter) read(cluster string, key types.NamespacedName) (export *multiclusterv1beta1.ServiceExport, service *corev1.ServiceSpec, certain bool) {
	m, namespace := e.watched(cluster, key.Namespace)
	if m == nil {
		return nil, nil, false
	}
	export, exists, certain := m.exports.Get(key)
	if !exists || namespace == nil || !certain {
		return nil, nil, certain && !exists
	}
	spec, exists, certain := namespace.services.Get(key)
	if exists {
		return export, &spec, true
	}
	return export, nil, certain
}

// reconcile is the memberqueue.ReconcileFunc for exports: it makes the record of one what the export is, and writes the verdict that the
// record has into the conditions of the export.
func (e *exporter) reconcile(ctx context.Context, cluster string, key types.NamespacedName) (time.Duration, error) {
	switch key {
	case everything:
		return 0, e.enqueueAll(ctx, cluster)
	case definition:
		return 0, e.sync(ctx, cluster)
	}
	if name, ofSlices := strings.CutPrefix(key.Name, definition.Name); ofSlices {
		return 0, e.enqueueSlices(ctx, cluster, types.NamespacedName{Namespace: key.Namespace, Name: name})
	}
	record, err := hubclient.GetWork(ctx, e.client, exportwork.ExportKey(cluster, key))
	if err != nil {
		return 0, err
	}
	if export, refusal, err := e.refusal(ctx, cluster, key, record); err != nil || refusal != "" {
		if err != nil {
			return 0, err
		}
		if record != nil { // An earlier version made it.
			if err := errors.Join(hubclient.DeleteWorks(ctx, e.client, record), e.enqueueSlices(ctx, cluster, key)); err != nil {
				return 0, err
			}
		}
		// Others of the member may have gone when it is reconciled again.
		return refusedAgain, e.setConditions(ctx, cluster, export, refusedConditions(export, refusal, e.clock.Now()))
	}
	export, service, certain := e.read(cluster, key)
	if !certain {
		return 0, nil // The export is enqueued again when it is certain.
	}
	valid := metav1.Condition{}
	if export != nil {
		valid = validity(export, service)
	}
	existed := record != nil
	if valid.Status == metav1.ConditionTrue {
		desired, err := exportwork.ExportRecord(cluster, export, *service, record)
		if err != nil {
			return 0, err
		}
		err = e.note(cluster, "export "+key.String(), endpointslices.Write(ctx, e.client, record, desired))
		if bounds.IsTooMuch(err) {
			return refusedAgain, e.setConditions(ctx, cluster, export, refusedConditions(export, err.Error(), e.clock.Now(), valid))
		}
		if err != nil {
			return 0, err
		}
		record = desired
	} else if existed {
		if err := hubclient.DeleteWorks(ctx, e.client, record); err != nil {
			return 0, err
		}
		record = nil
	}
	if record == nil {
		_ = e.note(cluster, "export "+key.String(), nil)
	}
	if existed != (record != nil) {
		if err := e.enqueueSlices(ctx, cluster, key); err != nil {
			return 0, err
		}
	}
	if export == nil {
		return 0, nil
	}
	return 0, e.setConditions(ctx, cluster, export, exportConditions(export, valid, record, e.refusedOf(cluster, key), e.clock.Now()))
}

// refusedAgain is when an export is reconciled again of which nothing is recorded.
const refusedAgain = time.Minute

// refusal returns an export of which nothing is recorded, and why. The control plane refuses others; see the verdict.
func (e *exporter) refusal(ctx context.Context, cluster string, key types.NamespacedName, record *workv1alpha1.Work) (export *multiclusterv1beta1.ServiceExport, why string, err error) {
	m, namespace := e.watched(cluster, key.Namespace)
	if m == nil {
		return nil, "", nil
	}
	export, exists, _ := m.exports.Get(key)
	switch {
	case !exists:
		return nil, "", nil
	case workv1alpha1.ReservedService(key.Namespace, key.Name):
		return export, exportwork.ReservedMessage(key), nil
	case namespace == nil && e.full(m):
		return export, fmt.Sprintf("This cluster has exports in more than %d namespaces: delete some", maxNamespaces), nil
	case record != nil:
		return nil, "", nil
	}
	records, err := exportwork.ListExports(ctx, e.client, cluster)
	if err != nil || len(records) < clusterv1alpha1.MaxExportRecords {
		return nil, "", err
	}
	return export, fmt.Sprintf("This cluster has more than %d exports: delete some", clusterv1alpha1.MaxExportRecords), nil
}

// full returns whether as many namespaces of a member are watched as may be.
func (e *exporter) full(m *exporting) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(m.namespaces) >= maxNamespaces
}

// setConditions writes the conditions of an export, if they differ. If others wrote to the export meanwhile, nothing is written; the
// event of their write enqueues the export again.
func (e *exporter) setConditions(ctx context.Context, cluster string, export *multiclusterv1beta1.ServiceExport, conditions []metav1.Condition) error {
	m, _ := e.watched(cluster, "")
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

// reconcileEndpoints is the memberqueue.ReconcileFunc for slices: it makes the record of one what the slice is.
func (e *exporter) reconcileEndpoints(ctx context.Context, cluster string, key types.NamespacedName) (time.Duration, error) {
	existing, err := hubclient.GetWork(ctx, e.client, exportwork.EndpointsKey(cluster, key))
	if err != nil {
		return 0, err
	}
	slice, certain := e.readSlice(cluster, key)
	if slice.Raw != nil {
		record, err := hubclient.GetWork(ctx, e.client, exportwork.ExportKey(cluster, slice.Service))
		if err != nil {
			return 0, err
		}
		if isRefused(record) {
			slice = endpointslices.Slice{}
		}
	}
	if !certain {
		return 0, nil // The slice is enqueued again when it is.
	}
	again, why, err := e.recordSlice(ctx, cluster, key, slice, existing)
	e.noteSlice(cluster, key, refusedSlice{slice.Service, why})
	return again, err
}

// recordSlice makes the record of a slice what the slice is. It returns why nothing is recorded of a slice that there is.
func (e *exporter) recordSlice(ctx context.Context, cluster string, key types.NamespacedName, slice endpointslices.Slice, existing *workv1alpha1.Work) (again time.Duration, why string, err error) {
	switch {
	case slice.Raw == nil:
		err := e.note(cluster, key.String(), nil)
		if existing != nil {
			err = hubclient.DeleteWorks(ctx, e.client, existing)
		}
		return 0, slice.Refused, err
	case existing == nil:
		records, err := exportwork.ListRecordsOf(ctx, e.client, cluster, slice.Service)
		if err != nil {
			return 0, "", err
		}
		if len(records) > endpointslices.MaxSlices { // with that of the export
			return refusedAgain, fmt.Sprintf("of a Service %d slices are recorded", endpointslices.MaxSlices), nil
		}
	}
	desired := exportwork.EndpointsRecord(cluster, slice.Service, key, slice.Raw, existing)
	err = e.note(cluster, key.String(), endpointslices.Write(ctx, e.client, existing, desired))
	if bounds.IsTooMuch(err) {
		return refusedAgain, err.Error(), nil
	}
	return 0, "", err
}

// note has the condition of the Cluster say that the control plane refuses a record because there are too many of the member. It returns the error.
func (e *exporter) note(cluster, object string, err error) error {
	if m, _ := e.watched(cluster, ""); m != nil && m.conn != nil {
		m.conn.Accounts().NoteObject("records of exports", object, err)
	}
	return err
}

// noteSlice keeps why nothing is recorded of a slice, or that something is, and enqueues the export whose condition says so.
func (e *exporter) noteSlice(cluster string, slice types.NamespacedName, refused refusedSlice) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.members[cluster]
	if m == nil {
		return
	}
	before := m.refused[slice]
	if refused.why == "" {
		delete(m.refused, slice)
	} else {
		m.refused[slice] = refused
	}
	if before.why == refused.why && (before.export == refused.export || refused.why == "") {
		return
	}
	for _, changed := range []refusedSlice{before, refused} {
		if changed.why != "" {
			e.exports.Add(cluster, changed.export)
		}
	}
}

// refusedOf says which slices of an export are not recorded; "" if all are.
func (e *exporter) refusedOf(cluster string, export types.NamespacedName) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.members[cluster]
	if m == nil {
		return ""
	}
	var names []string
	for slice, refused := range m.refused {
		if refused.export == export {
			names = append(names, slice.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	first := slices.Min(names)
	return bounds.Message(fmt.Sprintf("%d of its EndpointSlices are not taken, such as %s: %s", len(names), first, m.refused[types.NamespacedName{Namespace: export.Namespace, Name: first}].why))
}

// readSlice returns a slice of an exported Service. Certain is false while not everything is known.
func (e *exporter) readSlice(cluster string, key types.NamespacedName) (slice endpointslices.Slice, certain bool) {
	m, namespace := e.watched(cluster, key.Namespace)
	if m == nil {
		return slice, false
	}
	if workv1alpha1.ReservedNamespace(key.Namespace) {
		return slice, true
	}
	if namespace == nil { // While it has an export, it is about to be watched.
		here := m.exports.Keys(func(export *multiclusterv1beta1.ServiceExport) bool { return export.Namespace == key.Namespace })
		return slice, m.exports.Synced() && len(here) == 0
	}
	slice, exists, certain := namespace.slices.Get(key)
	if !exists {
		return slice, certain
	}
	if workv1alpha1.ReservedService(slice.Service.Namespace, slice.Service.Name) {
		return endpointslices.Slice{}, true
	}
	export, service, certain := e.read(cluster, slice.Service)
	if export == nil || service == nil || service.Type == corev1.ServiceTypeExternalName {
		return endpointslices.Slice{}, certain
	}
	return slice, true
}
