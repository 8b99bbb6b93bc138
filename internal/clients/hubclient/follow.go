package hubclient

import (
	"context"
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Follow calls changed for the events of the objects of a kind: before is nil for one that is new, after for one that is gone. Initial is
// true for those that the cache has at first; synced returns whether they were all handled. Stop has to be called.
func Follow[T any, O interface {
	*T
	client.Object
}](ctx context.Context, from cache.Informers, changed func(before, after O, initial bool)) (synced func() bool, stop func(), err error) {
	informer, err := from.GetInformer(ctx, O(new(T)))
	if err != nil {
		return nil, nil, fmt.Errorf("watching objects of type %T: %w", O(nil), err)
	}
	handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if after, ok := obj.(O); ok {
				changed(nil, after, initial)
			}
		},
		UpdateFunc: func(old, obj any) {
			before, ok := old.(O)
			if after, alsoOK := obj.(O); ok && alsoOK {
				changed(before, after, false)
			}
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if before, ok := obj.(O); ok {
				changed(before, nil, false)
			}
		},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("watching objects of type %T: %w", O(nil), err)
	}
	return handle.HasSynced, func() { _ = informer.RemoveEventHandler(handle) }, nil // It fails only for an informer that has ended.
}
