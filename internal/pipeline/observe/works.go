package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/finished"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberqueue"
	"github.com/flagship-k8s/flagship/internal/clients/member/objectcache"
	"github.com/flagship-k8s/flagship/internal/clients/workstatus"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
)

// StatusReader is what observe needs of an interpreter.
type StatusReader interface {
	// Reflect picks the part of an object's status that is reported to the control plane; nil if there is none.
	Reflect(ctx context.Context, obj *unstructured.Unstructured) (*runtime.RawExtension, error)
	// Health judges an object; with an error the answer is Unknown.
	Health(ctx context.Context, obj *unstructured.Unstructured) (workv1alpha2.ResourceHealth, error)
	// Finished returns whether an object ran to its end.
	Finished(ctx context.Context, obj *unstructured.Unstructured) (bool, error)
}

// WorkDeps is what the observation of Works needs besides the manager's client and cache.
type WorkDeps struct {
	// Fleet has the connections. Required.
	Fleet *member.Fleet
	// Report writes the status of Works. Required.
	Report *workstatus.Writer
	// Interpreter interprets objects. Required.
	Interpreter StatusReader
	// Runs has the objects that ran to their end. Nil: one that receives no change.
	Runs *finished.Runs
	// Conversion makes of what a member has an object in the version of its template. Nil: nothing is converted.
	Conversion conversion.Adviser
	// Changes returns when kinds mean something else; their objects are judged again then. Nil: they never do.
	Changes *interpret.Changes
	// Events takes failures of the interpreter. Required.
	Events events.Recorder
	// Clock defaults to the real one.
	Clock clock.WithTicker
	// Workers is the number of Works of one member that are reconciled at a time. Default 4.
	Workers int
	// DegradedAfter returns how long an object may be unhealthy before its Work is degraded. It is a function because that may change
	// meanwhile. Nil: 60 s.
	DegradedAfter func() time.Duration
}

// Works reflects the objects of members into their Works.
type Works struct {
	client        client.Client
	cache         cache.Cache
	fleet         *member.Fleet
	report        *workstatus.Writer
	interpreter   StatusReader
	runs          *finished.Runs
	conversion    conversion.Adviser
	changes       *interpret.Changes
	events        events.Recorder
	clock         clock.WithTicker
	degradedAfter func() time.Duration

	queues   *memberqueue.Queues
	revisits *revisits
	// changedKinds are those whose Works are still to be queued.
	changedKinds interpret.PendingKinds

	mu             sync.Mutex
	unhealthySince map[types.NamespacedName]map[string]time.Time // by Work and object: unhealthy since
	reported       map[types.NamespacedName]bool                 // Works that apply has reported on since
}

// SetupWorks adds the observation of Works to a manager.
func SetupWorks(mgr ctrl.Manager, deps WorkDeps) error {
	w, err := newWorks(mgr.GetClient(), mgr.GetCache(), deps)
	if err != nil {
		return err
	}
	if err := mgr.Add(w); err != nil {
		return fmt.Errorf("adding the observation of Works: %w", err)
	}
	return nil
}

