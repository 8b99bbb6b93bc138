package customizations

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
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

// Setup has a manager run the loader.
func (c Loader) Setup(mgr ctrl.Manager) error {
	if err := mgr.Add(&follower{c, mgr.GetCache()}); err != nil {
		return fmt.Errorf("adding the loader of interpreter customizations: %w", err)
	}
	return nil
}

// follower passes on what changes in a cache.
type follower struct {
	Loader
	cache cache.Cache
}

// Start implements manager.Runnable.
func (c *follower) Start(ctx context.Context) error {
	scripts, err := c.follow(ctx, &configv1alpha1.ResourceInterpreterCustomization{}, c.readScripts)
	if err != nil {
		return err
	}
	webhooks, err := c.follow(ctx, &configv1alpha1.ResourceInterpreterWebhookConfiguration{}, c.readWebhooks)
	if err != nil {
		return err
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), scripts, webhooks) {
		return nil // the manager is ending
	}
	<-ctx.Done()
	return nil
}

// Load reads the customizations that exist before a loop interprets an object: the result depends on them.
func (c Loader) Load(ctx context.Context) error {
	return errors.Join(c.readScripts(ctx, c.Live), c.readWebhooks(ctx, c.Live))
}

// NeedLeaderElection is false: every replica has the customizations, so that it can take over at once.
func (c *follower) NeedLeaderElection() bool { return false }

// follow calls read at every change of the objects of a kind.
func (c *follower) follow(ctx context.Context, kind client.Object, read func(context.Context, client.Reader) error) (toolscache.InformerSynced, error) {
	informer, err := c.cache.GetInformer(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("watching %T: %w", kind, err)
	}
	changed := func(any) {
		if err := read(ctx, c.Client); err != nil {
			log.FromContext(ctx).Error(err, "Cannot take over interpreter customizations")
		}
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: changed, DeleteFunc: changed, UpdateFunc: func(_, obj any) { changed(obj) },
	})
	if err != nil {
		return nil, fmt.Errorf("watching %T: %w", kind, err)
	}
	return registration.HasSynced, nil
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
