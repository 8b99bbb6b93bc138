package hubclient

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// The functions of this file list both scopes of a kind. They do not wait for the client's own writes. Objects from a cache are
// shared with it: they must not be changed.

// Bindings lists ResourceBindings and ClusterResourceBindings, or with a namespace among the options the ResourceBindings of it.
func Bindings(ctx context.Context, reader client.Reader, options ...client.ListOption) ([]workv1alpha2.Binding, error) {
	all := (&client.ListOptions{}).ApplyOptions(options)
	found, err := BindingsOfScope(ctx, reader, true, options...)
	if err != nil || all.Namespace != "" {
		return found, err
	}
	wide, err := BindingsOfScope(ctx, reader, false, options...)
	return append(found, wide...), err
}

// BindingsOfScope lists ResourceBindings, or ClusterResourceBindings.
func BindingsOfScope(ctx context.Context, reader client.Reader, namespaced bool, options ...client.ListOption) ([]workv1alpha2.Binding, error) {
	if namespaced {
		return list[workv1alpha2.Binding](ctx, reader, &workv1alpha2.ResourceBindingList{}, options)
	}
	return list[workv1alpha2.Binding](ctx, reader, &workv1alpha2.ClusterResourceBindingList{}, options)
}

// Propagations lists the policies that may select objects of a namespace: its PropagationPolicies and all
// ClusterPropagationPolicies. Without a namespace, for objects that have none, it lists the latter.
func Propagations(ctx context.Context, reader client.Reader, namespace string, options ...client.ListOption) ([]policyv1alpha1.Propagation, error) {
	return ofNamespace[policyv1alpha1.Propagation](ctx, reader, namespace, &policyv1alpha1.PropagationPolicyList{}, &policyv1alpha1.ClusterPropagationPolicyList{}, options)
}

// Overrides lists the policies that may select objects of a namespace: its OverridePolicies and all ClusterOverridePolicies.
// Without a namespace, for objects that have none, it lists the latter.
func Overrides(ctx context.Context, reader client.Reader, namespace string, options ...client.ListOption) ([]policyv1alpha1.Override, error) {
	return ofNamespace[policyv1alpha1.Override](ctx, reader, namespace, &policyv1alpha1.OverridePolicyList{}, &policyv1alpha1.ClusterOverridePolicyList{}, options)
}

// AllOverrides lists the override policies of all namespaces and the cluster-wide ones.
func AllOverrides(ctx context.Context, reader client.Reader, options ...client.ListOption) ([]policyv1alpha1.Override, error) {
	found, err := list[policyv1alpha1.Override](ctx, reader, &policyv1alpha1.OverridePolicyList{}, options)
	if err != nil {
		return nil, err
	}
	wide, err := Overrides(ctx, reader, "", options...)
	return append(found, wide...), err
}

func ofNamespace[T any](ctx context.Context, reader client.Reader, namespace string, own, wide client.ObjectList, options []client.ListOption) ([]T, error) {
	found, err := list[T](ctx, reader, wide, options)
	if err != nil || namespace == "" {
		return found, err
	}
	inside, err := list[T](ctx, reader, own, append([]client.ListOption{client.InNamespace(namespace)}, options...))
	return append(inside, found...), err
}

// list lists one kind as the interface of both scopes.
func list[T any](ctx context.Context, reader client.Reader, into client.ObjectList, options []client.ListOption) ([]T, error) {
	options = append([]client.ListOption{client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency}, options...)
	if err := reader.List(ctx, into, options...); err != nil {
		return nil, fmt.Errorf("listing %T: %w", into, err)
	}
	found := make([]T, 0, meta.LenList(into))
	err := meta.EachListItem(into, func(obj runtime.Object) error {
		found = append(found, obj.(T))
		return nil
	})
	return found, err
}
