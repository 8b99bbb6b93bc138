package policies

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

// Names of cache indexes.
const (
	// indexOverrides finds policies by the override policies that they depend on.
	indexOverrides = "propagate.overrides"
	// indexClaim finds bindings by the policy that claims them.
	indexClaim = "propagate.claim"
)

// Indexes registers the cache indexes of this package.
func Indexes(ctx context.Context, indexer client.FieldIndexer) error {
	for _, index := range []struct {
		object  client.Object
		name    string
		extract client.IndexerFunc
	}{
		{&policyv1alpha1.PropagationPolicy{}, indexOverrides, dependentOverrides},
		{&policyv1alpha1.ClusterPropagationPolicy{}, indexOverrides, dependentOverrides},
		{&workv1alpha2.ResourceBinding{}, indexClaim, claims},
		{&workv1alpha2.ClusterResourceBinding{}, indexClaim, claims},
	} {
		if err := indexer.IndexField(ctx, index.object, index.name, index.extract); err != nil {
			return fmt.Errorf("indexing %T by %s: %w", index.object, index.name, err)
		}
	}
	return nil
}

func dependentOverrides(obj client.Object) []string {
	return obj.(policyv1alpha1.Propagation).PropagationSpec().DependentOverrides
}

func claims(obj client.Object) []string {
	if claim := policy.ClaimOn(obj); claim != (policy.Claim{}) {
		return []string{claim.Policy.String()}
	}
	return nil
}

// DependingOnOverride lists the policies that depend on an override policy.
func DependingOnOverride(ctx context.Context, reader client.Reader, override policy.Key) ([]policy.Key, error) {
	found, err := hubclient.Propagations(ctx, reader, override.Namespace, client.MatchingFields{indexOverrides: override.Name})
	var keys []policy.Key
	for _, propagation := range found {
		if propagation.GetNamespace() == override.Namespace {
			keys = append(keys, policy.KeyOf(propagation))
		}
	}
	return keys, err
}

// boundBy lists the templates whose bindings a policy claims. Bindings that are being deleted do not count: no policy owns them
// any more, and they may wait for a member for long.
func boundBy(ctx context.Context, reader client.Reader, key policy.Key) ([]hubstore.Ref, error) {
	found, err := hubclient.Bindings(ctx, reader, client.MatchingFields{indexClaim: key.String()}, client.InNamespace(key.Namespace))
	if err != nil {
		return nil, fmt.Errorf("finding what %s claims: %w", key, err)
	}
	var refs []hubstore.Ref
	for _, binding := range found {
		if binding.GetDeletionTimestamp() == nil {
			refs = append(refs, hubstore.TemplateOf(binding.BindingSpec()))
		}
	}
	return refs, nil
}
