package apiserver_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	certutil "k8s.io/client-go/util/cert"
)

// converter is a conversion webhook: it moves spec.v1 to spec.v2 and back.
type converter struct {
	server *httptest.Server
	ca     string

	mu      sync.Mutex
	spoil   func(*apiextensionsv1.ConversionResponse)
	fail    bool
	request *apiextensionsv1.ConversionRequest
	query   url.Values
}

// startConverter serves under 127.0.0.1 and the name of a Service.
func startConverter(t *testing.T, service string) *converter {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return startConverterAt(t, service, listener)
}

func startConverterAt(t *testing.T, service string, listener net.Listener) *converter {
	t.Helper()
	certificate, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, []string{service})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	c := &converter{ca: base64.StdEncoding.EncodeToString(certificate)}
	c.server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: c, ReadHeaderTimeout: time.Minute}}
	c.server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	c.server.StartTLS()
	t.Cleanup(c.server.Close)
	return c
}

// ServeHTTP answers one review.
func (c *converter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail {
		http.Error(w, "out of order", http.StatusInternalServerError)
		return
	}
	var review apiextensionsv1.ConversionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.request, c.query = review.Request, r.URL.Query()
	review.Response = &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range review.Request.Objects {
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(raw.Raw); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		convertThing(obj, review.Request.DesiredAPIVersion)
		text, _ := obj.MarshalJSON()
		review.Response.ConvertedObjects = append(review.Response.ConvertedObjects, runtime.RawExtension{Raw: text})
	}
	review.Request = nil
	if c.spoil != nil {
		c.spoil(review.Response)
	}
	_ = json.NewEncoder(w).Encode(review)
}

func convertThing(obj *unstructured.Unstructured, to string) {
	from := strings.Split(obj.GetAPIVersion(), "/")[1]
	value, _, _ := unstructured.NestedString(obj.Object, "spec", from)
	unstructured.RemoveNestedField(obj.Object, "spec", from)
	_ = unstructured.SetNestedField(obj.Object, value, "spec", strings.Split(to, "/")[1])
	obj.SetAPIVersion(to)
	obj.SetLabels(map[string]string{"converted": "yes"})
	obj.SetFinalizers(nil) // put back by the API server
}

func (c *converter) set(spoil func(*apiextensionsv1.ConversionResponse), fail bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spoil, c.fail = spoil, fail
}

// convertible is a patch for a kind of two versions that a webhook converts.
func convertible(client string) string {
	version := func(name string, storage bool) string {
		return fmt.Sprintf("{name: %s, served: true, storage: %v, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {%[1]s: {type: string}}}}}}}", name, storage)
	}
	return "{spec: {conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v9, v1, v1beta1], clientConfig: " + client + "}}, versions: [" +
		version("v1", true) + ", " + version("v2", false) + "]}}"
}

func TestConversionByWebhookAtAnAddress(t *testing.T) {
	const group = "converted.example.com"
	hook := startConverter(t, "unused.example.com")
	path := served(t, group, convertible(fmt.Sprintf("{url: '%s/convert', caBundle: %s}", hook.server.URL, hook.ca)))
	other := strings.Replace(path, "/v1/", "/v2/", 1)
	call(t, http.MethodPost, path, patched(t, thing(group, "v1", "a", "spec: {v1: x}"), "{metadata: {finalizers: [example.com/keep]}}")).wants(t, http.StatusCreated)
	t.Cleanup(func() { hook.set(nil, false) })

	a := call(t, http.MethodGet, other+"/a", "").wants(t, http.StatusOK)
	expect(t, "the converted field", a.at("spec.v2"), "x")
	expect(t, "the label", a.at("metadata.labels.converted"), "yes")
	expect(t, "the finalizer", a.at("metadata.finalizers"), "[example.com/keep]")
	expect(t, "the desired version", hook.request.DesiredAPIVersion, group+"/v2")
	expect(t, "the timeout", hook.query.Get("timeout"), "30s")
	list := call(t, http.MethodGet, other, "").wants(t, http.StatusOK)
	expect(t, "the list", list.at("items.0.spec.v2"), "x")
	call(t, http.MethodPost, other, thing(group, "v2", "b", "spec: {v2: w}")).wants(t, http.StatusCreated)
	expect(t, "what was written in the other version", call(t, http.MethodGet, path+"/b", "").at("spec.v1"), "w")

	for name, spoil := range map[string]func(*apiextensionsv1.ConversionResponse){
		"another uid": func(r *apiextensionsv1.ConversionResponse) { r.UID = "other" },
		"too few":     func(r *apiextensionsv1.ConversionResponse) { r.ConvertedObjects = nil },
		"a failure":   func(r *apiextensionsv1.ConversionResponse) { r.Result = metav1.Status{Status: metav1.StatusFailure} },
		"another object": func(r *apiextensionsv1.ConversionResponse) {
			r.ConvertedObjects[0].Raw = []byte(strings.Replace(string(r.ConvertedObjects[0].Raw), `"name":"a"`, `"name":"z"`, 1))
		},
	} {
		hook.set(spoil, false)
		if code := call(t, http.MethodGet, other+"/a", "").code; code != http.StatusInternalServerError {
			t.Errorf("a webhook that answers with %s gives %d, want 500", name, code)
		}
	}
	hook.set(nil, true)
	call(t, http.MethodGet, other+"/a", "").wants(t, http.StatusInternalServerError)
	call(t, http.MethodGet, path+"/a", "").wants(t, http.StatusOK) // needs no conversion
	hook.set(nil, false)
	call(t, http.MethodPatch, path+"/a", `{"metadata":{"finalizers":null}}`, "Content-Type", mergePatch).wants(t, http.StatusOK)
}

