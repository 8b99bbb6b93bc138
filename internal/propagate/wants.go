package propagate

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/template"
)

// Wants says whether a binding that is deleted would be created again: its template exists, and a policy, a
// MultiClusterService or another template still takes the template to clusters. It needs the indexes that Setup adds.
func Wants(reader client.Reader, templates Templates) func(context.Context, workv1alpha2.Binding) (bool, error) {
	p := &propagator{policies: policySource{reader}, templates: templates}
	return func(ctx context.Context, binding workv1alpha2.Binding) (bool, error) {
		return p.wants(ctx, reader, binding)
	}
}

func (p *propagator) wants(ctx context.Context, reader client.Reader, binding workv1alpha2.Binding) (bool, error) {
	ref := canonicalRef(p.templates, boundRef(binding))
	if !isNameOf(binding, ref) {
		return false, nil // made by hand: nobody would create it again
	}
	meta, err := presentMeta(ctx, p.templates, ref)
	if err != nil || meta == nil || meta.UID != binding.BindingSpec().Resource.UID {
		return false, err
	}
	if ref.Namespace != "" { // the objects of a namespace that is being deleted go in any order
		if namespace, err := presentMeta(ctx, p.templates, Namespace(ref.Namespace).ref()); err != nil || namespace == nil {
			return false, err
		}
	}
	if ownerKind(meta) != "" {
		return serviceWants(ctx, reader, meta)
	}
	holder, err := p.holder(ctx, ClaimOn(meta))
	if err != nil || holder != nil {
		return holder != nil, err
	}
	dependants, err := p.dependants(ctx, p.subject(ref, meta))
	return len(dependants) > 0, err
}

// isNameOf says that a binding is where the binding of a template may be.
func isNameOf(binding workv1alpha2.Binding, ref template.Ref) bool {
	key := client.ObjectKeyFromObject(binding.(client.Object))
	return key == bindingKey(ref) || key == alternativeKey(ref)
}

// presentMeta is the metadata of a template; nil if it does not exist or is being deleted. The API server is asked about
// one that memory does not have, so that a start never costs a running copy.
func presentMeta(ctx context.Context, templates Templates, ref template.Ref) (*metav1.PartialObjectMetadata, error) {
	meta, ok := templates.Meta(ref)
	if !ok {
		obj, err := templates.Get(ctx, ref)
		if err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		meta = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			UID: obj.GetUID(), Name: obj.GetName(), Namespace: obj.GetNamespace(), DeletionTimestamp: obj.GetDeletionTimestamp(),
			Labels: obj.GetLabels(), Annotations: obj.GetAnnotations(),
		}}
	}
	if meta.DeletionTimestamp != nil {
		return nil, nil
	}
	return meta, nil
}

// Exists says whether a template exists and is not being deleted.
func Exists(templates Templates) func(context.Context, template.Ref) (bool, error) {
	return func(ctx context.Context, ref template.Ref) (bool, error) {
		meta, err := presentMeta(ctx, templates, ref)
		return meta != nil, err
	}
}

// serviceWants says whether the MultiClusterService that has a Service stays.
func serviceWants(ctx context.Context, reader client.Reader, service metav1.Object) (bool, error) {
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

// Carries says whether a Work carries a namespace that goes to every cluster: it would be created again.
func Carries(templates Templates) func(context.Context, *workv1alpha1.Work) (bool, error) {
	return func(ctx context.Context, work *workv1alpha1.Work) (bool, error) {
		name := work.Annotations[workv1alpha1.CarriedNamespaceAnnotation]
		if name == "" || work.Name != workv1alpha1.WorkName(namespaceKind.Kind, "", name) {
			return false, nil
		}
		meta, err := presentMeta(ctx, templates, Namespace(name).ref())
		return meta != nil && travels(meta), err
	}
}
