package schedule

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/fairqueue"
)

// queue is where bindings wait for a worker.
type queue = workqueue.TypedRateLimitingInterface[types.NamespacedName]

// enqueue adds b with the priority that its policy gave it. Background is for bindings that were there at the start, and for those
// that a change of clusters concerns: at the same priority they come after bindings that a user has just changed.
func enqueue(q queue, b workv1alpha2.Binding, background bool) {
	priority := priorityOf(b)
	if background {
		priority += handler.LowPriority
	}
	fairqueue.Enqueue(q, priority, client.ObjectKeyFromObject(b))
}

// priorityOf is the priority that the policy of b gave it.
func priorityOf(b workv1alpha2.Binding) int {
	if p := b.BindingSpec().SchedulePriority; p != nil {
		return int(p.Priority)
	}
	return 0
}

// bindingEvents keeps the indexes current and enqueues bindings that may be due.
func bindingEvents[B interface {
	client.Object
	workv1alpha2.Binding
}](c *Controller) handler.TypedFuncs[B, types.NamespacedName] {
	return handler.TypedFuncs[B, types.NamespacedName]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[B], q queue) {
			key := client.ObjectKeyFromObject(e.Object)
			c.peers.Place(key, e.Object, e.Object.BindingSpec().Clusters)
			c.awaitingClaims.Update(e.Object)
			if e.IsInInitialList {
				c.restoreReservations(key, e.Object)
			}
			enqueue(q, e.Object, e.IsInInitialList)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[B], q queue) {
			key := client.ObjectKeyFromObject(e.ObjectNew)
			if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() {
				c.peers.Place(key, e.ObjectNew, e.ObjectNew.BindingSpec().Clusters)
			}
			c.awaitingClaims.Update(e.ObjectNew)
			c.confirm(key, e.ObjectOld, e.ObjectNew)
			if matters(e.ObjectOld, e.ObjectNew) {
				enqueue(q, e.ObjectNew, false)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[B], _ queue) {
			c.forget(client.ObjectKeyFromObject(e.Object))
		},
	}
}

// matters returns whether a change of a binding can be a reason to schedule it. Changes of its status are none: others make them, or this package.
func matters(before, after workv1alpha2.Binding) bool {
	if before.GetGeneration() != after.GetGeneration() || !maps.Equal(before.GetLabels(), after.GetLabels()) {
		return true
	}
	a, b := before.GetAnnotations(), after.GetAnnotations()
	return slices.ContainsFunc([]string{
		policyv1alpha1.PartialPlacementAnnotation, policyv1alpha1.FailbackAnnotation, policyv1alpha1.RetainReplicasLabel,
		policyv1alpha1.KeepUnselectedAnnotation, policyv1alpha1.SpreadStaticWeightsAnnotation, workv1alpha2.ReturnsAnnotation,
		workv1alpha2.ReplicaLimitsAnnotation, workv1alpha2.FinishedAnnotation, workv1alpha2.IdentitiesAnnotation, policyv1alpha1.MembersIndependentAnnotation,
	}, func(key string) bool { return a[key] != b[key] })
}

// clusterEvents keeps the snapshot current and requeues the bindings that a change concerns.
func clusterEvents(c *Controller, r *requeuer) handler.TypedFuncs[*clusterv1alpha1.Cluster, types.NamespacedName] {
	changed := func(name string) {
		c.fleet.Touch(name)
		r.clusterChanged()
	}
	return handler.TypedFuncs[*clusterv1alpha1.Cluster, types.NamespacedName]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*clusterv1alpha1.Cluster], _ queue) {
			changed(e.Object.Name)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*clusterv1alpha1.Cluster], _ queue) {
			if !equality.Semantic.DeepEqual(e.ObjectOld.Status.ResourceSummary, e.ObjectNew.Status.ResourceSummary) {
				c.reservations.Reported(e.ObjectNew.Name)
			}
			changed(e.ObjectNew.Name)
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*clusterv1alpha1.Cluster], _ queue) {
			changed(e.Object.Name)
		},
	}
}

// capacityEvents keeps the snapshot current and requeues the bindings that wait.
func capacityEvents(c *Controller, r *requeuer) handler.TypedEventHandler[*fleetv1alpha1.ClusterCapacity, types.NamespacedName] {
	changed := func(capacity *fleetv1alpha1.ClusterCapacity) {
		c.fleet.Touch(capacity.Name)
		r.clusterChanged()
	}
	return handler.TypedFuncs[*fleetv1alpha1.ClusterCapacity, types.NamespacedName]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*fleetv1alpha1.ClusterCapacity], _ queue) {
			changed(e.Object)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*fleetv1alpha1.ClusterCapacity], _ queue) {
			changed(e.ObjectNew)
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*fleetv1alpha1.ClusterCapacity], _ queue) {
			changed(e.Object)
		},
	}
}