func newWorks(hub client.Client, works cache.Cache, deps WorkDeps) (*Works, error) {
	if deps.Fleet == nil || deps.Report == nil || deps.Interpreter == nil || deps.Events == nil {
		return nil, errors.New("the observation of Works needs Fleet, Report, Interpreter and Events")
	}
	if deps.Clock == nil {
		deps.Clock = clock.RealClock{}
	}
	if deps.Workers == 0 {
		deps.Workers = 4
	}
	if deps.DegradedAfter == nil {
		deps.DegradedAfter = func() time.Duration { return time.Minute }
	}
	if deps.Runs == nil {
		deps.Runs = finished.New(deps.Interpreter)
	}
	w := &Works{
		client: hub, cache: works, fleet: deps.Fleet, report: deps.Report, interpreter: deps.Interpreter, runs: deps.Runs,
		conversion: conversion.OrUnchanged(deps.Conversion), changes: deps.Changes, events: deps.Events,
		clock: deps.Clock, degradedAfter: deps.DegradedAfter, unhealthySince: map[types.NamespacedName]map[string]time.Time{},
		reported: map[types.NamespacedName]bool{},
	}
	w.queues = memberqueue.New("observe", deps.Fleet, deps.Clock, deps.Workers, w.reconcile)
	w.revisits = newRevisits(deps.Fleet.Loop("observe"), w.revisit)
	deps.Fleet.OnChange(func(change objectcache.Change) {
		w.enqueue(change.Cluster, change.Object.Namespace, change.Work)
		w.enqueue(change.Cluster, change.Object.Namespace, change.Previously)
	})
	deps.Report.OnForeignChange(w.statusChanged)
	deps.Report.OnUpdate(func(work types.NamespacedName, by workstatus.Source) {
		if cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace); ok && by == workstatus.Apply {
			w.applyReported(work)
			w.queues.Add(cluster, work)
		}
	})
	return w, nil
}

// enqueue queues the Work that an object in a cluster names, if it is a Work of that cluster.
func (w *Works) enqueue(cluster, tenant string, work types.NamespacedName) {
	if owner, ok := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace); ok && owner == cluster {
		w.queues.AddFor(cluster, tenant, work)
	}
}

// reconcile reports the objects of one Work in its member.
func (w *Works) reconcile(ctx context.Context, name string, key types.NamespacedName) (time.Duration, error) {
	if name == noCluster {
		return 0, w.enqueueChangedKinds(ctx)
	}
	if key == everyWork(name) {
		return 0, w.revisitAll(ctx, name)
	}
	work := &workv1alpha1.Work{}
	if err := w.client.Get(ctx, key, work); apierrors.IsNotFound(err) {
		w.forget(name, key)
		return 0, nil
	} else if err != nil {
		return 0, fmt.Errorf("reading the Work: %w", err)
	}
	controlloop.About(ctx, workv1alpha2.BoundTo(work))
	if work.DeletionTimestamp != nil {
		return 0, nil // its objects are removed, and apply reports that
	}
	cluster := &clusterv1alpha1.Cluster{}
	if err := w.client.Get(ctx, types.NamespacedName{Name: name}, cluster, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		return 0, &member.UnavailableError{Cluster: name, Cause: errors.New("there is no such Cluster")}
	} else if err != nil {
		return 0, fmt.Errorf("reading the Cluster: %w", err)
	}
	if isLost(cluster) && !isUnreachable(work) || w.restores(cluster, work) {
		w.revisits.add(name, key)
	}
	if !w.fleet.Serves(cluster) || isLost(cluster) {
		return 0, nil // observed by another process, or cannot be reached
	}
	conn, ok := w.fleet.Get(name)
	if !ok { // as after a start; there may be no further event of the Work
		return 0, &member.UnavailableError{Cluster: name, Cause: errors.New("there is no connection yet")}
	}
	if !w.hasReported(work) {
		return 0, nil // apply reports soon, and that reconciles the Work again: both reports are one write
	}
	if h := conn.Health(); h.Down { // but not lost yet
		w.report.Update(work, workstatus.Observe, waiting(work.Generation))
		return 0, &member.UnavailableError{Cluster: name, Since: h.Since, Cause: h.Cause}
	}
	objects, complete, err := w.find(ctx, conn, work)
	if err != nil || !complete {
		return 0, err // an incomplete watch queues the Work again
	}
	unmanaged := w.readUnmanaged(ctx, conn, work, objects)
	found := findings{generation: work.Generation, suspended: work.Spec.SuspendDispatching != nil && *work.Spec.SuspendDispatching}
	var failures []error
	for _, s := range objects {
		f, err := w.interpretOrPanic(ctx, work, s)
		found.objects, failures = append(found.objects, f), append(failures, err)
	}
	again := cmp.Or(w.diagnose(work, found.objects), unmanaged)
	if slices.ContainsFunc(found.objects, unanswered) {
		again = min(cmp.Or(again, interpretAgain), interpretAgain)
	}
	err = w.client.Get(ctx, types.NamespacedName{Name: name}, cluster, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("reading Cluster %s: %w", name, err)
	}
	if err != nil || isLost(cluster) {
		return 0, nil // the member was lost while the objects were interpreted, and that has been reported
	}
	w.report.Update(work, workstatus.Observe, about(work, found.report))
	return again, errors.Join(failures...)
}

