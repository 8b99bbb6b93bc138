package imports

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
)

// importFeed has the imports of the control plane, and its namespaces, as a source. Nothing is looked at before both are
// known: what a user made wins over what is exported.
type importFeed struct {
	templates Templates
	changed   func(context.Context, types.NamespacedName, endpointslices.Queue)
	space     func(ctx context.Context, namespace string, q endpointslices.Queue)
}

// Start implements source.Source.
func (f *importFeed) Start(ctx context.Context, q endpointslices.Queue) error {
	f.templates.Subscribe(func(ref hubstore.Ref) {
		switch ref.GroupVersionKind {
		case importKind:
			f.changed(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, q)
		case namespaceKind:
			f.space(ctx, ref.Name, q)
		}
	})
	return nil
}

// WaitForSync implements source.SyncingSource.
func (f *importFeed) WaitForSync(ctx context.Context) error { return f.templates.WaitForSync(ctx) }

// spaceFeed has the namespaces of members as a source of several loops.
type spaceFeed struct {
	mu        sync.Mutex
	listeners []func(namespace string)
}

func (f *spaceFeed) tell(namespace string) {
	if namespace == "" {
		namespace = exportwork.AllNamespaces
	}
	f.mu.Lock()
	listeners := f.listeners
	f.mu.Unlock()
	for _, listen := range listeners {
		listen(namespace)
	}
}

func (f *spaceFeed) source(add func(context.Context, string, endpointslices.Queue)) source.Source {
	return source.Func(func(ctx context.Context, q endpointslices.Queue) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.listeners = append(f.listeners, func(namespace string) { add(ctx, namespace, q) })
		return nil
	})
}
