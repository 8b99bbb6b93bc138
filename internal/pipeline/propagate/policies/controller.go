package policies

import (
	"context"
	"maps"
	"slices"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/fairqueue"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate/bindings"
)

const workers = 4

// Setup adds the loop to the manager. It needs the indexes of [Indexes].
func Setup(mgr ctrl.Manager, l *Loop) error {
	loop, err := controller.NewTyped("propagate-policies", mgr, controller.TypedOptions[Request]{
		Reconciler: controlloop.Track(mgr, l), MaxConcurrentReconciles: workers, RateLimiter: backoff.Limiter[Request](),
		NewQueue:           fairqueue.Maker(func(r Request) string { return r.Namespace }),
		SkipNameValidation: new(true), // several control planes may live in one process
	})
	if err != nil {
		return err
	}
	for _, watch := range []source.TypedSource[Request]{
		source.TypedKind(mgr.GetCache(), &policyv1alpha1.PropagationPolicy{}, onPolicy[*policyv1alpha1.PropagationPolicy]()),
		source.TypedKind(mgr.GetCache(), &policyv1alpha1.ClusterPropagationPolicy{}, onPolicy[*policyv1alpha1.ClusterPropagationPolicy]()),
		source.TypedKind(mgr.GetCache(), &policyv1alpha1.OverridePolicy{}, onOverride[*policyv1alpha1.OverridePolicy]()),
		source.TypedKind(mgr.GetCache(), &policyv1alpha1.ClusterOverridePolicy{}, onOverride[*policyv1alpha1.ClusterOverridePolicy]()),
	} {
		if err := loop.Watch(watch); err != nil {
			return err
		}
	}
	return nil
}

// onPolicy queues a policy whose content or existence changed.
func onPolicy[P interface {
	policyv1alpha1.Propagation
	client.Object
}]() handler.TypedEventHandler[P, Request] {
	type queue = workqueue.TypedRateLimitingInterface[Request]
	return handler.TypedFuncs[P, Request]{
		CreateFunc: func(_ context.Context, e ctrlevent.TypedCreateEvent[P], q queue) {
			priority := soon
			if e.IsInInitialList {
				priority = later
			}
			fairqueue.Enqueue(q, priority, Request{Key: policy.KeyOf(e.Object)})
		},
		UpdateFunc: func(_ context.Context, e ctrlevent.TypedUpdateEvent[P], q queue) {
			if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
				!maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) ||
				len(hubstore.Difference(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations(), bindings.OptIns)) > 0 ||
				!slices.Equal(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers()) {
				fairqueue.Enqueue(q, soon, Request{Key: policy.KeyOf(e.ObjectNew)})
			}
		},
		DeleteFunc: func(_ context.Context, e ctrlevent.TypedDeleteEvent[P], q queue) {
			fairqueue.Enqueue(q, soon, Request{Key: policy.KeyOf(e.Object)})
		},
	}
}

// onOverride queues an override policy that was created: policies may wait for it.
func onOverride[O interface {
	policyv1alpha1.Override
	client.Object
}]() handler.TypedEventHandler[O, Request] {
	return handler.TypedFuncs[O, Request]{
		CreateFunc: func(_ context.Context, e ctrlevent.TypedCreateEvent[O], q workqueue.TypedRateLimitingInterface[Request]) {
			if !e.IsInInitialList { // the policies themselves are in their own initial list
				fairqueue.Enqueue(q, soon, Request{Key: policy.KeyOf(e.Object), Override: true})
			}
		},
	}
}
