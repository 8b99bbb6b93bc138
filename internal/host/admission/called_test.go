package admission_test

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kadmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"

	"github.com/flagship-k8s/flagship/internal/host/admission"
)

func TestWebhooksOfServicesThatAreNotHereWarn(t *testing.T) {
	const (
		missing = ".clientConfig.service: Service mon/hook has no EndpointSlice on the control plane: "
		admits  = missing + "the webhook is not called here, only in members. For one that is called here, create an EndpointSlice of the Service, or use clientConfig.url"
		stored  = "spec.conversion.webhook" + missing + "the control plane stores version v1 and can neither read nor take another one. Write objects in that version, or see docs/crds.md#conversion-webhooks"
	)
	at := func(namespace string) *admissionregistration.ServiceReference {
		return &admissionregistration.ServiceReference{Namespace: namespace, Name: "hook"}
	}
	url := "https://hook.example.com"
	validating := &admissionregistration.ValidatingWebhookConfiguration{Webhooks: []admissionregistration.ValidatingWebhook{
		{ClientConfig: admissionregistration.WebhookClientConfig{URL: &url}}, {ClientConfig: admissionregistration.WebhookClientConfig{Service: at("mon")}},
	}}
	mutating := &admissionregistration.MutatingWebhookConfiguration{Webhooks: []admissionregistration.MutatingWebhook{
		{ClientConfig: admissionregistration.WebhookClientConfig{Service: at("mon")}},
	}}
	here := &admissionregistration.MutatingWebhookConfiguration{Webhooks: []admissionregistration.MutatingWebhook{
		{ClientConfig: admissionregistration.WebhookClientConfig{Service: at("here")}},
	}}
	definition := &apiextensions.CustomResourceDefinition{Spec: apiextensions.CustomResourceDefinitionSpec{
		Versions: []apiextensions.CustomResourceDefinitionVersion{{Name: "v1beta1"}, {Name: "v1", Storage: true}},
		Conversion: &apiextensions.CustomResourceConversion{WebhookClientConfig: &apiextensions.WebhookClientConfig{
			Service: &apiextensions.ServiceReference{Namespace: "mon", Name: "hook"},
		}},
	}}
	for name, tc := range map[string]struct {
		object, old runtime.Object
		want        []string
	}{
		"validating":                   {validating, nil, []string{"webhooks[1]" + admits}},
		"validating, unchanged":        {validating, validating, nil},
		"mutating":                     {mutating, nil, []string{"webhooks[0]" + admits}},
		"mutating, unchanged":          {mutating, mutating, nil},
		"mutating, another before":     {mutating, here, []string{"webhooks[0]" + admits}},
		"a Service that is here":       {here, nil, nil},
		"conversion":                   {definition, nil, []string{stored}},
		"conversion, unchanged":        {definition, definition, nil},
		"a definition without any":     {&apiextensions.CustomResourceDefinition{}, nil, nil},
		"something that is no webhook": {object(t, "{apiVersion: v1, kind: ConfigMap}"), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got recorder
			plugin := admission.New(admission.Config{
				Never:     func(schema.GroupVersionKind, string, string) bool { return false },
				Endpoints: func(_ context.Context, namespace, _ string) bool { return namespace == "here" },
			})
			operation := kadmission.Create
			if tc.old != nil {
				operation = kadmission.Update
			}
			err := plugin.Validate(warning.WithWarningRecorder(t.Context(), &got), kadmission.NewAttributesRecord(tc.object, tc.old, schema.GroupVersionKind{Kind: "X"}, "", "x",
				schema.GroupVersionResource{}, "", operation, &metav1.CreateOptions{}, false, nil), nil)
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("%v; got %q, want %q", err, got, tc.want)
			}
		})
	}
}
