package propagate

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate/bindings"
)

// Recreates returns whether a binding that is deleted would be created again: its template exists, and a policy, a MultiClusterService or
// another template still takes the template to clusters. It needs the indexes that Setup adds. hasWorks is Deps.HasWorks.
func Recreates(reader client.Reader, templates Templates, hasWorks func(context.Context, client.ObjectKey) (bool, error)) func(context.Context, workv1alpha2.Binding) (bool, error) {
	p := &propagator{policies: hubclient.Policies{Reader: reader}, templates: templates, hasWorks: hasWorks}
	return func(ctx context.Context, binding workv1alpha2.Binding) (bool, error) {
		recreated, err := p.recreates(ctx, binding, maxChain)
		if err != nil || !recreated {
			return false, err
		}
		return p.exists(ctx, binding)
	}
}

// exists reads the template of a binding from the API server: the garbage collector deletes the binding of a template that was deleted,
// and may have seen that before the cache of templates.
func (p *propagator) exists(ctx context.Context, binding workv1alpha2.Binding) (bool, error) {
	template, err := p.templates.Get(ctx, hubstore.TemplateOf(binding.BindingSpec()).Canonical(p.templates))
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("making sure that the template exists: %w", err)
	}
	return template.GetDeletionTimestamp() == nil && template.GetUID() == binding.BindingSpec().Resource.UID, nil
}

// maxChain is how far recreates follows dependants of dependants, which may depend on each other in a circle.
const maxChain = 4

func (p *propagator) recreates(ctx context.Context, binding workv1alpha2.Binding, chain int) (bool, error) {
	ref := hubstore.TemplateOf(binding.BindingSpec()).Canonical(p.templates)
	if !bindings.IsNameOf(binding, ref) {
		return false, nil // made by hand: no controller creates it again
	}
	if p.templates.Deleted(binding.BindingSpec().Resource.UID) {
		return false, nil
	}
	meta, err := hubstore.Present(ctx, p.templates, ref)
	if err != nil || meta == nil || meta.UID != binding.BindingSpec().Resource.UID {
		return false, err
	}
	if ref.Namespace != "" { // the objects of a namespace that is being deleted go in any order
		if namespace, err := hubstore.Present(ctx, p.templates, hubstore.NamespaceRef(ref.Namespace)); err != nil || namespace == nil {
			return false, err
		}
	}
	if policy.OtherOwner(meta) != "" {
		return serviceStays(ctx, p.policies.Reader, meta)
	}
	holder, err := p.policies.Holder(ctx, policy.ClaimOn(meta))
	if err != nil || holder != nil {
		return holder != nil, err
	}
	dependants, err := p.dependants(ctx, p.subject(ref, meta))
	if err != nil || len(dependants) > 0 {
		return len(dependants) > 0, err
	}
	back, err := p.returning(ctx, binding, nil, chain)
	return len(back) > 0, err
}

// returning lists the dependants of a binding, which may be nil, that were deleted and will be created again: until they are,
// what they need stays where it is. Those in present are left out. A dependant that is being deleted returns if it is created again.
// One that does not exist returns if Works of it exist, since a binding that is deleted for good goes after its Works; its
// spec is what the binding recorded of it.
func (p *propagator) returning(ctx context.Context, binding workv1alpha2.Binding, present []workv1alpha2.Binding, chain int) ([]workv1alpha2.Binding, error) {
	if binding == nil || chain == 0 {
		return nil, nil
	}
	var found []workv1alpha2.Binding
	for _, snapshot := range binding.BindingSpec().RequiredBy {
		key := client.ObjectKey{Namespace: snapshot.Namespace, Name: snapshot.Name}
		if slices.ContainsFunc(present, func(b workv1alpha2.Binding) bool { return client.ObjectKeyFromObject(b) == key }) {
			continue
		}
		dependant := workv1alpha2.EmptyBinding(key.Namespace)
		err := p.policies.Reader.Get(ctx, key, dependant)
		returns := false
		switch {
		case apierrors.IsNotFound(err):
			if err = nil; p.hasWorks != nil {
				returns, err = p.hasWorks(ctx, key)
			}
			dependant = recorded(binding, snapshot)
		case err == nil && dependant.GetDeletionTimestamp() != nil:
			returns, err = p.recreates(ctx, dependant, chain-1)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the dependant %s: %w", key, err)
		}
		if returns {
			found = append(found, dependant)
		}
	}
	return found, nil
}

// recorded is a dependant as the binding of what it needs recorded it.
func recorded(binding workv1alpha2.Binding, snapshot workv1alpha2.BindingSnapshot) workv1alpha2.Binding {
	dependant := workv1alpha2.EmptyBinding(snapshot.Namespace)
	dependant.SetNamespace(snapshot.Namespace)
	dependant.SetName(snapshot.Name)
	id := binding.GetLabels()[workv1alpha2.DependedByLabel(snapshot.Namespace, snapshot.Name)]
	dependant.SetLabels(map[string]string{dependant.PermanentIDLabel(): id})
	spec := dependant.BindingSpec()
	spec.Clusters = snapshot.Clusters
	spec.ConflictResolution = binding.BindingSpec().ConflictResolution
	spec.PreserveResourcesOnDeletion = binding.BindingSpec().PreserveResourcesOnDeletion
	return dependant
}

// serviceStays returns whether the MultiClusterService that has a Service stays.
func serviceStays(ctx context.Context, reader client.Reader, service metav1.Object) (bool, error) {
	key := client.ObjectKey{
		Namespace: service.GetAnnotations()[networkingv1alpha1.MultiClusterServiceNamespaceLabel],
		Name:      service.GetAnnotations()[networkingv1alpha1.MultiClusterServiceNameLabel],
	}
	mcs := &networkingv1alpha1.MultiClusterService{}
	err := reader.Get(ctx, key, mcs)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading MultiClusterService %s: %w", key, err)
	}
	return mcs.DeletionTimestamp == nil, nil
}
