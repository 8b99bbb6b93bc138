package render

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/fairqueue"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
	"github.com/flagship-k8s/flagship/internal/pipeline/render/compose"
	"github.com/flagship-k8s/flagship/internal/pipeline/render/triggers"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// workOwnerIndex finds the Works of a binding in the cache.
const workOwnerIndex = "render.owner"

// Indexes registers the cache indexes of this package.
func Indexes(ctx context.Context, indexer client.FieldIndexer) error {
	byOwner := func(obj client.Object) []string {
		if of := workv1alpha2.BoundTo(obj); of != "" {
			return []string{of}
		}
		return nil
	}
	if err := indexer.IndexField(ctx, &workv1alpha1.Work{}, workOwnerIndex, byOwner); err != nil {
		return fmt.Errorf("adding the index %s: %w", workOwnerIndex, err)
	}
	return triggers.Indexes(ctx, indexer)
}

// bindingChanges passes changes that rendering depends on: the spec, the permanent id, the claim of a policy, which copies name, the account that writes, what happens to drift, deletion, the end of a
// wait for the scheduler, and the condition Rendered, which may have to be removed before the cache shows that it was set. Other changes
// of status come from members, and there are many of them.
func bindingChanges() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(workv1alpha2.Binding), e.ObjectNew.(workv1alpha2.Binding)
		return before.GetGeneration() != after.GetGeneration() ||
			before.GetDeletionTimestamp() == nil && after.GetDeletionTimestamp() != nil ||
			before.GetUID() != after.GetUID() ||
			before.GetLabels()[before.PermanentIDLabel()] != after.GetLabels()[after.PermanentIDLabel()] ||
			policy.ClaimOn(before) != policy.ClaimOn(after) ||
			before.GetAnnotations()[clusterv1alpha1.ApplyAsAnnotation] != after.GetAnnotations()[clusterv1alpha1.ApplyAsAnnotation] ||
			before.GetAnnotations()[policyv1alpha1.DriftAnnotation] != after.GetAnnotations()[policyv1alpha1.DriftAnnotation] ||
			before.GetAnnotations()[policyv1alpha1.DriftIgnoreAnnotation] != after.GetAnnotations()[policyv1alpha1.DriftIgnoreAnnotation] ||
			compose.AwaitsScheduler(before) && !compose.AwaitsScheduler(after) ||
			!compose.MayDelete(before) && compose.MayDelete(after) ||
			compose.PurgesDirectly(before) != compose.PurgesDirectly(after) ||
			before.GetAnnotations()[workv1alpha2.ReturnsAnnotation] != after.GetAnnotations()[workv1alpha2.ReturnsAnnotation] ||
			!equality.Semantic.DeepEqual(renderedOf(before), renderedOf(after))
	}}
}

func renderedOf(binding workv1alpha2.Binding) *metav1.Condition {
	return meta.FindStatusCondition(binding.BindingStatus().Conditions, workv1alpha2.Rendered)
}

// bindingEvents enqueues a binding that was changed, and keeps one that was deleted for leftovers.
func (r *Reconciler) bindingEvents() handler.EventHandler {
	own := &handler.EnqueueRequestForObject{}
	return handler.Funcs{
		CreateFunc: own.Create,
		UpdateFunc: own.Update,
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			r.lost.Store(client.ObjectKeyFromObject(e.Object), e.Object)
			own.Delete(ctx, e, q)
		},
	}
}

// workChanges enqueues the binding of a Work that others changed, or that was deleted.
func (r *Reconciler) workChanges() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			if !r.writes.Observe(e.Object) {
				r.enqueueOwner(e.Object, q, e.IsInInitialList)
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if r.writes.Observe(e.ObjectNew) {
				return
			}
			if !reshaped(e.ObjectOld, e.ObjectNew) && !beginsToWait(e.ObjectOld, e.ObjectNew) {
				if key, ok := r.ownerOf(e.ObjectNew); ok && r.moves.has(key.NamespacedName) { // it may be healthy by now
					q.Add(key)
				}
				return
			}
			r.enqueueOwner(e.ObjectOld, q, false)
			r.enqueueOwner(e.ObjectNew, q, false)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			r.writes.Forget(client.ObjectKeyFromObject(e.Object))
			r.enqueueOwner(e.Object, q, false)
		},
	}
}

// beginsToWait returns whether the removal of a Work waits for the brake of its cluster only now.
func beginsToWait(before, after client.Object) bool {
	was, isWork := before.(*workv1alpha1.Work)
	is, both := after.(*workv1alpha1.Work)
	return isWork && both && workv1alpha1.AwaitsBrake(is) && !workv1alpha1.AwaitsBrake(was)
}

// reshaped returns whether more than the status changed.
func reshaped(before, after client.Object) bool {
	return before.GetGeneration() != after.GetGeneration() || before.GetUID() != after.GetUID() ||
		!maps.Equal(before.GetLabels(), after.GetLabels()) || !maps.Equal(before.GetAnnotations(), after.GetAnnotations())
}

// ownerOf returns the binding of a Work, if it is one of this reconciler's.
func (r *Reconciler) ownerOf(work client.Object) (request reconcile.Request, ok bool) {
	annotations := work.GetAnnotations()
	if r.namespaced {
		request.Namespace = annotations[workv1alpha2.ResourceBindingNamespaceAnnotation]
		request.Name = annotations[workv1alpha2.ResourceBindingNameAnnotation]
	} else {
		request.Name = annotations[workv1alpha2.ClusterResourceBindingNameAnnotation]
	}
	return request, request.Name != "" && r.namespaced == (request.Namespace != "")
}

func (r *Reconciler) enqueueOwner(work client.Object, q queue, initial bool) {
	request, ok := r.ownerOf(work)
	if !ok {
		return
	}
	priority := 0
	if initial { // nearly all are as they should be
		priority = handler.LowPriority
	}
	fairqueue.Enqueue(q, priority, request)
}
