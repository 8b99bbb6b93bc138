package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/objects"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/objects/results"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/ssa"
)

// leaveGrace is how long the objects in a namespace may take to go before the Work of the namespace reports that it waits.
const leaveGrace = 10 * time.Second

// patienceWithWatch is how long the first reconcile of a Work after a start waits for the member's watches. After that each object is
// read from the member.
const patienceWithWatch = 10 * time.Second

// patienceUnchanged is the same for a Work that is applied as it is. It is longer since there is nothing to apply as a rule, and a control
// plane that starts with many members needs the time for their watches.
const patienceUnchanged = time.Minute

// reconcile makes a member match one Work.
func (a *Applier) reconcile(ctx context.Context, cluster string, key types.NamespacedName) (time.Duration, error) {
	if cluster == noCluster {
		return 0, a.enqueueChangedKinds(ctx)
	}
	if key == everyWork(cluster) {
		return 0, a.enqueueAll(ctx, cluster)
	}
	work := &workv1alpha1.Work{}
	if err := a.client.Get(ctx, key, work); apierrors.IsNotFound(err) {
		a.forget(cluster, key)
		err := a.deleteReappeared(ctx, cluster, key)
		if objects.IsUnconfirmed(err) {
			return objects.ConfirmPause, nil
		}
		return 0, err
	} else if err != nil {
		return 0, fmt.Errorf("reading the Work: %w", err)
	}
	controlloop.About(ctx, workv1alpha2.BoundTo(work))
	destination, err := a.destination(ctx, cluster)
	if err != nil {
		return 0, err
	}
	if destination.hold, err = a.held(ctx, destination); err != nil {
		return 0, err
	} else if destination.hold == member.HoldEverything {
		a.setDispatchingHeld(work)
		return 0, nil // the end of the hold enqueues the Work
	}
	if work.DeletionTimestamp != nil {
		return a.finalize(ctx, destination, work)
	}
	if destination.elsewhere || destination.leaving {
		a.brake.Clear(cluster, key)
		return 0, nil // another process applies to it, or its objects are being removed
	}
	// The finalizer keeps the Work until its objects are removed. A Work of a binding has it from the start.
	if err := hubclient.AddFinalizer(ctx, a.client, work, workv1alpha1.ExecutionFinalizer); err != nil {
		return 0, err
	}
	if suspended(work) {
		a.brake.Clear(cluster, key)
		a.setSuspended(work)
		return 0, nil
	}
	if destination.conn == nil || destination.conn.Health().Down {
		err := destination.unavailable()
		if !appliedAt(work, work.Generation) {
			a.setNotApplied(work, workv1alpha1.NotApplied(work.Generation, fmt.Sprintf("Waiting for the cluster: %v", err)))
		}
		return 0, err
	}
	via := destination.access(work)
	if a.runs != nil {
		via.Ended = func(manifest *unstructured.Unstructured) bool { return a.runs.Status(work, manifest) != nil }
	}
	return a.apply(ctx, via, work)
}

// destination is what is known of a Work's cluster.
type destination struct {
	name      string
	gone      bool // there is no such Cluster
	leaving   bool // it is being removed
	keepsAll  bool // it is being removed, and the objects in it stay
	ready     bool // by its own condition
	elsewhere bool // another process applies to it
	conn      *member.Conn
	// hold is what must wait for a person.
	hold member.Hold
	// keepBefore is BrakeKeepBefore of the Cluster.
	keepBefore time.Time
	cluster    *clusterv1alpha1.Cluster // nil if it is gone
}

// access is how the objects of a Work are written there.
func (d destination) access(work *workv1alpha1.Work) objects.Access {
	return objects.Access{
		Conn: d.conn, Hold: d.hold, Account: objects.AccountFor(d.cluster, work), Applied: appliedAt(work, work.Generation),
		Drift: work.Annotations[policyv1alpha1.DriftAnnotation], Acknowledged: work.Annotations[policyv1alpha1.DriftAcknowledgedAnnotation],
		Ignored: policyv1alpha1.IgnoredFields(work.Annotations),
	}
}

