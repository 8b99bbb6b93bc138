package history

import (
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/history"
	"github.com/flagship-k8s/flagship/internal/knowledge/override"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

// facts are what a state is made of. Without a binding, the template is not propagated.
type facts struct {
	template *unstructured.Unstructured
	binding  workv1alpha2.Binding
	state    history.State
}

// present reads the state as it is now.
func (k *Keeper) present(ctx context.Context, ref hubstore.Ref) (*facts, error) {
	now := &facts{}
	var err error
	if now.template, err = k.Templates.Get(ctx, ref); err != nil {
		return nil, err
	}
	if now.binding, err = k.binding(ctx, ref); err != nil || now.binding == nil {
		return now, err
	}
	propagation, err := hubclient.Policies{Reader: k.Client}.Get(ctx, policy.ClaimOn(now.binding).Policy)
	if err != nil {
		return nil, err
	}
	overrides, err := hubclient.Overrides(ctx, k.Client, ref.Namespace)
	if err != nil {
		return nil, err
	}
	return now, now.complete(ref, propagation, overrides)
}

// past reads the state as of a revision of the storage, and its policies and targets as of another one. The errors of missing and of
// expired versions are those of the API server.
func (k *Keeper) past(ctx context.Context, ref hubstore.Ref, templateAsOf, asOf uint64) (*facts, error) {
	then := &facts{}
	var err error
	if then.template, err = k.Templates.GetAt(ctx, ref, strconv.FormatUint(templateAsOf, 10)); err != nil {
		return nil, err
	}
	if then.binding, err = k.bindingAt(ctx, ref, strconv.FormatUint(asOf, 10)); err != nil {
		return nil, err
	}
	claim := policy.ClaimOn(then.template) // a deleted namespace may lose the binding first
	if then.binding != nil {
		claim = policy.ClaimOn(then.binding)
	}
	propagation, err := k.policyAt(ctx, claim.Policy, asOf)
	if err != nil {
		return nil, err
	}
	overrides, err := k.overridesAt(ctx, ref.Namespace, asOf)
	if err != nil {
		return nil, err
	}
	return then, then.complete(ref, propagation, overrides)
}

// complete makes the state of what was read.
func (f *facts) complete(ref hubstore.Ref, propagation policyv1alpha1.Propagation, overrides []policyv1alpha1.Override) error {
	var rule map[string]any
	var err error
	if propagation != nil {
		kind := policyv1alpha1.KindClusterPropagationPolicy
		if propagation.GetNamespace() != "" {
			kind = policyv1alpha1.KindPropagationPolicy
		}
		if rule, err = manifest(propagation, kind); err != nil {
			return err
		}
	}
	var rules []map[string]any
	for _, o := range overrides {
		if override.Selects(o, targetOf(ref, f.template.GetLabels())) == override.Unselected {
			continue
		}
		kind := policyv1alpha1.KindClusterOverridePolicy
		if o.GetNamespace() != "" {
			kind = policyv1alpha1.KindOverridePolicy
		}
		found, err := manifest(o, kind)
		if err != nil {
			return err
		}
		rules = append(rules, found)
	}
	var clusters []fleetv1alpha1.RevisionCluster
	if f.binding == nil {
		f.state = history.StateOf(f.template.Object, rule, rules, nil)
		return nil
	}
	for _, target := range f.binding.BindingSpec().Clusters {
		clusters = append(clusters, fleetv1alpha1.RevisionCluster{Name: target.Name, Replicas: target.Replicas})
	}
	f.state = history.StateOf(f.template.Object, rule, rules, clusters)
	return nil
}

// manifest is a policy as an object without a Go type.
func manifest(object any, kind string) (map[string]any, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("converting a %s: %w", kind, err)
	}
	fields["apiVersion"], fields["kind"] = policyv1alpha1.GroupVersion.String(), kind
	return fields, nil
}

// bindingKeys are where the binding of a template may be.
func bindingKeys(ref hubstore.Ref) []client.ObjectKey {
	return []client.ObjectKey{
		{Namespace: ref.Namespace, Name: workv1alpha2.BindingName(ref.GroupVersionKind.Kind, ref.Name)},
		{Namespace: ref.Namespace, Name: workv1alpha2.AlternativeBindingName(ref.GroupVersionKind.GroupKind(), ref.Namespace, ref.Name)},
	}
}

