package apply

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	crevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/workstatus"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/brake"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// countWork updates the brake for a Work that is new, changed or gone. Nil: none.
func (a *Applier) countWork(before, after *workv1alpha1.Work) {
	named := cmp.Or(after, before)
	if cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(named.Namespace); ok {
		a.brake.Change(cluster, client.ObjectKeyFromObject(named), brake.ShareOf(before), brake.ShareOf(after))
	}
}

// keptByPerson returns whether a person has decided that the objects of a Work, whose removal waits, stay.
func keptByPerson(d destination, work *workv1alpha1.Work) bool {
	return !d.keepBefore.IsZero() && !work.DeletionTimestamp.After(d.keepBefore)
}

// setBraked reports that a Work waits for the brake.
func (a *Applier) setBraked(work *workv1alpha1.Work, err error) {
	a.report.Update(work, workstatus.Apply, func(_ *workv1alpha1.Work, status *workv1alpha1.WorkStatus) {
		meta.SetStatusCondition(&status.Conditions, workv1alpha1.Dispatching(work.Generation))
		meta.SetStatusCondition(&status.Conditions, workv1alpha1.Braked(work.Generation, err.Error()))
	})
}

// brakeLoop writes to Clusters whether their brake is engaged, and has what waited reconciled again when it is not.
type brakeLoop struct {
	*Applier
	queue atomic.Pointer[workqueue.TypedRateLimitingInterface[reconcile.Request]]
}

func (l *brakeLoop) setup(mgr ctrl.Manager) error {
	concerned := predicate.Funcs{UpdateFunc: func(e crevent.UpdateEvent) bool {
		for _, key := range []string{clusterv1alpha1.BrakeReleasedUntilAnnotation, clusterv1alpha1.BrakeKeepBeforeAnnotation} {
			if e.ObjectOld.GetAnnotations()[key] != e.ObjectNew.GetAnnotations()[key] {
				return true
			}
		}
		before, after := e.ObjectOld.(*clusterv1alpha1.Cluster), e.ObjectNew.(*clusterv1alpha1.Cluster)
		return (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) || l.fleet.Serves(before) != l.fleet.Serves(after)
	}}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("brake").
		For(&clusterv1alpha1.Cluster{}, builder.WithPredicates(concerned)).
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			l.queue.Store(&queue)
			return nil
		})).
		WithOptions(controller.Options{SkipNameValidation: new(true)}).
		Complete(controlloop.Track(mgr, l))
	if err != nil {
		return fmt.Errorf("adding the loop brake: %w", err)
	}
	return nil
}

// changed is called by the brake. If the loop does not run yet, its first reconcile of every Cluster finds the state.
func (l *brakeLoop) changed(cluster string) {
	if queue := l.queue.Load(); queue != nil {
		(*queue).Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: cluster}})
	}
}

// Reconcile writes the state of one cluster's brake.
func (l *brakeLoop) Reconcile(ctx context.Context, q reconcile.Request) (reconcile.Result, error) {
	cluster := &clusterv1alpha1.Cluster{}
	if err := l.client.Get(ctx, q.NamespacedName, cluster); apierrors.IsNotFound(err) {
		l.brake.Forget(q.Name)
		l.metrics.braked(q.Name, nil)
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the cluster: %w", err)
	}
	own := l.fleet.Serves(cluster)
	l.brake.Heed(cluster, own)
	if !own { // who writes to the cluster writes the condition, and reads from it what an earlier process decided
		l.metrics.braked(cluster.Name, nil)
		return reconcile.Result{}, nil
	}
	state, next := l.brake.Look(cluster.Name)
	before := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionBrakeEngaged)
	was := before != nil && before.Status == metav1.ConditionTrue
	if was || state.Cause != brake.None {
		l.metrics.braked(cluster.Name, &state)
	}
	condition, news := l.brakeCondition(cluster, state, was)
	if news != nil {
		unchanged := cluster.DeepCopy()
		condition.LastTransitionTime = metav1.NewTime(l.clock.Now()) // which the clock of an agent's machine may differ from
		meta.SetStatusCondition(&cluster.Status.Conditions, condition)
		if _, err := hubclient.PatchStatusLocked(ctx, l.client, unchanged, cluster); apierrors.IsConflict(err) {
			return reconcile.Result{RequeueAfter: backoff.Conflict}, nil
		} else if err != nil {
			return reconcile.Result{}, fmt.Errorf("writing the condition %s: %w", clusterv1alpha1.ClusterConditionBrakeEngaged, err)
		}
		l.events.Publish(*news)
		log.FromContext(ctx).Info("The brake of a cluster changed", "cluster", cluster.Name, "engaged", condition.Status, "waiting", state.Waiting, "message", condition.Message)
	}
	released := was && state.Cause == brake.None
	kept := was && clusterv1alpha1.BrakeKeepBefore(cluster).After(before.LastTransitionTime.Time)
	leaving := cluster.DeletionTimestamp != nil // nothing waits in a cluster that is being removed
	if released || kept || leaving {
		l.queues.Add(cluster.Name, everyWork(cluster.Name))
	}
	return reconcile.Result{RequeueAfter: next}, nil
}

// brakeCondition is the condition that a state calls for, and the event for the change; nil if there is none.
func (l *brakeLoop) brakeCondition(cluster *clusterv1alpha1.Cluster, state brake.State, was bool) (metav1.Condition, *events.Event) {
	reference := events.Reference(clusterv1alpha1.SchemeGroupVersion.WithKind("Cluster"), cluster)
	switch {
	case state.Cause == brake.None && was:
		condition := clusterv1alpha1.BrakeNotEngaged(clusterv1alpha1.NothingWaitsReason, "Nothing waits for the brake")
		if clusterv1alpha1.BrakeReleasedUntil(cluster).After(l.clock.Now()) {
			condition = clusterv1alpha1.BrakeNotEngaged(clusterv1alpha1.BrakeReleasedReason,
				"Released until "+cluster.Annotations[clusterv1alpha1.BrakeReleasedUntilAnnotation])
		}
		news := events.Normal(reference, events.BrakeReleased, condition.Message)
		return condition, &news
	case state.Cause == brake.Member && !was, state.Cause == brake.Fleet && !was:
		reason, whose := clusterv1alpha1.MemberShareExceededReason, "the cluster"
		if state.Cause == brake.Fleet {
			reason, whose = clusterv1alpha1.FleetShareExceededReason, "all clusters together"
		}
		condition := clusterv1alpha1.BrakeEngaged(reason, fmt.Sprintf(
			"%d of %d objects of %s are to be removed or scaled down, %s: removals and shrinkages wait. "+
				"'flagship release-brake %s' lets them pass; with --keep-objects, what is to be removed stays instead",
			state.Touched, state.Objects, whose, l.brake.Describe(), cluster.Name))
		news := events.Warning(reference, events.BrakeEngaged, condition.Message)
		return condition, &news
	default:
		return metav1.Condition{}, nil
	}
}