func (d destination) unavailable() error {
	if d.gone {
		return &member.UnavailableError{Cluster: d.name, Cause: errors.New("there is no such Cluster")}
	}
	if d.conn == nil {
		return &member.UnavailableError{Cluster: d.name, Cause: errors.New("there is no connection yet")}
	}
	h := d.conn.Health()
	return &member.UnavailableError{Cluster: d.name, Since: h.Since, Cause: h.Cause}
}

func (a *Applier) destination(ctx context.Context, name string) (destination, error) {
	d := destination{name: name}
	cluster := &clusterv1alpha1.Cluster{}
	if err := a.client.Get(ctx, types.NamespacedName{Name: name}, cluster, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		d.gone = true
		return d, nil
	} else if err != nil {
		return d, fmt.Errorf("reading the Cluster: %w", err)
	}
	d.cluster = cluster
	d.leaving = cluster.DeletionTimestamp != nil
	d.elsewhere = !a.fleet.Serves(cluster)
	a.brake.Heed(cluster, !d.elsewhere)
	d.keepBefore = clusterv1alpha1.BrakeKeepBefore(cluster)
	d.keepsAll = d.leaving && !clusterv1alpha1.DeletesObjects(cluster)
	d.ready = meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
	d.conn, _ = a.fleet.Get(name)
	return d, nil
}

// held returns what may not be done in a member until a person allows it. Who removes the Cluster allows everything.
func (a *Applier) held(ctx context.Context, d destination) (member.Hold, error) {
	if d.conn == nil || d.conn.Health().Down || d.elsewhere || d.leaving {
		return member.Hold{}, nil
	}
	return a.guard.Held(ctx, d.conn)
}

// apply writes the manifests of a Work and removes what it does not have any more.
func (a *Applier) apply(ctx context.Context, via objects.Access, work *workv1alpha1.Work) (time.Duration, error) {
	key, conn := client.ObjectKeyFromObject(work), via.Conn
	a.deletedWorks.forget(key)
	bytes := 0
	for i := range work.Spec.Workload.Manifests {
		bytes += len(work.Spec.Workload.Manifests[i].Raw)
	}
	controlloop.Large(ctx, workv1alpha2.TenantOf(work), bytes)
	manifests := ssa.ManifestsOf(work)
	if reason := a.holds(ctx, conn.Name(), manifests); reason != "" {
		if a.troubles.Since(key, a.clock.Now()) >= grace {
			a.setNotApplied(work, workv1alpha1.NotApplied(work.Generation, reason))
		}
		return time.Second, nil
	}
	if incomplete := a.incomplete(ctx, conn, key, manifests); len(incomplete) > 0 && appliedBefore(work) {
		patience := patienceWithWatch
		if appliedAt(work, work.Generation) {
			patience = patienceUnchanged
		}
		if a.awaits(conn, work, incomplete, patience) {
			return patience, nil // so that no request is needed for what has not changed
		}
		via.ReadFirst = true
	}
	var results []outcome
	for _, m := range manifests {
		results = append(results, a.manifest(ctx, via, key, m))
		if objects.Unavailable(results[len(results)-1].err) {
			break
		}
	}
	results = append(results, a.removeSurplus(ctx, via, work, manifests, results)...)
	slices.SortStableFunc(results, func(x, y outcome) int { return x.ordinal - y.ordinal })
	return a.setOutcome(work, len(manifests), results)
}

