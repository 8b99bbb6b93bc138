package previews

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/preview/fields"
)

// fieldManager is that of "kubectl apply" on the client's side.
const fieldManager = "kubectl-client-side-apply"

// dryRun is the requests that "kubectl apply" and "kubectl delete" make, as their author and without effect: the control plane
// authorizes, completes and refuses them as it would without the dry run. It is the preview.Admission of a control plane.
type dryRun struct {
	client dynamic.Interface
	mapper meta.RESTMapper
}

// resource finds where objects of a kind are. A kind that is not served is a NotFound.
func (d dryRun) resource(kind schema.GroupVersionKind, namespace string) (dynamic.ResourceInterface, error) {
	mapping, err := d.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return nil, apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, "",
			fmt.Sprintf("the control plane serves no %s of %s", kind.Kind, kind.GroupVersion()), 0, true)
	}
	if err != nil {
		return nil, fmt.Errorf("finding the resource of %s: %w", kind, err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if namespace == "" {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("a %s needs metadata.namespace", kind.Kind))
		}
		return d.client.Resource(mapping.Resource).Namespace(namespace), nil
	}
	return d.client.Resource(mapping.Resource), nil
}

// Namespaced implements preview.Admission.
func (d dryRun) Namespaced(kind schema.GroupVersionKind) bool {
	mapping, err := d.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	return err == nil && mapping.Scope.Name() == meta.RESTScopeNameNamespace
}

// Apply implements preview.Admission.
func (d dryRun) Apply(ctx context.Context, manifest *unstructured.Unstructured) (before, after *unstructured.Unstructured, err error) {
	resource, err := d.resource(manifest.GroupVersionKind(), manifest.GetNamespace())
	if err != nil {
		return nil, nil, err
	}
	before, err = resource.Get(ctx, manifest.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		after, err = resource.Create(ctx, manifest, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: fieldManager})
		return nil, after, err
	}
	if err != nil {
		return nil, nil, err
	}
	patch, kind, err := fields.ThreeWay(before, manifest)
	if err != nil {
		return nil, nil, err
	}
	after, err = resource.Patch(ctx, manifest.GetName(), kind, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: fieldManager})
	return before, after, err
}

// Delete implements preview.Admission.
func (d dryRun) Delete(ctx context.Context, id fleetv1alpha1.ObjectIdentity) (*unstructured.Unstructured, error) {
	resource, err := d.resource(schema.FromAPIVersionAndKind(id.APIVersion, id.Kind), id.Namespace)
	if err != nil {
		return nil, err
	}
	before, err := resource.Get(ctx, id.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return before, resource.Delete(ctx, id.Name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
}
