package hubclient

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

// indexSelects finds propagation policies by what they select.
const indexSelects = "policy.selects"

// IndexPolicies registers the cache index that [Policies] reads.
func IndexPolicies(ctx context.Context, indexer client.FieldIndexer) error {
	for _, object := range []client.Object{&policyv1alpha1.PropagationPolicy{}, &policyv1alpha1.ClusterPropagationPolicy{}} {
		err := indexer.IndexField(ctx, object, indexSelects, func(obj client.Object) []string {
			return policy.IndexKeys(obj.(policyv1alpha1.Propagation))
		})
		if err != nil {
			return fmt.Errorf("indexing %T: %w", object, err)
		}
	}
	return nil
}

// Policies reads propagation policies of both scopes from a cache that has the index of [IndexPolicies]. What it returns is shared
// with the cache and must not be changed.
type Policies struct{ Reader client.Reader }

// Get reads one policy; it is nil if there is none.
func (p Policies) Get(ctx context.Context, key policy.Key) (policyv1alpha1.Propagation, error) {
	var found policyv1alpha1.Propagation = &policyv1alpha1.PropagationPolicy{}
	if key.Namespace == "" {
		found = &policyv1alpha1.ClusterPropagationPolicy{}
	}
	err := p.Reader.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name}, found, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", key, err)
	}
	return found, nil
}

// Selecting lists the policies that may select an object, by its name or without one.
func (p Policies) Selecting(ctx context.Context, subject policy.Subject) ([]policyv1alpha1.Propagation, error) {
	named, err := p.Naming(ctx, subject)
	if err != nil {
		return nil, err
	}
	general, err := p.list(ctx, subject, policy.NameKey(subject.GroupVersionKind.GroupKind(), ""))
	if err != nil {
		return nil, err
	}
	// A policy with selectors of both forms is in both lists.
	seen := make(map[policy.Key]bool, len(named))
	for _, found := range named {
		seen[policy.KeyOf(found)] = true
	}
	for _, found := range general {
		if !seen[policy.KeyOf(found)] {
			named = append(named, found)
		}
	}
	return named, nil
}

// Naming lists the policies that may select an object by its name.
func (p Policies) Naming(ctx context.Context, subject policy.Subject) ([]policyv1alpha1.Propagation, error) {
	return p.list(ctx, subject, policy.NameKey(subject.GroupVersionKind.GroupKind(), subject.Name))
}

// OfKind lists all policies for the kind of an object, those that name other objects included.
func (p Policies) OfKind(ctx context.Context, subject policy.Subject) ([]policyv1alpha1.Propagation, error) {
	return p.list(ctx, subject, subject.GroupVersionKind.GroupKind().String())
}

func (p Policies) list(ctx context.Context, subject policy.Subject, key string) ([]policyv1alpha1.Propagation, error) {
	return Propagations(ctx, p.Reader, subject.Namespace, client.MatchingFields{indexSelects: key})
}

// Choose returns which policy an object that belongs to none belongs to, and why each other policy lost.
func (p Policies) Choose(ctx context.Context, subject policy.Subject) (policy.Decision, error) {
	candidates, err := p.Selecting(ctx, subject)
	if err != nil {
		return policy.Decision{}, err
	}
	return policy.Choose(subject, candidates), nil
}

// Holder returns the policy that a claim names, nil if it is void: its policy is gone, on its way out, or another one of the same name.
func (p Policies) Holder(ctx context.Context, claim policy.Claim) (policyv1alpha1.Propagation, error) {
	if claim == (policy.Claim{}) || claim.Policy.Name == "" {
		return nil, nil
	}
	propagation, err := p.Get(ctx, claim.Policy)
	if err != nil || propagation == nil || propagation.GetDeletionTimestamp() != nil {
		return nil, err
	}
	if propagation.GetLabels()[propagation.PermanentIDLabel()] != claim.ID {
		return nil, nil
	}
	return propagation, nil
}