// removeSurplus removes the objects that a Work does not list any more, after all its manifests were applied: one of them may replace such an
// object.
func (a *Applier) removeSurplus(ctx context.Context, via objects.Access, work *workv1alpha1.Work, manifests []ssa.Manifest, applied []outcome) []outcome {
	if len(applied) < len(manifests) || slices.ContainsFunc(applied, func(o outcome) bool { return o.err != nil }) {
		return nil
	}
	terms := objects.TermsOf(work)
	terms.Preserve = false // it concerns the deletion of the Work
	var failed []outcome
	for _, id := range surplus(via.Conn, work, manifests) {
		err := a.objects.Remove(ctx, via, client.ObjectKeyFromObject(work), id, terms)
		if objects.IsUnconfirmed(err) {
			failed = append(failed, outcome{ordinal: len(manifests), unconfirmed: true})
		} else if err != nil {
			failed = append(failed, outcome{ordinal: len(manifests), what: id.String(), err: err})
		}
	}
	return failed
}

// outcome is what came of one manifest.
type outcome struct {
	ordinal       int
	what          string
	err           error
	conflicts     []ssa.Conflict
	dropped       []string
	taken         []ssa.TakenPort
	unknownFields bool
	// unwatched: the object is only observed, and not managed.
	unwatched bool
	// ended: the object ran to its end, is gone, and is not made again.
	ended bool
	// unconfirmed: an object was deleted, and is to be gone when the Work is reconciled again.
	unconfirmed bool
}

func (a *Applier) manifest(ctx context.Context, via objects.Access, work types.NamespacedName, m ssa.Manifest) outcome {
	o := outcome{ordinal: m.Ordinal, what: fmt.Sprintf("manifest %d", m.Ordinal), err: m.Err}
	if m.Err != nil {
		return o
	}
	var done results.Entry
	err := controlloop.CatchPanic(func() (err error) { // the other manifests are applied
		done, err = a.objects.Apply(ctx, via, work, m.Object)
		return err
	})
	o.what = m.Identity().String() // with the namespace it ended up in
	o.err, o.conflicts, o.dropped, o.taken, o.unknownFields, o.unwatched, o.ended = err, done.Conflicts, done.Dropped, done.Taken, done.UnknownFields, done.Unwatched, done.Ended
	return o
}

// incomplete makes sure that the kinds of a Work are watched, and returns those of which not everything is known yet.
func (a *Applier) incomplete(ctx context.Context, conn *member.Conn, key types.NamespacedName, manifests []ssa.Manifest) []schema.GroupVersionResource {
	var resources, incomplete []schema.GroupVersionResource
	for _, m := range manifests {
		if m.Err != nil {
			continue
		}
		mapping, err := conn.Mapping(ctx, m.Object.GroupVersionKind())
		if err != nil {
			continue // reported when it is applied
		}
		resources = append(resources, mapping.Resource)
	}
	conn.Hold(holder(key), resources...)
	for _, r := range resources {
		if !conn.HasSynced(r) && conn.Refused(r) == nil {
			incomplete = append(incomplete, r)
		}
	}
	if len(incomplete) == 0 {
		a.waits.End(key)
	}
	return incomplete
}

// awaits has the Work reconciled again once a watch is complete. It returns false if the Work has waited for that for longer than patience.
func (a *Applier) awaits(conn *member.Conn, work *workv1alpha1.Work, incomplete []schema.GroupVersionResource, patience time.Duration) bool {
	key := client.ObjectKeyFromObject(work)
	if a.waits.Since(key, a.clock.Now()) >= patience {
		return false
	}
	add, tenant := a.queues.AddFor, workv1alpha2.TenantOf(work)
	if !appliedAt(work, work.Generation) {
		add = a.queues.AddFirst
	}
	conn.WhenSynced(incomplete[0], func() { add(conn.Name(), tenant, key) })
	return true
}

// appliedBefore returns whether a Work reports something in the member.
func appliedBefore(work *workv1alpha1.Work) bool {
	return len(work.Status.ManifestStatuses) > 0 || meta.IsStatusConditionTrue(work.Status.Conditions, workv1alpha1.WorkApplied)
}

func holder(work types.NamespacedName) string { return "apply/" + work.String() }

