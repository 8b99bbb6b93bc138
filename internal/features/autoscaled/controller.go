package autoscaled

import (
	"context"
	"errors"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/fairqueue"
)

// Templates is the part of *hubstore.Store that this package uses.
type Templates interface {
	Subscribe(func(hubstore.Ref))
	Canonical(schema.GroupVersionKind) (schema.GroupVersionKind, bool)
	Meta(hubstore.Ref) (*metav1.PartialObjectMetadata, bool)
	PatchMetadata(context.Context, hubstore.Ref, []byte) (*unstructured.Unstructured, error)
	Scale(context.Context, hubstore.Ref, *metav1.PartialObjectMetadata, int32) error
}

// Deps is what the loops need. All fields are required.
type Deps struct {
	// Client is that of package hubclient.
	Client    client.Client
	Templates Templates
	Events    events.Recorder
}

// Setup adds the loops. The context is for adding an index only.
func Setup(ctx context.Context, mgr ctrl.Manager, deps Deps) error {
	if deps.Client == nil || deps.Templates == nil || deps.Events == nil {
		return errors.New("autoscaled needs Client, Templates and Events")
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &autoscalingv2.HorizontalPodAutoscaler{}, targetIndex, indexTarget); err != nil {
		return fmt.Errorf("indexing autoscalers by their target: %w", err)
	}
	m := &marker{hpas: indexedHPAs(deps.Client), templates: deps.Templates}
	marks, err := controller.NewTyped("autoscaled-targets", mgr, options(controlloop.Track[hubstore.Ref](mgr, m), func(ref hubstore.Ref) string { return ref.Namespace }))
	if err != nil {
		return fmt.Errorf("adding the loop over targets of autoscalers: %w", err)
	}
	targets := source.TypedFunc[hubstore.Ref](func(_ context.Context, q workqueue.TypedRateLimitingInterface[hubstore.Ref]) error {
		deps.Templates.Subscribe(func(ref hubstore.Ref) {
			if m.concerns(ref) {
				q.Add(ref)
			}
		})
		return nil
	})
	if err := errors.Join(marks.Watch(source.TypedKind(mgr.GetCache(), &autoscalingv2.HorizontalPodAutoscaler{}, m.onHPA())), marks.Watch(targets)); err != nil {
		return fmt.Errorf("watching autoscalers and their targets: %w", err)
	}
	s := &syncer{client: deps.Client, templates: deps.Templates, events: deps.Events, hpas: indexedHPAs(deps.Client)}
	replicas, err := controller.NewTyped("autoscaled-replicas", mgr, options(controlloop.Track[reconcile.Request](mgr, s), func(q reconcile.Request) string { return q.Namespace }))
	if err != nil {
		return fmt.Errorf("adding the loop over autoscaled replicas: %w", err)
	}
	err = replicas.Watch(source.Kind(mgr.GetCache(), &workv1alpha2.ResourceBinding{}, &handler.TypedEnqueueRequestForObject[*workv1alpha2.ResourceBinding]{},
		predicate.NewTypedPredicateFuncs(follows)))
	if err != nil {
		return fmt.Errorf("watching bindings: %w", err)
	}
	return nil
}

func options[R comparable](reconciler reconcile.TypedReconciler[R], namespace func(R) string) controller.TypedOptions[R] {
	return controller.TypedOptions[R]{
		Reconciler: reconciler, RateLimiter: backoff.Limiter[R](), NewQueue: fairqueue.Maker(namespace),
		SkipNameValidation: new(true), // several control planes may run in one process
	}
}
