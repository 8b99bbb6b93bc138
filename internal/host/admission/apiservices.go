package admission

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"
)

// APIServicesName is the name of APIServices in the admission chain.
const APIServicesName = "FlagshipAPIServices"

// APIServices keeps the registrations of what the control plane serves itself apart from APIServices that users propagate: neither
// becomes the other, and no group version has both.
type APIServices struct {
	// propagated returns whether there is an APIService of a user for a group version.
	propagated func(context.Context, schema.GroupVersion) (bool, error)
}

var _ admission.ValidationInterface = &APIServices{}

// NewAPIServices makes the plugin. The function reads from the API server, which starts later.
func NewAPIServices(propagated func(context.Context, schema.GroupVersion) (bool, error)) *APIServices {
	return &APIServices{propagated}
}

// Handles implements admission.Interface.
func (*APIServices) Handles(operation admission.Operation) bool {
	return operation == admission.Create || operation == admission.Update || operation == admission.Delete
}

// Validate refuses an APIService or a definition of a user.
func (p *APIServices) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" || ofControlPlane(a) {
		return nil
	}
	if definition, ok := a.GetObject().(*apiextensions.CustomResourceDefinition); ok {
		return p.definition(ctx, a, definition)
	}
	object, written := a.GetObject().(*apiregistration.APIService)
	old, stored := a.GetOldObject().(*apiregistration.APIService)
	switch {
	case stored && registered(old):
		if written && registered(object) && reflect.DeepEqual(object.Spec, old.Spec) {
			return nil
		}
		return admission.NewForbidden(a, fmt.Errorf("the control plane serves %s/%s itself and keeps its own registration. To have this APIService in members, put it into a Work for each of them, or apply it there",
			old.Spec.Group, old.Spec.Version))
	case !written:
		return nil
	case registered(object):
		return invalid(a.GetKind().GroupKind(), a.GetName(), field.ErrorList{field.Forbidden(field.NewPath("metadata", "labels").Key(autoregister.AutoRegisterManagedLabel),
			"only an API server sets it")})
	case object.Spec.Service == nil:
		return invalid(a.GetKind().GroupKind(), a.GetName(), field.ErrorList{field.Required(field.NewPath("spec", "service"),
			"each API server registers what it serves itself: only an APIService with a Service is sent to members")})
	}
	return nil
}

// registered returns whether an API server made an APIService for what it serves.
func registered(object *apiregistration.APIService) bool {
	_, ok := object.Labels[autoregister.AutoRegisterManagedLabel]
	return ok
}

// definition refuses new versions that an APIService of a user names: the control plane could not register them.
func (p *APIServices) definition(ctx context.Context, a admission.Attributes, definition *apiextensions.CustomResourceDefinition) error {
	before := map[string]bool{}
	if old, ok := a.GetOldObject().(*apiextensions.CustomResourceDefinition); ok {
		for _, version := range old.Spec.Versions {
			before[version.Name] = version.Served
		}
	}
	for i, version := range definition.Spec.Versions {
		if !version.Served || before[version.Name] {
			continue
		}
		gv := schema.GroupVersion{Group: definition.Spec.Group, Version: version.Name}
		taken, err := p.propagated(ctx, gv)
		if err != nil {
			return apierrors.NewServiceUnavailable(fmt.Sprintf("it is not known yet whether an APIService names %s: %v", gv, err))
		}
		if taken {
			return invalid(a.GetKind().GroupKind(), a.GetName(), field.ErrorList{field.Invalid(field.NewPath("spec", "versions").Index(i).Child("name"), version.Name,
				fmt.Sprintf("APIService %s.%s, which is sent to members, names the same group and version: delete it first, or do not serve this version", gv.Version, gv.Group))})
		}
	}
	return nil
}
