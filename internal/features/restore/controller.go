package restore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	crevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// countPause is how often orphans are counted for the metric.
const countPause = time.Minute

// Setup adds the loops of a Guard.
func Setup(mgr ctrl.Manager, g *Guard) error {
	if err := mgr.Add(g.queues); err != nil {
		return fmt.Errorf("adding the guard: %w", err)
	}
	loop := controlloop.Of(mgr)
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return g.count(ctx, loop) })); err != nil {
		return fmt.Errorf("adding the count of orphans: %w", err)
	}
	said := predicate.Funcs{UpdateFunc: func(e crevent.UpdateEvent) bool {
		before, after := e.ObjectOld.(*clusterv1alpha1.Cluster), e.ObjectNew.(*clusterv1alpha1.Cluster)
		return slices.ContainsFunc([]string{clusterv1alpha1.ResumeDispatchingAnnotation, clusterv1alpha1.ResumeOperationsAnnotation, clusterv1alpha1.HoldDispatchingAnnotation}, func(key string) bool {
			return before.Annotations[key] != after.Annotations[key]
		}) || isHeld(before) != isHeld(after)
	}}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("restore").
		For(&clusterv1alpha1.Cluster{}, builder.WithPredicates(said)).
		WithOptions(controller.Options{SkipNameValidation: new(true)}).
		Complete(controlloop.Track(mgr, reconcile.Func(func(_ context.Context, q reconcile.Request) (reconcile.Result, error) {
			g.queues.Add(q.Name, types.NamespacedName{Name: q.Name})
			return reconcile.Result{}, nil
		})))
	if err != nil {
		return fmt.Errorf("adding the loop restore: %w", err)
	}
	return nil
}

func isHeldByAnnotation(cluster *clusterv1alpha1.Cluster) bool {
	_, held := cluster.Annotations[clusterv1alpha1.HoldDispatchingAnnotation]
	return held
}

func isHeld(cluster *clusterv1alpha1.Cluster) bool {
	return meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionDispatchingHeld)
}

// report writes the condition and publishes it.
func (g *Guard) report(ctx context.Context, before, cluster *clusterv1alpha1.Cluster, condition metav1.Condition) error {
	meta.SetStatusCondition(&cluster.Status.Conditions, condition)
	if _, err := hubclient.PatchStatusLocked(ctx, g.Client, before, cluster); err != nil {
		return err
	}
	news := events.Warning
	if condition.Status == metav1.ConditionFalse {
		news = events.Normal
	}
	g.Events.Publish(news(events.Reference(clusterv1alpha1.SchemeGroupVersion.WithKind("Cluster"), cluster), condition.Reason, condition.Message))
	return nil
}

// count keeps the metric of orphans until ctx ends.
func (g *Guard) count(ctx context.Context, loop *controlloop.Loop) error {
	ticker := g.Clock.NewTicker(countPause)
	defer ticker.Stop()
	for {
		for _, name := range g.Fleet.Names() {
			conn, ok := g.Fleet.Get(name)
			if !ok {
				continue
			}
			loop.Turn(ctx, "counting orphans in cluster "+name, func(ctx context.Context) error {
				orphans, _, err := g.cached(ctx, conn, 0)
				if err == nil {
					g.orphans.WithLabelValues(name).Set(float64(orphans))
				}
				return err
			})
		}
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return nil
		}
	}
}