// TestConversionByWebhookBehindAService: there is no cluster network, so a Service without a selector names the address
// by EndpointSlices.
func TestConversionByWebhookBehindAService(t *testing.T) {
	const group = "serviced.example.com"
	ns := namespace(t)
	hook := startConverter(t, "hook."+ns+".svc")
	_, port, err := net.SplitHostPort(hook.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	path := served(t, group, convertible(fmt.Sprintf("{service: {namespace: %s, name: hook, path: /convert, port: 8443}, caBundle: %s}", ns, hook.ca)))
	other := strings.Replace(path, "/v1/", "/v2/", 1)
	call(t, http.MethodPost, path, thing(group, "v1", "a", "spec: {v1: x}")).wants(t, http.StatusCreated)
	if code := call(t, http.MethodGet, other+"/a", "").code; code != http.StatusInternalServerError {
		t.Errorf("a webhook behind an unknown Service gives %d, want 500", code)
	}
	services, slices := "/api/v1/namespaces/"+ns+"/services", "/apis/discovery.k8s.io/v1/namespaces/"+ns+"/endpointslices"
	call(t, http.MethodPost, services, "{apiVersion: v1, kind: Service, metadata: {name: hook}, spec: {ports: [{name: https, port: 8443, targetPort: "+port+"}]}}").wants(t, http.StatusCreated)
	// Slices refuse loopback addresses, but not names that look like one.
	call(t, http.MethodPost, slices, "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: hook-1, labels: {kubernetes.io/service-name: hook}}, addressType: FQDN, ports: [{name: https, port: "+port+"}], endpoints: [{addresses: [127.0.0.1], conditions: {ready: true}}]}").wants(t, http.StatusCreated)
	eventually(t, func() string {
		if a := call(t, http.MethodGet, other+"/a", ""); a.code != http.StatusOK || a.at("spec.v2") != "x" {
			return "the webhook behind a Service does not convert: " + a.text
		}
		return ""
	})
	// Webhooks of the hub's own controllers are found the same way.
	if address, err := hub.ResolveService(ns, "hook", 8443); err != nil || address.Host != net.JoinHostPort("127.0.0.1", port) {
		t.Errorf("the Service is at %v: %v", address, err)
	}
}

// TestConversionByWebhookAtAFixedPlace: the server is configured with the address of the Service, and there is no such Service on it.
func TestConversionByWebhookAtAFixedPlace(t *testing.T) {
	const group = "fixed.example.com"
	hook := startConverterAt(t, "hook.fixed.svc", fixed)
	path := served(t, group, convertible(fmt.Sprintf("{service: {namespace: fixed, name: hook, path: /convert, port: 8443}, caBundle: %s}", hook.ca)))
	call(t, http.MethodPost, path, thing(group, "v1", "a", "spec: {v1: x}")).wants(t, http.StatusCreated)
	a := call(t, http.MethodGet, strings.Replace(path, "/v1/", "/v2/", 1)+"/a", "").wants(t, http.StatusOK)
	expect(t, "the converted field", a.at("spec.v2"), "x")
	if address, err := hub.ResolveService("fixed", "hook", 8443); err != nil || address.Host != fixed.Addr().String() {
		t.Errorf("the Service is at %v: %v", address, err)
	}
}

// TestTheUsualPortOfAWebhook: a Service without a port means that of https.
func TestTheUsualPortOfAWebhook(t *testing.T) {
	a := call(t, http.MethodPost, definitionsPath+"?dryRun=All", things(t, "port.example.com", convertible("{service: {namespace: a, name: a}}"))).wants(t, http.StatusCreated)
	expect(t, "the port", a.at("spec.conversion.webhook.clientConfig.service.port"), 443)
}

func TestAWebhookWhoseAuthorityCannotBeRead(t *testing.T) {
	const group = "unreadable.example.com"
	bundle := base64.StdEncoding.EncodeToString([]byte("no certificate"))
	create(t, group, convertible("{url: 'https://127.0.0.1:1', caBundle: "+bundle+"}"))
	expectDefinition(t, group, "Established", "False", "InvalidCABundle")
}
