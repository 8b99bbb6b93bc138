package rebalance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1alpha1 "github.com/flagship-k8s/flagship/api/apps/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

const fieldManager = "flagship-rebalance"

// Controller reconciles one WorkloadRebalancer at a time.
type Controller struct {
	client client.Client
	clock  clock.PassiveClock
}

// New returns a Controller that reads and writes through c.
func New(c client.Client, clock clock.PassiveClock) *Controller {
	return &Controller{client: c, clock: clock}
}

// Setup adds the controller to mgr. The client is that of package hubclient.
func Setup(mgr ctrl.Manager, c client.Client, clock clock.PassiveClock) error {
	err := builder.ControllerManagedBy(mgr).
		Named("rebalance").
		For(&appsv1alpha1.WorkloadRebalancer{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{
			RateLimiter: backoff.Limiter[reconcile.Request](),
		}).
		Complete(controlloop.Track(mgr, New(c, clock)))
	if err != nil {
		return fmt.Errorf("building the rebalance controller: %w", err)
	}
	return nil
}

// Reconcile requests what has not been requested, writes the status, and deletes what is past its time to live.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	r := &appsv1alpha1.WorkloadRebalancer{}
	if err := c.client.Get(ctx, request.NamespacedName, r); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if r.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	items, faults := agenda(r), []error(nil)
	trigger := triggerTime(r, c.clock.Now())
	for i := range items {
		if items[i].Result != "" {
			continue
		}
		if err := c.request(ctx, &items[i], trigger); err != nil {
			faults = append(faults, err)
		}
	}
	status := statusOf(r, items, c.clock.Now())
	before := r.DeepCopy()
	r.Status = status
	if _, err := hubclient.PatchStatus(ctx, c.client, before, r, client.FieldOwner(fieldManager)); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	if err := errors.Join(faults...); err != nil {
		return reconcile.Result{}, err
	}
	left, ends := remaining(r, c.clock.Now())
	if !ends || left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	err := c.client.Delete(ctx, r, client.Preconditions{UID: &r.UID, ResourceVersion: &r.ResourceVersion})
	if apierrors.IsConflict(err) {
		return reconcile.Result{}, nil // It was changed meanwhile, and that is an event.
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// request requests a fresh decision for one workload and records the result. An error is retried.
func (c *Controller) request(ctx context.Context, item *appsv1alpha1.ObservedWorkload, trigger metav1.Time) error {
	binding, err := c.bindingOf(ctx, item.Workload)
	switch {
	case err != nil:
		return err
	case binding == nil:
		item.Result, item.Reason = appsv1alpha1.RebalanceFailed, appsv1alpha1.RebalanceObjectNotFound
		return nil
	}
	if asked := binding.BindingSpec().RescheduleTriggeredAt; asked == nil || asked.Before(&trigger) {
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": binding.GetUID()},
			"spec":     map[string]any{"rescheduleTriggeredAt": trigger},
		})
		if err != nil {
			return fmt.Errorf("encoding a patch: %w", err)
		}
		err = c.client.Patch(ctx, binding, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldManager))
		if err != nil {
			return fmt.Errorf("requesting to reschedule %s %s/%s: %w", item.Workload.Kind, item.Workload.Namespace, item.Workload.Name, err)
		}
	}
	item.Result, item.Reason = appsv1alpha1.RebalanceSuccessful, ""
	return nil
}

// bindingOf reads the binding of a workload, nil if there is none.
func (c *Controller) bindingOf(ctx context.Context, w appsv1alpha1.ObjectReference) (workv1alpha2.Binding, error) {
	binding := workv1alpha2.EmptyBinding(w.Namespace)
	key := client.ObjectKey{Namespace: w.Namespace, Name: workv1alpha2.BindingName(w.Kind, w.Name)}
	if err := c.client.Get(ctx, key, binding); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading binding %s: %w", key, err)
	}
	// Equal kinds of two groups share a name.
	bound := binding.BindingSpec().Resource
	if bound.GroupVersionKind().GroupKind() != schema.FromAPIVersionAndKind(w.APIVersion, w.Kind).GroupKind() || bound.Name != w.Name {
		return nil, nil
	}
	return binding, nil
}
