package agentevents

import (
	"context"
	"errors"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// Deps is what the loop needs. Both fields are required.
type Deps struct {
	// Reader reads from the cache.
	Reader client.Reader
	Events events.Recorder
}

// Setup adds the loop.
func Setup(mgr ctrl.Manager, deps Deps) error {
	if deps.Reader == nil || deps.Events == nil {
		return errors.New("agentevents needs Reader and Events")
	}
	p := &publisher{deps}
	err := builder.ControllerManagedBy(mgr).
		Named("agent-events").
		WithOptions(controller.Options{SkipNameValidation: new(true)}).
		Watches(&workv1alpha1.Work{}, handler.Funcs{
			UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				if p.reported(ctx, e.ObjectOld, e.ObjectNew) {
					q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.ObjectNew)})
				}
			},
		}).
		Complete(controlloop.Track(mgr, p))
	if err != nil {
		return fmt.Errorf("adding the loop over Works of agents: %w", err)
	}
	return nil
}

type publisher struct{ Deps }

// reported returns whether an agent changed the status of a Work.
func (p *publisher) reported(ctx context.Context, before, after client.Object) bool {
	name, ok := workv1alpha1.ClusterOfExecutionNamespace(after.GetNamespace())
	if !ok {
		return false
	}
	cluster := &clusterv1alpha1.Cluster{}
	if p.Reader.Get(ctx, client.ObjectKey{Name: name}, cluster, client.UnsafeDisableDeepCopy) != nil {
		return false // the cluster is gone
	}
	old, isWork := before.(*workv1alpha1.Work)
	current, alsoWork := after.(*workv1alpha1.Work)
	return cluster.Spec.SyncMode == clusterv1alpha1.Pull && isWork && alsoWork && !apiequality.Semantic.DeepEqual(old.Status, current.Status)
}

// Reconcile implements reconcile.Reconciler.
func (p *publisher) Reconcile(ctx context.Context, q reconcile.Request) (reconcile.Result, error) {
	work := &workv1alpha1.Work{}
	if err := p.Reader.Get(ctx, q.NamespacedName, work, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	for _, e := range successes(work) {
		p.Events.Publish(e)
	}
	return reconcile.Result{}, nil
}

// successes are the events that follow from the status of a Work, as apply and observe publish them for a cluster in Push mode.
func successes(work *workv1alpha1.Work) (found []events.Event) {
	add := func(reason, message string) {
		found = append(found, events.Success(events.Work(work), reason, message))
	}
	dispatching := meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkDispatching)
	applied := meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkApplied)
	switch {
	case dispatching != nil && dispatching.Reason == workv1alpha1.SuspendDispatchingReason:
		add(events.WorkDispatching, workv1alpha1.SuspendDispatchingMessage)
	case applied != nil && applied.Status == metav1.ConditionTrue && applied.ObservedGeneration == work.Generation:
		add(events.WorkDispatching, workv1alpha1.DispatchingMessage)
		add(events.SyncSucceed, workv1alpha1.ManifestsAppliedMessage(len(work.Spec.Workload.Manifests)))
	}
	for i := range work.Status.ManifestStatuses {
		manifest := &work.Status.ManifestStatuses[i]
		if manifest.Status != nil {
			add(events.ReflectStatusSucceed, manifest.Identifier.StatusReadMessage())
		}
		if manifest.Health == workv1alpha1.ResourceHealthy || manifest.Health == workv1alpha1.ResourceUnhealthy {
			add(events.InterpretHealthSucceed, manifest.Identifier.HealthMessage(manifest.Health))
		}
	}
	return found
}
