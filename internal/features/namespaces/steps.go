package namespaces

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/fairqueue"
)

// Indexes registers the cache index of this package.
func Indexes(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &workv1alpha1.Work{}, indexNamespace, carriedNamespace); err != nil {
		return fmt.Errorf("indexing Works by namespace: %w", err)
	}
	return nil
}

// Steps returns the loop without a manager. Its owner adds each namespace that changes. The client needs the index of [Indexes].
func Steps(deps Deps) controlloop.Steps[Namespace] {
	all := func(q namespaceQueue) {
		for _, meta := range deps.Templates.List(namespaceKind, "", labels.Everything()) {
			fairqueue.Enqueue(q, soon, Namespace(meta.Name))
		}
	}
	return controlloop.Steps[Namespace]{
		Reconciler: &reconciler{client: deps.Client, templates: deps.Templates, events: deps.Events, newID: deps.NewID},
		Watches: []controlloop.Watch[Namespace]{
			controlloop.On(onCluster(all)), controlloop.On(onNamespaceOverride(all)), controlloop.On(onNamespaceWork(deps.Templates)),
		},
	}
}
