package propagate

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate/dependencies"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate/policies"
)

// Indexes registers the cache indexes of this package and those of [hubclient.Policies].
func Indexes(ctx context.Context, indexer client.FieldIndexer) error {
	for _, index := range []struct {
		object  client.Object
		name    string
		extract client.IndexerFunc
	}{
		{&workv1alpha2.ResourceBinding{}, dependencies.Index, dependencies.IndexValues},
		{&workv1alpha2.ClusterResourceBinding{}, dependencies.Index, dependencies.IndexValues},
	} {
		if err := indexer.IndexField(ctx, index.object, index.name, index.extract); err != nil {
			return fmt.Errorf("indexing %T by %s: %w", index.object, index.name, err)
		}
	}
	if err := policies.Indexes(ctx, indexer); err != nil {
		return err
	}
	return hubclient.IndexPolicies(ctx, indexer)
}
