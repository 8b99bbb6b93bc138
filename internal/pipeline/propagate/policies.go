package propagate

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

// Names of cache indexes.
const (
	// indexSelects finds policies by what they select, in whatever version:
	// "Deployment.apps|web" for one name, "Deployment.apps|" for any,
	// "Deployment.apps" for both.
	indexSelects = "propagate.selects"
	// indexAwaits finds policies by an override policy they wait for.
	indexAwaits = "propagate.awaits"
	// indexClaim finds bindings by the policy that claims them.
	indexClaim = "propagate.claim"
)

// Indexes registers the cache indexes of this room.
func Indexes(ctx context.Context, indexer client.FieldIndexer) error {
	for _, index := range []struct {
		object  client.Object
		name    string
		extract client.IndexerFunc
	}{
		{&policyv1alpha1.PropagationPolicy{}, indexSelects, selections},
		{&policyv1alpha1.ClusterPropagationPolicy{}, indexSelects, selections},
		{&policyv1alpha1.PropagationPolicy{}, indexAwaits, awaited},
		{&policyv1alpha1.ClusterPropagationPolicy{}, indexAwaits, awaited},
		{&workv1alpha2.ResourceBinding{}, indexClaim, claims},
		{&workv1alpha2.ClusterResourceBinding{}, indexClaim, claims},
		{&workv1alpha2.ResourceBinding{}, indexDepends, dependsOn},
		{&workv1alpha2.ClusterResourceBinding{}, indexDepends, dependsOn},
	} {
		if err := indexer.IndexField(ctx, index.object, index.name, index.extract); err != nil {
			return fmt.Errorf("indexing %T by %s: %w", index.object, index.name, err)
		}
	}
	return nil
}

func selections(obj client.Object) []string {
	return policy.IndexKeys(obj.(policyv1alpha1.Propagation))
}

func awaited(obj client.Object) []string {
	return obj.(policyv1alpha1.Propagation).PropagationSpec().DependentOverrides
}

func claims(obj client.Object) []string {
	if claim := policy.ClaimOn(obj); claim != (policy.Claim{}) {
		return []string{claim.Policy.String()}
	}
	return nil
}

// policySource reads policies from the cache.
type policySource struct{ reader client.Reader }

// get reads one policy; it is nil if there is none. The policy is shared with
// the cache and must not be changed.
func (s policySource) get(ctx context.Context, key policy.Key) (policyv1alpha1.Propagation, error) {
	var propagation policyv1alpha1.Propagation = &policyv1alpha1.PropagationPolicy{}
	if key.Namespace == "" {
		propagation = &policyv1alpha1.ClusterPropagationPolicy{}
	}
	err := s.reader.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name}, propagation.(client.Object))
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", key, err)
	}
	return propagation, nil
}

// selecting lists the policies that may select a template, by its name or
// without one.
func (s policySource) selecting(ctx context.Context, ref hubstore.Ref) ([]policyv1alpha1.Propagation, error) {
	kind := selectionKind(ref.GroupVersionKind)
	named, err := s.list(ctx, ref.Namespace, kind+"|"+ref.Name)
	if err != nil {
		return nil, err
	}
	general, err := s.list(ctx, ref.Namespace, kind+"|")
	if err != nil {
		return nil, err
	}
	// A policy with selectors of both forms is in both lists.
	seen := make(map[policy.Key]bool, len(named))
	for _, propagation := range named {
		seen[policy.KeyOf(propagation)] = true
	}
	for _, propagation := range general {
		if !seen[policy.KeyOf(propagation)] {
			named = append(named, propagation)
		}
	}
	return named, nil
}

// aboutKind lists all policies for the kind of a template, those that name other
// objects included.
func (s policySource) aboutKind(ctx context.Context, ref hubstore.Ref) ([]policyv1alpha1.Propagation, error) {
	return s.list(ctx, ref.Namespace, selectionKind(ref.GroupVersionKind))
}

// naming lists the policies that select a template by its name.
func (s policySource) naming(ctx context.Context, ref hubstore.Ref) ([]policyv1alpha1.Propagation, error) {
	return s.list(ctx, ref.Namespace, selectionKind(ref.GroupVersionKind)+"|"+ref.Name)
}

