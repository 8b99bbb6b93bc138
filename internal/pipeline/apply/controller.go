package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/finished"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberqueue"
	"github.com/flagship-k8s/flagship/internal/clients/member/objectcache"
	"github.com/flagship-k8s/flagship/internal/clients/workstatus"
	"github.com/flagship-k8s/flagship/internal/knowledge/brake"
	"github.com/flagship-k8s/flagship/internal/knowledge/drift"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/drifted"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/objects"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/objects/results"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/starttimes"
)

// Deps is what apply needs besides the manager's client and cache.
type Deps struct {
	// Fleet has the connections. Required.
	Fleet *member.Fleet
	// Report writes the status of Works. Required.
	Report *workstatus.Writer
	// Events takes failures. Required.
	Events events.Recorder
	// Clock defaults to the real one.
	Clock clock.WithTicker
	// Workers is the number of Works that are applied to one member at a time. Default 8.
	Workers int
	// Runs has the objects that ran to their end: they are not made again. Nil: none did.
	Runs *finished.Runs
	// Retain returns desired with those fields of observed that a user wants kept, and desired itself if there are
	// none. It is called only for objects that exist. Nil: server-side apply alone decides.
	// It and Retention are functions because only the customized part of the interpreter counts.
	Retain func(ctx context.Context, desired, observed *unstructured.Unstructured) (*unstructured.Unstructured, error)
	// Retention returns the fingerprint of the customizations that retain fields of a kind: objects are applied again when it
	// changes. Nil: always "".
	Retention func(schema.GroupVersionKind) string
	// Changes publishes kinds whose interpretation changed; their objects are applied again. Nil: none changes.
	Changes *interpret.Changes
	// KindPolicy decides what happens to objects of particular kinds. Nil: nothing is particular.
	KindPolicy objects.KindPolicy
	// Guard decides whether a member is written to. Nil: every member is.
	Guard objects.Guard
	// Brake returns how many objects may be removed or scaled down at once before a person has to release them. It is a function because it
	// may change meanwhile. Nil: the defaults of package brake.
	Brake func() brake.Config
	// Braking receives the brake, for callers that request from it what will wait. Nil: there are none.
	Braking func(*brake.Brake)
	// Keeps returns whether the Work that is being deleted is created again once it is gone: its objects stay then. If that is not known
	// yet, again is the pause before the next call. It is not called for clusters that are being removed. Nil: none is.
	// It is a function because propagate, render and namespaces decide it, which apply does not import.
	Keeps func(ctx context.Context, work *workv1alpha1.Work) (keeps bool, again time.Duration, err error)
	// Drifted receives fields that others changed, once for each episode. Nil: nothing does. It is a function because a feature shows
	// them.
	Drifted drifted.Publish
	// Drift takes the fields of objects that differ from their manifests. Nil: episodes that nothing else reads.
	Drift *drift.Episodes
	// Metrics registers the metrics. Nil: none.
	Metrics prometheus.Registerer
}

// Applier makes members match their Works.
type Applier struct {
	client client.Client
	cache  cache.Cache
	fleet  *member.Fleet
	report *workstatus.Writer
	runs   *finished.Runs
	events events.Recorder
	clock  clock.WithTicker
	brake  *brake.Brake
	guard  objects.Guard
	keeps  func(ctx context.Context, work *workv1alpha1.Work) (keeps bool, again time.Duration, err error)

	objects *objects.Writer
	changes *interpret.Changes
	// changedKinds are those whose Works are still to be queued.
	changedKinds interpret.PendingKinds
	metrics      *brakeMetrics
	arrival      prometheus.Histogram

	braking       brakeLoop
	queues        *memberqueue.Queues
	waits         starttimes.ByWork // Works that wait for watches
	troubles      starttimes.ByWork // Works that fail
	repairBackoff repairBackoff
	releasedWorks sync.Map     // UIDs of Works whose finalizer was removed, until the cache shows that they are gone
	deletedWorks  deletedWorks // Works whose objects were removed
	conns         sync.Map     // the last *member.Conn by cluster
}

