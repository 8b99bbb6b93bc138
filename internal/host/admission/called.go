package admission

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
)

// warnServices warns of webhooks at a Service that is not on the control plane: admission ones are called in members only, and without one
// for conversions an object has one version here.
func (p *Plugin) warnServices(ctx context.Context, object, old subject) {
	if p.Endpoints == nil {
		return
	}
	switch object := object.(type) {
	case *admissionregistration.ValidatingWebhookConfiguration:
		if before, ok := old.(*admissionregistration.ValidatingWebhookConfiguration); ok && reflect.DeepEqual(before.Webhooks, object.Webhooks) {
			return
		}
		for i := range object.Webhooks {
			p.warnAdmission(ctx, i, object.Webhooks[i].ClientConfig)
		}
	case *admissionregistration.MutatingWebhookConfiguration:
		if before, ok := old.(*admissionregistration.MutatingWebhookConfiguration); ok && reflect.DeepEqual(before.Webhooks, object.Webhooks) {
			return
		}
		for i := range object.Webhooks {
			p.warnAdmission(ctx, i, object.Webhooks[i].ClientConfig)
		}
	case *apiextensions.CustomResourceDefinition:
		before, ok := old.(*apiextensions.CustomResourceDefinition)
		if ok && reflect.DeepEqual(before.Spec.Conversion, object.Spec.Conversion) || object.Spec.Conversion == nil ||
			object.Spec.Conversion.WebhookClientConfig == nil || object.Spec.Conversion.WebhookClientConfig.Service == nil {
			return
		}
		service := object.Spec.Conversion.WebhookClientConfig.Service
		p.warnService(ctx, field.NewPath("spec", "conversion", "webhook"), service.Namespace, service.Name,
			fmt.Sprintf("the control plane stores version %s and can neither read nor take another one. Write objects in that version, or see docs/crds.md#conversion-webhooks", storedVersion(object)))
	}
}

// warnAdmission warns of the i-th webhook of a configuration.
func (p *Plugin) warnAdmission(ctx context.Context, i int, at admissionregistration.WebhookClientConfig) {
	if at.Service != nil {
		p.warnService(ctx, field.NewPath("webhooks").Index(i), at.Service.Namespace, at.Service.Name,
			"the webhook is not called here, only in members. For one that is called here, create an EndpointSlice of the Service, or use clientConfig.url")
	}
}

func (p *Plugin) warnService(ctx context.Context, path *field.Path, namespace, name, effect string) {
	if !p.Endpoints(ctx, namespace, name) {
		warning.AddWarning(ctx, "", fmt.Sprintf("%s: Service %s/%s has no EndpointSlice on the control plane: %s", path.Child("clientConfig", "service"), namespace, name, effect))
	}
}

func storedVersion(definition *apiextensions.CustomResourceDefinition) string {
	for _, version := range definition.Spec.Versions {
		if version.Storage {
			return version.Name
		}
	}
	return ""
}