// about limits a mutation to one Work: a Work that was created again under the same name is another one.
func about(work *workv1alpha1.Work, mutate workstatus.Mutation) workstatus.Mutation {
	uid := work.UID
	return func(work *workv1alpha1.Work, status *workv1alpha1.WorkStatus) {
		if work.UID == uid {
			mutate(work, status)
		}
	}
}

// applyReported records that apply reported on a Work.
func (w *Works) applyReported(work types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reported[work] = true
}

// hasReported returns whether apply has reported on the Work as it is now. Until then there is nothing to report that
// would not change within moments.
func (w *Works) hasReported(work *workv1alpha1.Work) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := client.ObjectKeyFromObject(work)
	for _, kind := range []string{workv1alpha1.WorkApplied, workv1alpha1.WorkDispatching} {
		if c := meta.FindStatusCondition(work.Status.Conditions, kind); c != nil && c.ObservedGeneration >= work.Generation {
			delete(w.reported, key)
			return true
		}
	}
	return w.reported[key]
}

// find returns the objects of a Work in the member's cache. It is not complete before the watches are.
func (w *Works) find(ctx context.Context, conn *member.Conn, work *workv1alpha1.Work) (objects []observed, complete bool, err error) {
	key := client.ObjectKeyFromObject(work)
	resources := sets.New[schema.GroupVersionResource]()
	for i, manifest := range work.Spec.Workload.Manifests {
		s := observed{id: workv1alpha1.ResourceIdentifier{Ordinal: i}}
		if id, unreadable := identify(i, manifest.Raw); unreadable == nil { // apply reports it if it is not
			if s, err = place(ctx, conn, id); err != nil {
				return nil, false, err
			}
			s.manifest = manifest.Raw
		}
		resources.Insert(s.resource)
		objects = append(objects, s)
	}
	for _, before := range work.Status.ManifestStatuses { // also of kinds that the Work had before
		s, err := place(ctx, conn, before.Identifier)
		if err != nil {
			return nil, false, err
		}
		resources.Insert(s.resource)
	}
	resources.Delete(schema.GroupVersionResource{})
	conn.Hold("observe/"+key.String(), resources.UnsortedList()...)
	for resource := range resources {
		if !conn.HasSynced(resource) {
			conn.WhenSynced(resource, func() { w.enqueue(conn.Name(), workv1alpha2.TenantOf(work), key) })
			return nil, false, nil
		}
	}
	owned, complete := conn.Owned(key)
	if !complete {
		// The change that completes it queues the Work again; if the object cannot be read, it is tried again.
		w.queues.AddAfter(conn.Name(), key, unmanagedPause)
		conn.Appeared(key)
		return nil, false, nil
	}
	return withExtras(conn.ControlPlane(), objects, owned), true, nil
}