// Setup adds apply to a manager.
func Setup(mgr ctrl.Manager, deps Deps) error {
	a, err := newApplier(mgr.GetClient(), mgr.GetCache(), deps)
	if err != nil {
		return err
	}
	if err := mgr.Add(a); err != nil {
		return fmt.Errorf("adding apply: %w", err)
	}
	return a.braking.setup(mgr)
}

func newApplier(hub client.Client, works cache.Cache, deps Deps) (*Applier, error) {
	if deps.Fleet == nil || deps.Report == nil || deps.Events == nil {
		return nil, errors.New("apply needs Fleet, Report and Events")
	}
	if deps.Clock == nil {
		deps.Clock = clock.RealClock{}
	}
	if deps.Workers == 0 {
		deps.Workers = 8
	}
	if deps.Guard == nil {
		deps.Guard = objects.NoGuard{}
	}
	if deps.Keeps == nil {
		deps.Keeps = func(context.Context, *workv1alpha1.Work) (bool, time.Duration, error) { return false, 0, nil }
	}
	if deps.KindPolicy == nil {
		deps.KindPolicy = objects.NoKindPolicy{}
	}
	if deps.Drift == nil {
		deps.Drift = drift.New(deps.Clock)
	}
	a := &Applier{
		client: hub, cache: works, fleet: deps.Fleet, report: deps.Report, runs: deps.Runs, events: deps.Events, clock: deps.Clock,
		changes: deps.Changes, metrics: newBrakeMetrics(deps.Metrics), arrival: newArrival(deps.Metrics), guard: deps.Guard, keeps: deps.Keeps,
	}
	a.braking.Applier = a
	if deps.Brake == nil {
		deps.Brake = func() brake.Config { return brake.Config{} }
	}
	a.brake = brake.New(deps.Brake, deps.Clock, a.braking.changed)
	if deps.Braking != nil {
		deps.Braking(a.brake)
	}
	a.objects = objects.NewWriter(objects.WriterDeps{
		Hub: hub, Events: deps.Events, Clock: deps.Clock, KindPolicy: deps.KindPolicy, Guard: deps.Guard, Brake: a.brake,
		Retain: deps.Retain, Retention: deps.Retention, Drift: drifted.Reporter{Episodes: deps.Drift, Publish: deps.Drifted},
	}, deps.Metrics)
	a.queues = memberqueue.New("apply", deps.Fleet, deps.Clock, deps.Workers, a.reconcile)
	deps.Guard.OnResume(func(cluster string) { a.queues.Add(cluster, everyWork(cluster)) })
	deps.Fleet.OnChange(a.memberChanged)
	deps.Fleet.Subscribe(a.connectionChanged)
	deps.Report.OnForeignChange(a.statusChanged)
	return a, nil
}

// connectionChanged drops the results of a connection that is gone, and enqueues all Works of a cluster for a
// new one: their objects were not watched before.
func (a *Applier) connectionChanged(cluster string) {
	conn, connected := a.fleet.Get(cluster)
	if !connected {
		a.conns.Delete(cluster)
		a.objects.Results.ForgetCluster(cluster)
	} else if before, _ := a.conns.Swap(cluster, conn); before != conn {
		a.queues.Add(cluster, everyWork(cluster))
	}
}

// everyWork is the key of all Works of a cluster in its queue.
func everyWork(cluster string) types.NamespacedName {
	return types.NamespacedName{Namespace: workv1alpha1.ExecutionNamespace(cluster)}
}

// enqueueAll queues every Work of a cluster.
func (a *Applier) enqueueAll(ctx context.Context, cluster string) error {
	works, err := hubclient.ListWorks(ctx, a.client, client.InNamespace(workv1alpha1.ExecutionNamespace(cluster)))
	for _, work := range works {
		a.enqueue(work, false)
	}
	return err
}