// forget drops what is kept of a Work that is gone, and ends its watches.
func (a *Applier) forget(cluster string, key types.NamespacedName) {
	a.waits.End(key)
	a.troubles.End(key)
	a.objects.ForgetWork(key)
	a.repairBackoff.forget(key)
	a.releasedWorks.Delete(key)
	if conn, ok := a.fleet.Get(cluster); ok {
		conn.Release(holder(key))
	}
}

// finalize removes the objects of a Work that is being deleted, and then the finalizer of the Work. It waits for the watches: an
// object that was applied just before the control plane was killed is neither in the manifests nor in the status.
func (a *Applier) finalize(ctx context.Context, d destination, work *workv1alpha1.Work) (time.Duration, error) {
	key := client.ObjectKeyFromObject(work)
	released, _ := a.releasedWorks.Load(key)
	if !controllerutil.ContainsFinalizer(work, workv1alpha1.ExecutionFinalizer) || released == work.UID {
		return 0, nil
	}
	if !d.gone && !d.leaving {
		if workv1alpha1.IsWithdrawn(work) {
			a.deletedWorks.forget(key)
			a.events.Publish(kept(work))
			return 0, a.removeFinalizer(ctx, d, work)
		}
		keeps, again, err := a.keeps(ctx, work)
		switch {
		case err != nil, again > 0:
			return again, err
		case keeps:
			a.events.Publish(kept(work))
			return 0, a.removeFinalizer(ctx, d, work)
		}
	}
	down := d.conn == nil || d.conn.Health().Down
	switch {
	case d.gone, d.leaving && !d.ready && (down || d.elsewhere):
		// The objects cannot be removed, and there is nothing to wait for. A cluster that is ready has no connection yet after a start.
	case d.elsewhere:
		return 0, nil
	case down:
		err := d.unavailable()
		a.setStuck(work, err)
		return 0, err
	default:
		manifests := ssa.ManifestsOf(work)
		if incomplete := a.incomplete(ctx, d.conn, key, manifests); len(incomplete) > 0 && a.awaits(d.conn, work, incomplete, patienceWithWatch) {
			return patienceWithWatch, nil
		}
		if pause := a.brake.Settles(); pause > 0 && !d.leaving && workv1alpha1.IsLastCopy(work) {
			return pause, nil
		}
		if err := a.removeAll(ctx, d, work, manifests); objects.Unavailable(err) { // since a moment ago
			a.setStuck(work, err)
			return 0, err
		} else if objects.IsTransient(err) {
			return backoff.NotYet, nil
		} else if objects.IsDispatchingHeld(err) {
			a.setDispatchingHeld(work)
			return 0, nil // the end of the hold enqueues the Work
		} else if objects.IsBraked(err) && keptByPerson(d, work) {
			a.deletedWorks.forget(key)
		} else if objects.IsBraked(err) {
			a.setBraked(work, err)
			return backoff.Longest, nil // the release of the brake enqueues the Work sooner, and the deletion may be undone
		} else if err != nil && !(d.leaving && objects.IsForbidden(err)) { // nothing may be removed: that is reported, and the objects stay
			return 0, err
		}
	}
	return 0, a.removeFinalizer(ctx, d, work)
}

// removeFinalizer removes the finalizer of a Work that is being deleted: its objects are gone, or stay.
func (a *Applier) removeFinalizer(ctx context.Context, d destination, work *workv1alpha1.Work) error {
	if err := hubclient.RemoveFinalizer(ctx, a.client, work, workv1alpha1.ExecutionFinalizer); err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(work)
	a.forget(d.name, key)
	a.releasedWorks.Store(key, work.UID) // until the cache shows that it is gone
	return nil
}

// kept returns what became of a Work that was deleted although it is created again.
func kept(work *workv1alpha1.Work) events.Event {
	return events.Normal(events.Work(work), events.RestoreWork,
		"The Work was deleted, but its objects still belong in the cluster: it is created again, and they stay. "+
			"To remove them, delete the template or change what selects it")
}

