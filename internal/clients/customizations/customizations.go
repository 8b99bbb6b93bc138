package customizations

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/declarative"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/webhook"
)

// Loader sets the customizations that the control plane has in Scripts and Webhooks, and publishes the kinds whose interpretation
// changes. All fields are required.
type Loader struct {
	// Client reads from a cache, Live past it.
	Client client.Reader
	Live   client.Reader

	Scripts  *declarative.Store
	Webhooks *webhook.Store
	Changes  *interpret.Changes
}

// Setup adds the loop that reads the customizations again when one of them changes. Every replica runs it, so that it can take over at once.
func (c Loader) Setup(mgr ctrl.Manager) error {
	always := source.TypedFunc[Kind](func(_ context.Context, queue workqueue.TypedRateLimitingInterface[Kind]) error {
		queue.Add(Scripts) // what was deleted between Load and the start of the informers has no event
		queue.Add(Webhooks)
		return nil
	})
	err := builder.TypedControllerManagedBy[Kind](mgr).Named("customizations").
		Watches(&configv1alpha1.ResourceInterpreterCustomization{}, enqueue(Scripts)).
		Watches(&configv1alpha1.ResourceInterpreterWebhookConfiguration{}, enqueue(Webhooks)).
		WatchesRawSource(always).
		WithOptions(controller.TypedOptions[Kind]{NeedLeaderElection: new(false), SkipNameValidation: new(true)}).
		Complete(controlloop.Track(mgr, c))
	if err != nil {
		return fmt.Errorf("adding the loop customizations: %w", err)
	}
	return nil
}

// Kind is one of the two kinds of customizations. All objects of it are read together: those for one kind of resource are combined.
type Kind string

// The kinds that a Loader reads.
const (
	Scripts  Kind = "scripts"
	Webhooks Kind = "webhooks"
)

func enqueue(k Kind) handler.TypedEventHandler[client.Object, Kind] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(context.Context, client.Object) []Kind { return []Kind{k} })
}

// Reconcile implements reconcile.TypedReconciler.
func (c Loader) Reconcile(ctx context.Context, k Kind) (reconcile.Result, error) {
	if k == Webhooks {
		return reconcile.Result{}, c.readWebhooks(ctx, c.Client)
	}
	return reconcile.Result{}, c.readScripts(ctx, c.Client)
}

// Load reads the customizations that exist before a loop interprets an object: the result depends on them.
func (c Loader) Load(ctx context.Context) error {
	return errors.Join(c.readScripts(ctx, c.Live), c.readWebhooks(ctx, c.Live))
}

func (c Loader) readScripts(ctx context.Context, from client.Reader) error {
	var list configv1alpha1.ResourceInterpreterCustomizationList
	if err := from.List(ctx, &list); err != nil {
		return fmt.Errorf("listing customizations: %w", err)
	}
	if changed := sets.New(c.Scripts.Set(pointers(list.Items))...); len(changed) > 0 {
		c.Changes.Publish(changed.Has)
	}
	return nil
}

func (c Loader) readWebhooks(ctx context.Context, from client.Reader) error {
	var list configv1alpha1.ResourceInterpreterWebhookConfigurationList
	if err := from.List(ctx, &list); err != nil {
		return fmt.Errorf("listing interpreter webhooks: %w", err)
	}
	c.Changes.Publish(c.Webhooks.Set(pointers(list.Items)))
	return nil
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}