// withExtras sets the object of each manifest, and appends the objects of the Work that have no manifest. Those were applied for an earlier
// manifest: they stay in the status until apply has removed them.
func withExtras(self ownership.ControlPlane, objects []observed, owned []*unstructured.Unstructured) []observed {
	for _, obj := range owned {
		kind := obj.GroupVersionKind()
		matched := false
		for i := range objects {
			id := &objects[i].id
			if id.Group == kind.Group && id.Kind == kind.Kind && id.Namespace == obj.GetNamespace() && id.Name == obj.GetName() {
				objects[i].object, matched = obj, true
			}
		}
		if !matched && self.OurFields(obj) != nil { // not one that others made from a copy of ours
			objects = append(objects, observed{extra: true, object: obj, id: workv1alpha1.ResourceIdentifier{
				Ordinal: len(objects), Group: kind.Group, Version: kind.Version, Kind: kind.Kind,
				Namespace: obj.GetNamespace(), Name: obj.GetName(),
			}})
		}
	}
	return objects
}

// interpretOrPanic returns the status and health of an object. A panic about it is an error, so that the other objects of the Work are reported.
func (w *Works) interpretOrPanic(ctx context.Context, work *workv1alpha1.Work, s observed) (f finding, err error) {
	err = controlloop.CatchPanic(func() error {
		f = w.interpret(ctx, work, s)
		return nil
	})
	if err != nil {
		f = finding{observed: s, health: workv1alpha1.ResourceUnknown, unanswered: true, status: statusBefore(work, s.id), finished: finishedBefore(work, s)}
		w.publishFailure(work, events.InterpretHealthFailed, s, err)
	}
	return f, err
}

// interpret returns the status and health of an object.
func (w *Works) interpret(ctx context.Context, work *workv1alpha1.Work, s observed) finding {
	f := finding{observed: s, health: workv1alpha1.ResourceUnknown}
	if s.object == nil {
		w.recall(work, &f)
		return f
	}
	obj, err := w.conversion.From(ctx, s.object)
	if err != nil {
		f.unanswered = true
		f.status, f.finished = statusBefore(work, s.id), cmp.Or(w.ended(ctx, work, s, s.object), finishedBefore(work, s))
		w.publishFailure(work, events.ReflectStatusFailed, s, err)
		return f
	}
	f.finished = w.ended(ctx, work, s, obj)
	f.status, f.unapplied, err = w.reflect(ctx, s, obj)
	if err != nil {
		f.status, f.unapplied = statusBefore(work, s.id), nil
		w.publishFailure(work, events.ReflectStatusFailed, s, err)
	} else {
		w.events.Publish(events.Success(events.Work(work), events.ReflectStatusSucceed, s.id.StatusReadMessage()))
	}
	health, err := w.interpreter.Health(ctx, obj)
	if err != nil {
		w.publishFailure(work, events.InterpretHealthFailed, s, err)
		f.unanswered = true
		return f
	}
	f.health = workv1alpha1.ResourceHealth(health)
	w.events.Publish(events.Success(events.Work(work), events.InterpretHealthSucceed, s.id.HealthMessage(f.health)))
	return f
}

// ended is the run that an object ended, read from the object in a version that is interpreted.
func (w *Works) ended(ctx context.Context, work *workv1alpha1.Work, s observed, obj *unstructured.Unstructured) string {
	run, err := w.runs.Of(ctx, obj)
	if err != nil {
		w.publishFailure(work, events.InterpretHealthFailed, s, err)
		return finishedBefore(work, s)
	}
	return run
}

// recall makes a finding what is known of an object that ran to its end and is gone.
func (w *Works) recall(work *workv1alpha1.Work, f *finding) {
	manifest := &unstructured.Unstructured{}
	if f.manifest == nil || manifest.UnmarshalJSON(f.manifest) != nil {
		return
	}
	if last := w.runs.Status(work, manifest); last != nil {
		f.status, f.health, f.finished, f.removed = last.Status, last.Health, last.Finished, true
	}
}

// reflect returns the status of an object, and the one to report as long as its Work is not applied if that is another one.
func (w *Works) reflect(ctx context.Context, s observed, obj *unstructured.Unstructured) (status, unapplied *runtime.RawExtension, err error) {
	if current, unknown := s.ofTemplate(obj); current != nil {
		if unapplied, err = w.interpreter.Reflect(ctx, unknown); err != nil {
			return nil, nil, err
		}
		obj = current
	}
	status, err = w.interpreter.Reflect(ctx, obj)
	return status, unapplied, err
}