// setStuck reports that a Work cannot go because its cluster cannot be reached.
func (a *Applier) setStuck(work *workv1alpha1.Work, err error) {
	a.setNotApplied(work, workv1alpha1.NotApplied(work.Generation, fmt.Sprintf("Waiting for the cluster, to remove what was applied there: %v", err)))
}

func (a *Applier) removeAll(ctx context.Context, d destination, work *workv1alpha1.Work, manifests []ssa.Manifest) error {
	key, via := client.ObjectKeyFromObject(work), d.access(work)
	terms := objects.TermsOf(work)
	terms.Preserve, terms.Exclusive = terms.Preserve || d.keepsAll, terms.Exclusive && !d.leaving
	if terms.Preserve {
		a.deletedWorks.forget(key)
	} else {
		a.deletedWorks.put(key, a.clock.Now(), via.Account) // before the objects are listed: what appears afterwards is in an event
	}
	remaining := surplus(via.Conn, work, manifests)
	for _, m := range slices.Backward(manifests) { // the rest before the namespaces and definitions it needs
		if m.Err == nil {
			remaining = append(remaining, m.Identity())
		}
	}
	var failures []error
	var waiting error // for a person
	for _, id := range remaining {
		if err := a.objects.Remove(ctx, via, key, id, terms); objects.IsBraked(err) || objects.IsDispatchingHeld(err) {
			waiting = err
		} else if err != nil {
			failures = append(failures, err)
		}
	}
	err := errors.Join(failures...)
	if err == nil {
		return waiting // what failed is tried again first
	}
	if objects.Only(objects.IsForbidden, failures) {
		a.setNotApplied(work, workv1alpha1.Forbidden(work.Generation, fmt.Sprintf("Failed to remove what was applied: %v", err)))
		return objects.Forbidden(err)
	}
	lasting := slices.ContainsFunc(failures, func(err error) bool { return !objects.IsTransient(err) })
	if !objects.Unavailable(err) && (lasting || a.troubles.Since(key, a.clock.Now()) >= leaveGrace) {
		a.setNotApplied(work, workv1alpha1.NotApplied(work.Generation, fmt.Sprintf("Failed to remove what was applied: %v", err)))
	}
	if !lasting {
		return objects.Transient(err)
	}
	return err
}

// deleteReappeared removes objects of a deleted Work that appear again after they were removed.
func (a *Applier) deleteReappeared(ctx context.Context, cluster string, key types.NamespacedName) error {
	conn, connected := a.fleet.Get(cluster)
	if !connected {
		return nil
	}
	if held, err := a.guard.Held(ctx, conn); err != nil || held.Delete {
		return err
	}
	deleted, reappeared := a.deletedWorks.visit(key)
	if !reappeared {
		return nil
	}
	for _, obj := range conn.Heads(key) {
		if conn.ControlPlane().OurFields(obj) == nil || !deleted.includes(obj.GetCreationTimestamp().Add(-conn.ClockAhead())) {
			continue // others made it
		}
		if err := a.objects.Remove(ctx, objects.Access{Conn: conn, Account: deleted.account}, key, ssa.IdentityOf(obj), objects.Terms{}); err != nil {
			a.deletedWorks.reappears(key) // still
			return err
		}
	}
	return nil
}

func suspended(work *workv1alpha1.Work) bool {
	return work.Spec.SuspendDispatching != nil && *work.Spec.SuspendDispatching
}

func appliedAt(work *workv1alpha1.Work, generation int64) bool {
	c := meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkApplied)
	return c != nil && c.ObservedGeneration == generation && c.Status == "True"
}

// holds returns why a Work must wait, or "".
func (a *Applier) holds(ctx context.Context, cluster string, manifests []ssa.Manifest) string {
	for _, m := range manifests {
		if m.Err != nil {
			continue
		}
		if reason := a.objects.KindPolicy.Hold(ctx, cluster, m.Object.GroupVersionKind()); reason != "" {
			return reason
		}
	}
	return ""
}
