package faults_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestAnOrderlyEndDoesNotWaitForARequest: a request waits for a webhook that does not answer, or for whatever else, for longer than an orderly end
// of the control plane may take. It ends without an error, and the request is answered with one.
func TestAnOrderlyEndDoesNotWaitForARequest(t *testing.T) {
	hub := fleettest.StartHub(t)
	called, ended := make(chan struct{}, 1), make(chan struct{})
	webhook := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case called <- struct{}{}:
		default: // the control plane itself creates ConfigMaps, too
		}
		<-ended
	}))
	t.Cleanup(webhook.Close)
	t.Cleanup(func() { close(ended) })
	fleettest.Create(t, hub.Cluster, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "silent"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "silent.example.com", SideEffects: new(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: new(int32(30)),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &webhook.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: webhook.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	})
	answered := make(chan error)
	request := func() { answered <- hub.Create(t.Context(), fleettest.ConfigMap("default", "waits", nil)) }
	// The control plane does not call a webhook in the first moment after it was created.
	go request()
	for waits := false; !waits; {
		select {
		case <-called:
			waits = true
		case err := <-answered:
			if err != nil {
				t.Fatal(err)
			}
			fleettest.Delete(t, hub.Cluster, fleettest.ConfigMap("default", "waits", nil))
			go request()
		case <-time.After(fleettest.Patience):
			t.Fatal("the webhook is not called")
		}
	}
	hub.Stop(t)
	if err := <-answered; err == nil {
		t.Error("the request was answered without an error, though its webhook did not answer")
	}
	hub.Start(t) // the configuration of the webhook is deleted when the test ends
}