func selectionKind(gvk schema.GroupVersionKind) string {
	return gvk.GroupKind().String()
}

// list reads an index of both kinds of policy; those of a namespace and the
// cluster-wide ones. The policies are shared with the cache.
func (s policySource) list(ctx context.Context, namespace, selection string) ([]policyv1alpha1.Propagation, error) {
	options := []client.ListOption{
		client.MatchingFields{indexSelects: selection}, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency,
	}
	var found []policyv1alpha1.Propagation
	if namespace != "" {
		var own policyv1alpha1.PropagationPolicyList
		if err := s.reader.List(ctx, &own, append(options, client.InNamespace(namespace))...); err != nil {
			return nil, fmt.Errorf("listing policies for %s: %w", selection, err)
		}
		for i := range own.Items {
			found = append(found, &own.Items[i])
		}
	}
	var wide policyv1alpha1.ClusterPropagationPolicyList
	if err := s.reader.List(ctx, &wide, options...); err != nil {
		return nil, fmt.Errorf("listing cluster policies for %s: %w", selection, err)
	}
	for i := range wide.Items {
		found = append(found, &wide.Items[i])
	}
	return found, nil
}

// waitsFor names the first of the override policies a policy depends on that is
// not there, or nothing. Those of a namespaced policy are in its namespace.
func (s policySource) waitsFor(ctx context.Context, propagation policyv1alpha1.Propagation) (string, error) {
	for _, name := range propagation.PropagationSpec().DependentOverrides {
		var override client.Object = &policyv1alpha1.OverridePolicy{}
		if propagation.GetNamespace() == "" {
			override = &policyv1alpha1.ClusterOverridePolicy{}
		}
		err := s.reader.Get(ctx, client.ObjectKey{Namespace: propagation.GetNamespace(), Name: name}, override)
		switch {
		case apierrors.IsNotFound(err):
			return name, nil
		case err != nil:
			return "", fmt.Errorf("reading dependent override %q: %w", name, err)
		}
	}
	return "", nil
}

// boundBy lists the templates whose bindings a policy claims. Bindings that are being deleted do not count: they are nobody's
// any more, and may wait for a member for long.
func (s policySource) boundBy(ctx context.Context, key policy.Key) ([]hubstore.Ref, error) {
	options := []client.ListOption{
		client.MatchingFields{indexClaim: key.String()}, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency,
	}
	var refs []hubstore.Ref
	add := func(binding workv1alpha2.Binding) {
		if binding.GetDeletionTimestamp() == nil {
			refs = append(refs, boundRef(binding))
		}
	}
	var namespaced workv1alpha2.ResourceBindingList
	if err := s.reader.List(ctx, &namespaced, append(options, client.InNamespace(key.Namespace))...); err != nil {
		return nil, fmt.Errorf("listing bindings of %s: %w", key, err)
	}
	for i := range namespaced.Items {
		add(&namespaced.Items[i])
	}
	if key.Namespace != "" {
		return refs, nil
	}
	var wide workv1alpha2.ClusterResourceBindingList
	if err := s.reader.List(ctx, &wide, options...); err != nil {
		return nil, fmt.Errorf("listing cluster bindings of %s: %w", key, err)
	}
	for i := range wide.Items {
		add(&wide.Items[i])
	}
	return refs, nil
}

// awaiting lists the policies that depend on an override policy.
func (s policySource) awaiting(ctx context.Context, override policyv1alpha1.Override) []policy.Key {
	options := []client.ListOption{
		client.MatchingFields{indexAwaits: override.GetName()}, client.UnsafeDisableDeepCopy,
		client.DisableReadYourWritesConsistency, client.InNamespace(override.GetNamespace()),
	}
	var keys []policy.Key
	if override.GetNamespace() == "" {
		var wide policyv1alpha1.ClusterPropagationPolicyList
		if err := s.reader.List(ctx, &wide, options...); err == nil {
			for i := range wide.Items {
				keys = append(keys, policy.KeyOf(&wide.Items[i]))
			}
		}
		return keys
	}
	var own policyv1alpha1.PropagationPolicyList
	if err := s.reader.List(ctx, &own, options...); err == nil {
		for i := range own.Items {
			keys = append(keys, policy.KeyOf(&own.Items[i]))
		}
	}
	return keys
}
