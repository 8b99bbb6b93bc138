package apiserver_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// anonymous is a client that trusts the hub and has no credential.
func anonymous(t *testing.T) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(hub.CA()) {
		t.Fatal("no certificate in the hub's CA")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// adminConfig has all rights.
func adminConfig(t *testing.T) *rest.Config {
	t.Helper()
	kubeconfig, err := hub.AdminKubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// admin is a client with all rights.
func admin(t *testing.T) *http.Client {
	t.Helper()
	client, err := rest.HTTPClientFor(adminConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return &http.Client{Transport: patient{client.Transport}}
}

// patient retries when the answer has Retry-After, as every client of Kubernetes does: the storage of a kind
// is not ready at the very moment in which the kind is served.
type patient struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (p patient) RoundTrip(request *http.Request) (*http.Response, error) {
	for {
		response, err := p.RoundTripper.RoundTrip(request)
		if err != nil || response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") == "" {
			return response, err
		}
		_ = response.Body.Close()
		again := request.Clone(request.Context())
		if request.GetBody != nil {
			if again.Body, err = request.GetBody(); err != nil {
				return nil, err
			}
		}
		select {
		case <-time.After(time.Second): // what it says is whole seconds, and hardly ever more than one
		case <-request.Context().Done():
			return nil, request.Context().Err()
		}
		request = again
	}
}

func get(t *testing.T, client *http.Client, path string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, hub.URL()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return send(t, client, request)
}

func send(t *testing.T, client *http.Client, request *http.Request) (code int, text string) {
	t.Helper()
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestAnonymousAccess(t *testing.T) {
	tests := map[string]struct {
		reason string
		want   int
	}{
		"/livez":             {"load balancers ask without a credential", http.StatusOK},
		"/readyz":            {"load balancers ask without a credential", http.StatusOK},
		"/healthz":           {"old load balancers too", http.StatusOK},
		"/api":               {"everything else needs a credential, and lacking one is not a lack of rights", http.StatusUnauthorized},
		"/apis":              {"as /api", http.StatusUnauthorized},
		"/version":           {"upstream would answer this one", http.StatusUnauthorized},
		"/api/v1/namespaces": {"objects", http.StatusUnauthorized},
		"/apis/resource.k8s.io/v1alpha2/resourceclaims": {"objects of a group with a server of its own", http.StatusUnauthorized},
		"/metrics": {"metrics name objects", http.StatusUnauthorized},
	}
	client := anonymous(t)
	eventually(t, func() string { // the caches of a server that has just started are still filled
		if code, body := get(t, client, "/readyz"); code != http.StatusOK {
			return body
		}
		return ""
	})
	for path, test := range tests {
		t.Run(path, func(t *testing.T) {
			if got, body := get(t, client, path); got != test.want {
				t.Errorf("GET %s (%s): got %d, want %d: %s", path, test.reason, got, test.want, body)
			}
		})
	}
}

func TestReadyzNamesLoops(t *testing.T) {
	var trouble error
	hub.AddLoop("test-loop", func() error { return trouble })
	t.Cleanup(func() { trouble = nil })
	client := anonymous(t)

	if code, body := get(t, client, "/readyz?verbose"); code != http.StatusOK ||
		!strings.Contains(body, "[+]test-loop ok\n") || !strings.HasSuffix(strings.TrimSpace(body), "readyz check passed") || !strings.Contains(body, "[+]etcd ok") {
		t.Errorf("healthy: got %d, %s", code, body)
	}
	if code, body := get(t, client, "/readyz"); code != http.StatusOK || body != "ok" {
		t.Errorf("healthy, terse: got %d, %s", code, body)
	}
	trouble = errors.New("stuck")
	if code, body := get(t, client, "/readyz"); code != http.StatusServiceUnavailable ||
		!strings.Contains(body, "[-]test-loop failed: stuck") {
		t.Errorf("unhealthy: got %d, %s", code, body)
	}
	if code, _ := get(t, admin(t), "/readyz/test-loop"); code != http.StatusServiceUnavailable {
		t.Errorf("unhealthy, asked by name: got %d", code)
	}
	if code, body := get(t, client, "/readyz?exclude=test-loop"); code != http.StatusOK {
		t.Errorf("excluded: got %d, %s", code, body)
	}
}

// TestCommandsDoNotWaitForPodsOfMembers: kubectl logs and others watch for a pod of a workload, which there is none of here.
func TestCommandsDoNotWaitForPodsOfMembers(t *testing.T) {
	const path = "/api/v1/namespaces/default/pods?watch=true&timeoutSeconds=1&labelSelector=app%3Dweb"
	refused := call(t, http.MethodGet, path, "", "Kubectl-Command", "kubectl logs").wants(t, http.StatusNotFound)
	if !strings.Contains(refused.text, "/apis/cluster.karmada.io/v1alpha1/clusters/NAME/proxy") {
		t.Errorf("the message does not name the way to the pods: %s", refused.text)
	}
	call(t, http.MethodGet, path, "", "Kubectl-Command", "kubectl get").wants(t, http.StatusOK)
	call(t, http.MethodGet, "/api/v1/namespaces/default/pods", "", "Kubectl-Command", "kubectl logs").wants(t, http.StatusOK)
}
