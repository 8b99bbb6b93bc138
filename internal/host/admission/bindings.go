package admission

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// BindingsName is the name of Bindings in the admission chain.
const BindingsName = "FlagshipBindings"

// Bindings makes sure that a binding names a template of its own namespace that its author may read: what a binding names is
// sent to members. What the control plane itself writes is not checked: it binds templates only.
type Bindings struct {
	excluded   func(kind schema.GroupVersionKind, namespace, name string) bool
	authorizer authorizer.UnconditionalAuthorizer
	mapper     meta.RESTMapper
}

var (
	_ admission.MutationInterface              = &Bindings{}
	_ admission.ValidationInterface            = &Bindings{}
	_ initializer.WantsUnconditionalAuthorizer = &Bindings{}
	_ initializer.WantsRESTMapper              = &Bindings{}
)

// NewBindings makes the plugin. Excluded returns whether an object is never a template; it is a function because package hubstore, which
// is not imported here, decides that.
func NewBindings(excluded func(kind schema.GroupVersionKind, namespace, name string) bool) *Bindings {
	return &Bindings{excluded: excluded}
}

// SetUnconditionalAuthorizer gives the plugin the API server's authorizer.
func (b *Bindings) SetUnconditionalAuthorizer(a authorizer.UnconditionalAuthorizer) { b.authorizer = a }

// SetRESTMapper gives the plugin the kinds that the API server serves.
func (b *Bindings) SetRESTMapper(m meta.RESTMapper) { b.mapper = m }

// ValidateInitialization makes sure that the API server gave the plugin what it needs.
func (b *Bindings) ValidateInitialization() error {
	if b.authorizer == nil || b.mapper == nil {
		return errors.New("the authorizer or the REST mapper is missing")
	}
	return nil
}

// Handles implements admission.Interface.
func (b *Bindings) Handles(operation admission.Operation) bool {
	return operation == admission.Create || operation == admission.Update
}

// Admit keeps the list of dependencies what the control plane made it: what is on it is sent to members.
func (b *Bindings) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	binding, ok := handMade(a)
	if !ok {
		return nil
	}
	var before string
	if old, ok := a.GetOldObject().(workv1alpha2.Binding); ok {
		before = old.GetAnnotations()[workv1alpha2.DependenciesAnnotation]
	}
	annotations := binding.GetAnnotations()
	if annotations[workv1alpha2.DependenciesAnnotation] == before {
		return nil
	}
	warning.AddWarning(ctx, "", fmt.Sprintf("the annotation %s is written by the control plane only and stays as it was", workv1alpha2.DependenciesAnnotation))
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[workv1alpha2.DependenciesAnnotation] = before
	if before == "" {
		delete(annotations, workv1alpha2.DependenciesAnnotation)
	}
	binding.SetAnnotations(annotations)
	return nil
}

// Validate refuses a binding that names what is not a template of its own namespace, or what its author may not read.
func (b *Bindings) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	binding, ok := handMade(a)
	if !ok {
		return nil
	}
	resource := binding.BindingSpec().Resource
	if old, ok := a.GetOldObject().(workv1alpha2.Binding); ok && sameTemplate(old.BindingSpec().Resource, resource) {
		return nil
	}
	kind := resource.GroupVersionKind()
	path := field.NewPath("spec", "resource")
	if problem := b.check(kind, binding, path); problem != nil {
		return invalid(a.GetKind().GroupKind(), a.GetName(), field.ErrorList{problem})
	}
	mapping, err := b.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	switch {
	case meta.IsNoMatchError(err):
		problem := field.Invalid(path.Child("kind"), resource.Kind, fmt.Sprintf("the control plane serves no such kind in %s", resource.APIVersion))
		return invalid(a.GetKind().GroupKind(), a.GetName(), field.ErrorList{problem})
	case err != nil:
		return apierrors.NewServiceUnavailable(fmt.Sprintf("the kinds of the control plane cannot be read: %v", err))
	case (mapping.Scope.Name() == meta.RESTScopeNameNamespace) != (binding.GetNamespace() != ""):
		problem := field.Invalid(path.Child("kind"), resource.Kind,
			"a ResourceBinding names an object of a namespace, a ClusterResourceBinding one that belongs to none")
		return invalid(a.GetKind().GroupKind(), a.GetName(), field.ErrorList{problem})
	}
	return b.authorize(ctx, a, mapping, resource)
}

// check refuses what no binding may name.
func (b *Bindings) check(kind schema.GroupVersionKind, binding workv1alpha2.Binding, path *field.Path) *field.Error {
	resource := binding.BindingSpec().Resource
	switch {
	case resource.Namespace != binding.GetNamespace() && binding.GetNamespace() == "":
		return field.Invalid(path.Child("namespace"), resource.Namespace, "must be empty: a ClusterResourceBinding names a cluster-scoped object")
	case resource.Namespace != binding.GetNamespace():
		return field.Invalid(path.Child("namespace"), resource.Namespace,
			fmt.Sprintf("must be %q: a ResourceBinding names an object of its own namespace", binding.GetNamespace()))
	case b.excluded(kind, resource.Namespace, resource.Name):
		return field.Forbidden(path, "objects of the control plane itself are never sent to members")
	}
	return nil
}

// authorize refuses a binding whose author may not read what it names. The answer does not depend on whether the object exists.
func (b *Bindings) authorize(ctx context.Context, a admission.Attributes, mapping *meta.RESTMapping, resource workv1alpha2.ObjectReference) error {
	decision, _, err := b.authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: a.GetUserInfo(), Verb: "get", ResourceRequest: true,
		APIGroup: mapping.Resource.Group, APIVersion: mapping.Resource.Version, Resource: mapping.Resource.Resource,
		Namespace: resource.Namespace, Name: resource.Name,
	})
	if decision == authorizer.DecisionAllow {
		return nil
	}
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("checking the right to get what spec.resource names: %w", err))
	}
	return admission.NewForbidden(a, fmt.Errorf("spec.resource: user %q may not get %s %q in namespace %q, which this binding would send to members",
		a.GetUserInfo().GetName(), mapping.Resource.GroupResource(), resource.Name, resource.Namespace))
}

// handMade is a binding that is written by another than the control plane.
func handMade(a admission.Attributes) (workv1alpha2.Binding, bool) {
	if a.GetSubresource() != "" || ofControlPlane(a) {
		return nil, false
	}
	binding, ok := a.GetObject().(workv1alpha2.Binding)
	return binding, ok
}

// ofControlPlane returns whether the control plane itself makes the request.
func ofControlPlane(a admission.Attributes) bool {
	return a.GetUserInfo() != nil && a.GetUserInfo().GetName() == user.APIServerUser
}

func sameTemplate(a, b workv1alpha2.ObjectReference) bool {
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Namespace == b.Namespace && a.Name == b.Name && a.UID == b.UID
}