func isBindingOf(binding workv1alpha2.Binding, ref hubstore.Ref) bool {
	of := hubstore.TemplateOf(binding.BindingSpec())
	return of.GroupVersionKind.GroupKind() == ref.GroupVersionKind.GroupKind() && of.Name == ref.Name && of.Namespace == ref.Namespace
}

// binding reads the binding of a template, nil if there is none.
func (k *Keeper) binding(ctx context.Context, ref hubstore.Ref) (workv1alpha2.Binding, error) {
	for _, key := range bindingKeys(ref) {
		binding := workv1alpha2.EmptyBinding(ref.Namespace)
		err := k.Client.Get(ctx, key, binding.(client.Object))
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("reading binding %s: %w", key, err)
		}
		if isBindingOf(binding, ref) {
			return binding, nil
		}
	}
	return nil, nil
}

// bindingAt reads the binding of a template as of a revision of the storage, nil if there was none.
func (k *Keeper) bindingAt(ctx context.Context, ref hubstore.Ref, version string) (workv1alpha2.Binding, error) {
	for _, key := range bindingKeys(ref) {
		var list client.ObjectList = &workv1alpha2.ResourceBindingList{}
		if ref.Namespace == "" {
			list = &workv1alpha2.ClusterResourceBindingList{}
		}
		if err := k.listAt(ctx, list, version, client.InNamespace(key.Namespace), client.MatchingFields{metav1.ObjectNameField: key.Name}); err != nil {
			return nil, err
		}
		found, err := itemsOf[workv1alpha2.Binding](list)
		if err != nil {
			return nil, err
		}
		if len(found) == 1 && isBindingOf(found[0], ref) {
			return found[0], nil
		}
	}
	return nil, nil
}

// policyAt reads a policy as of a revision of the storage, nil if there was none. The cached one is read if it is that old.
func (k *Keeper) policyAt(ctx context.Context, key policy.Key, asOf uint64) (policyv1alpha1.Propagation, error) {
	if key.Name == "" {
		return nil, nil
	}
	cached, err := hubclient.Policies{Reader: k.Client}.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if cached != nil {
		if version, err := strconv.ParseUint(cached.GetResourceVersion(), 10, 64); err == nil && version <= asOf {
			return cached, nil
		}
	}
	var list client.ObjectList = &policyv1alpha1.PropagationPolicyList{}
	if key.Namespace == "" {
		list = &policyv1alpha1.ClusterPropagationPolicyList{}
	}
	options := []client.ListOption{client.InNamespace(key.Namespace), client.MatchingFields{metav1.ObjectNameField: key.Name}}
	if err := k.listAt(ctx, list, strconv.FormatUint(asOf, 10), options...); err != nil {
		return nil, err
	}
	found, err := itemsOf[policyv1alpha1.Propagation](list)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// overridesAt lists the override policies as of a revision of the storage. The cached ones are read if none changed since.
func (k *Keeper) overridesAt(ctx context.Context, namespace string, asOf uint64) ([]policyv1alpha1.Override, error) {
	k.mu.Lock()
	changed := k.overrides
	k.mu.Unlock()
	if changed <= asOf {
		return hubclient.Overrides(ctx, k.Client, namespace)
	}
	version := strconv.FormatUint(asOf, 10)
	wide := &policyv1alpha1.ClusterOverridePolicyList{}
	if err := k.listAt(ctx, wide, version); err != nil {
		return nil, err
	}
	found, err := itemsOf[policyv1alpha1.Override](wide)
	if err != nil || namespace == "" {
		return found, err
	}
	own := &policyv1alpha1.OverridePolicyList{}
	if err := k.listAt(ctx, own, version, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	inside, err := itemsOf[policyv1alpha1.Override](own)
	return append(inside, found...), err
}

// listAt lists objects as of a revision of the storage.
func (k *Keeper) listAt(ctx context.Context, list client.ObjectList, version string, options ...client.ListOption) error {
	exact := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchExact}}
	if err := k.Live.List(ctx, list, append([]client.ListOption{exact}, options...)...); err != nil {
		return fmt.Errorf("listing %T at %s: %w", list, version, err)
	}
	return nil
}

// itemsOf returns the items of a list as the interface of both scopes.
func itemsOf[T any](list client.ObjectList) ([]T, error) {
	var found []T
	err := meta.EachListItem(list, func(item runtime.Object) error {
		found = append(found, item.(T))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the items of %T: %w", list, err)
	}
	return found, nil
}