// interpretAgain is when to interpret an object again whose health could not be judged: a webhook may be back.
const interpretAgain = 30 * time.Second

func unanswered(f finding) bool { return f.unanswered }

func (w *Works) publishFailure(work *workv1alpha1.Work, reason string, s observed, err error) {
	w.events.Publish(events.Warning(events.Work(work), reason, fmt.Sprintf("%s: %v", s.name(), err)))
}

// manifestStatus is what the Work reports of an object; nil if it reports nothing.
func manifestStatus(work *workv1alpha1.Work, id workv1alpha1.ResourceIdentifier) *workv1alpha1.ManifestStatus {
	for i := range work.Status.ManifestStatuses {
		s := &work.Status.ManifestStatuses[i]
		if kindOf(s.Identifier) == kindOf(id) && s.Identifier.Namespace == id.Namespace && s.Identifier.Name == id.Name {
			return s
		}
	}
	return nil
}

// statusBefore is the status reported last of an object.
func statusBefore(work *workv1alpha1.Work, id workv1alpha1.ResourceIdentifier) *runtime.RawExtension {
	if before := manifestStatus(work, id); before != nil {
		return before.Status
	}
	return nil
}

// finishedBefore is the run that the Work reports as ended by an object, if the object is still of that run.
func finishedBefore(work *workv1alpha1.Work, s observed) string {
	before := manifestStatus(work, s.id)
	if before == nil || s.object == nil || before.Finished != workv1alpha1.RunOfCopy(kindOf(s.id).GroupKind(), s.object.GetAnnotations()) {
		return ""
	}
	return before.Finished
}

// diagnose marks what has been unhealthy for too long, and returns when the next object will have been.
func (w *Works) diagnose(work *workv1alpha1.Work, objects []finding) (again time.Duration) {
	key := client.ObjectKeyFromObject(work)
	w.mu.Lock()
	defer w.mu.Unlock()
	since, now := w.unhealthySince[key], w.clock.Now()
	current := map[string]time.Time{}
	for i := range objects {
		o := &objects[i]
		if o.health != workv1alpha1.ResourceUnhealthy || o.extra || o.removed {
			continue
		}
		start, known := since[o.name()]
		if !known {
			start = now
			if wasUnhealthyForLong(work, o) {
				start = now.Add(-w.degradedAfter())
			}
		}
		current[o.name()] = start
		if left := w.degradedAfter() - now.Sub(start); left <= 0 {
			o.unhealthyForLong = true
		} else if again == 0 || left < again {
			again = left
		}
	}
	if len(current) == 0 {
		delete(w.unhealthySince, key)
	} else if !maps.Equal(since, current) {
		w.unhealthySince[key] = current
	}
	return again
}

// wasUnhealthyForLong returns whether an object was unhealthy for long when this process began to watch it: its Work is Degraded and reports
// the object as unhealthy. An object of that Work that was unhealthy for a shorter time counts, too.
func wasUnhealthyForLong(work *workv1alpha1.Work, o *finding) bool {
	degraded := meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkDegraded)
	if degraded == nil || degraded.Status != metav1.ConditionTrue {
		return false
	}
	before := manifestStatus(work, o.id)
	return before != nil && before.Health == workv1alpha1.ResourceUnhealthy
}

// forget drops what is kept of a Work that is gone, and ends its watches.
func (w *Works) forget(cluster string, key types.NamespacedName) {
	w.mu.Lock()
	delete(w.unhealthySince, key)
	delete(w.reported, key)
	w.mu.Unlock()
	w.runs.Forget(key)
	if conn, ok := w.fleet.Get(cluster); ok {
		conn.Release("observe/" + key.String())
	}
}
