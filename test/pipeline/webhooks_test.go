package pipeline_test

import (
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestAWebhookOfAServiceInMembersIsNotCalledHere: what a chart applies does not stop writes on the control plane. One whose Service has an
// EndpointSlice here is called.
func TestAWebhookOfAServiceInMembersIsNotCalledHere(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	every := []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
	}}
	within := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}}
	at := admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: ns, Name: "hook"}}
	none := new(admissionregistrationv1.SideEffectClassNone)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "hook"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}}
	fleettest.Create(t, fleet.Hub, service,
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: ns}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "validate.example.org", ClientConfig: at, Rules: every, NamespaceSelector: within, SideEffects: none, AdmissionReviewVersions: []string{"v1"},
		}}},
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: ns}, Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "mutate.example.org", ClientConfig: at, Rules: every, NamespaceSelector: within, SideEffects: none, AdmissionReviewVersions: []string{"v1beta1"},
		}}})
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "settings"}}
	fleettest.Create(t, fleet.Hub, settings)
	fleettest.Update(t, fleet.Hub, settings, func(c *corev1.ConfigMap) { c.Data = map[string]string{"a": "b"} })
	fleettest.Delete(t, fleet.Hub, settings)
	fleettest.ExpectGone(t, fleet.Hub, settings)

	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "hook", Labels: map[string]string{discoveryv1.LabelServiceName: "hook"}}, AddressType: discoveryv1.AddressTypeIPv4,
	}
	fleettest.Create(t, fleet.Hub, slice)
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "probe"}}
	fleettest.ExpectListed(t, fleet.Hub, &corev1.ConfigMapList{}, ns, func(*corev1.ConfigMapList) error { // its informer has the slice a moment later
		err := fleet.Hub.Create(t.Context(), probe.DeepCopy(), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "example.org") {
			return fmt.Errorf("a webhook with an EndpointSlice here is not called: %v", err)
		}
		return nil
	})
}