// Start implements manager.Runnable: it follows the Works until ctx ends.
func (a *Applier) Start(ctx context.Context) error {
	synced, stop, err := hubclient.Follow(ctx, a.cache, func(before, after *workv1alpha1.Work, initial bool) {
		a.countWork(before, after)
		a.fleet.Ordered(before, after)
		if before == nil || after == nil || hasChanged(before, after) {
			a.enqueue(cmp.Or(after, before), !initial)
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	if !toolscache.WaitForCacheSync(ctx.Done(), synced) { // the brake counts all Works
		return nil // the manager is ending
	}
	if a.changes != nil {
		a.changes.Subscribe(func(kinds interpret.Kinds) {
			a.changedKinds.Add(kinds)
			a.queues.Add(noCluster, types.NamespacedName{})
		})
	}
	return a.queues.Start(ctx)
}

// noCluster is the queue of what concerns all clusters.
const noCluster = ""

// enqueueChangedKinds queues the Works with objects of kinds whose interpretation changed.
func (a *Applier) enqueueChangedKinds(ctx context.Context) error {
	return a.changedKinds.Handle(func(kinds interpret.Kinds) error {
		works, err := hubclient.ListWorks(ctx, a.client)
		for _, work := range works {
			if work.Carries(kinds) {
				a.enqueue(work, false)
			}
		}
		return err
	})
}

// hasChanged returns whether a change of a Work is more than one of its status.
func hasChanged(before, after *workv1alpha1.Work) bool {
	return workv1alpha1.IsWithdrawn(before) != workv1alpha1.IsWithdrawn(after) ||
		before.Annotations[policyv1alpha1.DriftAnnotation] != after.Annotations[policyv1alpha1.DriftAnnotation] ||
		before.Annotations[policyv1alpha1.DriftIgnoreAnnotation] != after.Annotations[policyv1alpha1.DriftIgnoreAnnotation] ||
		before.Annotations[policyv1alpha1.DriftAcknowledgedAnnotation] != after.Annotations[policyv1alpha1.DriftAcknowledgedAnnotation] ||
		before.Generation != after.Generation || before.UID != after.UID || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil)
}

// enqueue queues a Work. One that was changed just now takes turns with all others of its member.
func (a *Applier) enqueue(work *workv1alpha1.Work, changed bool) {
	if workv1alpha1.IsRecord(work) {
		return // kept for the control plane itself, and written with every change in the member: nothing to apply or to report
	}
	cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace)
	switch key := client.ObjectKeyFromObject(work); {
	case ok && changed:
		a.queues.AddFirst(cluster, workv1alpha2.TenantOf(work), key)
	case ok:
		a.queues.AddFor(cluster, workv1alpha2.TenantOf(work), key)
	}
}

// statusChanged reconciles a Work whose status others changed, so that the conditions of apply are reported again.
func (a *Applier) statusChanged(work types.NamespacedName) {
	cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace)
	if _, connected := a.fleet.Get(cluster); connected {
		a.queues.Add(cluster, work)
	}
}

// memberChanged repairs what was done to our objects in a member: deleted, a field of ours changed, or brought back. It
// also reconciles Works of which an object appears that this process is not creating: what was applied before the control
// plane was killed, or by a request that timed out, may be no part of the Work any more.
func (a *Applier) memberChanged(change objectcache.Change) {
	if change.Synced {
		return
	}
	at := results.Place{Cluster: change.Cluster, Resource: change.Resource, Object: change.Object}
	reappeared := change.New && a.deletedWorks.reappears(change.Work)
	unexpected := change.New && (change.Listed || !a.objects.Results.Made(at))
	switch {
	case change.Gone:
		a.objects.Results.Lose(at)
	case change.Rewound, change.Listed: // the cached result does not hold in this member
		a.objects.Results.Forget(at)
	}
	done := reappeared || change.Gone || change.Disowned || change.Rewound || change.Previously != (types.NamespacedName{}) || a.awaited(change)
	if !done && !unexpected {
		return
	}
	for _, work := range []types.NamespacedName{change.Work, change.Previously} {
		cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace)
		switch {
		case !ok || cluster != change.Cluster:
		case done:
			own := change.Disowned && a.objects.Results.Pending(at) // a write that the watch shows before its answer is here
			a.queues.AddAfter(cluster, work, a.repairBackoff.pause(work, a.clock.Now(), own))
		default:
			a.queues.AddFor(cluster, change.Object.Namespace, work) // once for each object: no backoff is needed
		}
	}
}

// awaited returns whether a change of an object may let its failed Work succeed: why a definition cannot be changed often depends on its own
// status.
func (a *Applier) awaited(change objectcache.Change) bool {
	return change.Resource.Group == "apiextensions.k8s.io" && a.troubles.Runs(change.Work)
}
