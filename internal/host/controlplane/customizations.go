package controlplane

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
)

// customizations passes the interpreter customizations of users, Lua and webhooks, to the interpreter, and notifies the loops
// when they change.
type customizations struct{ *components }

// Start implements manager.Runnable.
func (c customizations) Start(ctx context.Context) error {
	scripts, err := c.follow(ctx, &configv1alpha1.ResourceInterpreterCustomization{}, c.feedScripts)
	if err != nil {
		return err
	}
	webhooks, err := c.follow(ctx, &configv1alpha1.ResourceInterpreterWebhookConfiguration{}, c.feedWebhooks)
	if err != nil {
		return err
	}
	if !cache.WaitForCacheSync(ctx.Done(), scripts, webhooks) {
		return nil // the manager is ending
	}
	<-ctx.Done()
	return nil
}

// load reads the customizations that exist before a loop interprets an object: the result depends on them.
func (c customizations) load(ctx context.Context) error {
	return errors.Join(c.readScripts(ctx, c.mgr.GetAPIReader()), c.readWebhooks(ctx, c.mgr.GetAPIReader()))
}

// NeedLeaderElection has every replica know the customizations, so that it can take over at once.
func (c customizations) NeedLeaderElection() bool { return false }

// follow calls feed at every change of the objects of a kind.
func (c customizations) follow(ctx context.Context, kind client.Object, feed func(context.Context) error) (cache.InformerSynced, error) {
	informer, err := c.mgr.GetCache().GetInformer(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("watching %T: %w", kind, err)
	}
	changed := func(any) {
		if err := feed(ctx); err != nil {
			log.FromContext(ctx).Error(err, "Cannot take over interpreter customizations")
		}
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, DeleteFunc: changed, UpdateFunc: func(_, obj any) { changed(obj) },
	})
	if err != nil {
		return nil, fmt.Errorf("watching %T: %w", kind, err)
	}
	return registration.HasSynced, nil
}

func (c customizations) feedScripts(ctx context.Context) error {
	return c.readScripts(ctx, c.mgr.GetClient())
}

func (c customizations) feedWebhooks(ctx context.Context) error {
	return c.readWebhooks(ctx, c.mgr.GetClient())
}

func (c customizations) readScripts(ctx context.Context, from client.Reader) error {
	var list configv1alpha1.ResourceInterpreterCustomizationList
	if err := from.List(ctx, &list); err != nil {
		return fmt.Errorf("listing customizations: %w", err)
	}
	if changed := sets.New(c.scripts.Set(pointers(list.Items))...); len(changed) > 0 {
		c.changes.Publish(changed.Has)
	}
	return nil
}

func (c customizations) readWebhooks(ctx context.Context, from client.Reader) error {
	var list configv1alpha1.ResourceInterpreterWebhookConfigurationList
	if err := from.List(ctx, &list); err != nil {
		return fmt.Errorf("listing interpreter webhooks: %w", err)
	}
	c.changes.Publish(c.webhooks.Set(pointers(list.Items)))
	return nil
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}
