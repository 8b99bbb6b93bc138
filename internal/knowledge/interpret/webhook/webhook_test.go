package webhook_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/webhook"
)

type (
	configuration = configv1alpha1.ResourceInterpreterWebhookConfiguration
	request       = configv1alpha1.ResourceInterpreterRequest
	response      = configv1alpha1.ResourceInterpreterResponse
)

// server answers questions with what answer returns; the uid and success are
// filled in if answer leaves them out.
func server(t *testing.T, answer func(*request) *response) *httptest.Server {
	t.Helper()
	return plainServer(t, func(w http.ResponseWriter, r *http.Request) {
		question := configv1alpha1.ResourceInterpreterContext{}
		if err := json.NewDecoder(r.Body).Decode(&question); err != nil {
			t.Errorf("decoding the question: %v", err)
		}
		if question.APIVersion != "config.karmada.io/v1alpha1" || question.Kind != "ResourceInterpreterContext" || question.Request.UID == "" {
			t.Errorf("the question is no ResourceInterpreterContext: %+v", question)
		}
		given := answer(question.Request)
		if given.UID == "" {
			given.UID, given.Successful = question.Request.UID, true
		}
		if err := json.NewEncoder(w).Encode(&configv1alpha1.ResourceInterpreterContext{Response: given}); err != nil {
			t.Errorf("encoding the answer: %v", err)
		}
	})
}

func plainServer(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// pointing configures a webhook for all operations on all kinds.
func pointing(s *httptest.Server) *configuration {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return &configuration{
		ObjectMeta: metav1.ObjectMeta{Name: "all", UID: "1"},
		Webhooks: []configv1alpha1.ResourceInterpreterWebhook{{
			Name:                       "hook.example.com",
			ClientConfig:               admissionregistrationv1.WebhookClientConfig{URL: ptr.To(s.URL + "/interpret"), CABundle: authority},
			InterpreterContextVersions: []string{"v2", "v1alpha1"},
			Rules: []configv1alpha1.RuleWithOperations{{
				Operations: []configv1alpha1.InterpreterOperation{"*"},
				Rule:       configv1alpha1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Kinds: []string{"*"}},
			}},
		}},
	}
}

func interpreter(configurations ...*configuration) interpret.Interpreter {
	store := webhook.New(nil, nil)
	store.Set(configurations)
	return interpret.Chain(store)
}

func thing() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Thing",
		"metadata": map[string]any{"namespace": "shop", "name": "x"},
		"spec":     map[string]any{"size": int64(1)},
	}}
}

// patch is an answer with a JSON patch.
func patch(text string) func(*request) *response {
	return func(*request) *response {
		return &response{Patch: []byte(text), PatchType: ptr.To(configv1alpha1.PatchTypeJSONPatch)}
	}
}

func TestSetReturnsTheKindsThatChanged(t *testing.T) {
	kind := func(name string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: name}
	}
	about := func(name, kind string, seconds int32) *configuration {
		return &configuration{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
			Webhooks: []configv1alpha1.ResourceInterpreterWebhook{{
				Name: "hook.example.com", TimeoutSeconds: &seconds, InterpreterContextVersions: []string{"v1alpha1"},
				ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1")},
				Rules: []configv1alpha1.RuleWithOperations{{
					Operations: []configv1alpha1.InterpreterOperation{configv1alpha1.InterpreterOperationInterpretHealth},
					Rule:       configv1alpha1.Rule{APIGroups: []string{"example.com"}, APIVersions: []string{"*"}, Kinds: []string{kind}},
				}},
			}},
		}
	}
	store := webhook.New(nil, nil)
	steps := []struct {
		reason string
		set    []*configuration
		want   string // the kinds, in order
	}{
		{"a first one", []*configuration{about("a", "A", 1)}, "A"},
		{"the same again", []*configuration{about("a", "A", 1)}, ""},
		{"one more", []*configuration{about("a", "A", 1), about("b", "B", 1)}, "B"},
		{"another timeout", []*configuration{about("a", "A", 2), about("b", "B", 1)}, "A"},
		{"another rule", []*configuration{about("a", "C", 2), about("b", "B", 1)}, "AC"},
		{"none", nil, "BC"},
	}
	for _, step := range steps {
		kinds, got := store.Set(step.set), ""
		for _, name := range []string{"A", "B", "C", "D"} {
			if kinds != nil && kinds(kind(name)) {
				got += name
			}
		}
		if got != step.want {
			t.Errorf("%s concerns %q, want %q", step.reason, got, step.want)
		}
	}

	store.Set([]*configuration{about("a", "A", 1)})
	health, replicas := configv1alpha1.InterpreterOperationInterpretHealth, configv1alpha1.InterpreterOperationInterpretReplica
	before := interpret.Chain(store).Fingerprint(kind("A"), health, replicas)
	if before == "" || interpret.Chain(store).Fingerprint(kind("A"), replicas) != "" || interpret.Chain(store).Fingerprint(kind("B"), health) != "" {
		t.Error("the fingerprint is not about what the webhook claims")
	}
	store.Set([]*configuration{about("a", "A", 2)})
	if interpret.Chain(store).Fingerprint(kind("A"), health) == before {
		t.Error("the fingerprint of a changed webhook is the same")
	}
}

func TestQuestionsAndAnswers(t *testing.T) {
	ctx := context.Background()
	var asked request
	answer := func(r response) interpret.Interpreter {
		return interpreter(pointing(server(t, func(q *request) *response {
			asked = *q
			copied := r
			return &copied
		})))
	}
	patched := func(text string) interpret.Interpreter {
		return answer(response{Patch: []byte(text), PatchType: ptr.To(configv1alpha1.PatchTypeJSONPatch)})
	}

	t.Run("InterpretReplica", func(t *testing.T) {
		requirements := &workv1alpha2.ReplicaRequirements{PriorityClassName: "high"}
		got, err := answer(response{Replicas: ptr.To[int32](3), ReplicaRequirements: requirements}).Replicas(ctx, thing())
		want := interpret.ReplicaResult{Known: true, Replicas: 3, Requirements: &workv1alpha2.ReplicaRequirements{PriorityClassName: "high", Namespace: "shop"}}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v, -want +got:\n%s", err, diff)
		}
		if asked.Operation != "InterpretReplica" || asked.Name != "x" || asked.Namespace != "shop" ||
			asked.Kind != (metav1.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}) || !strings.Contains(string(asked.Object.Raw), `"size":1`) {
			t.Errorf("asked %+v", asked)
		}
	})
	t.Run("InterpretComponent", func(t *testing.T) {
		want := []workv1alpha2.Component{{Name: "a", Replicas: 2}}
		got, err := answer(response{Components: want}).Components(ctx, thing())
		if diff := cmp.Diff(want, got); err != nil || diff != "" || asked.Operation != "InterpretComponent" {
			t.Errorf("%v, asked %s, -want +got:\n%s", err, asked.Operation, diff)
		}
	})
	t.Run("ReviseReplica", func(t *testing.T) {
		obj := thing()
		got, err := patched(`[{"op":"replace","path":"/spec/size","value":7}]`).Revise(ctx, obj, 7)
		if err != nil {
			t.Fatal(err)
		}
		if n, _, _ := unstructured.NestedInt64(got.Object, "spec", "size"); n != 7 || asked.DesiredReplicas == nil || *asked.DesiredReplicas != 7 {
			t.Errorf("got %v, asked %+v", got.Object, asked)
		}
		if diff := cmp.Diff(thing().Object, obj.Object); diff != "" {
			t.Errorf("the argument changed:\n%s", diff)
		}
	})
	t.Run("Retain", func(t *testing.T) {
		observed := thing()
		observed.Object["spec"] = map[string]any{"size": int64(9)}
		got, err := patched(`[{"op":"replace","path":"/spec/size","value":9}]`).Retain(ctx, thing(), observed)
		if diff := cmp.Diff(observed, got); err != nil || diff != "" {
			t.Errorf("%v, -want +got:\n%s", err, diff)
		}
		if asked.Operation != "Retain" || !strings.Contains(string(asked.ObservedObject.Raw), `"size":9`) || !strings.Contains(string(asked.Object.Raw), `"size":1`) {
			t.Errorf("asked %+v", asked)
		}
	})
	t.Run("AggregateStatus", func(t *testing.T) {
		i := patched(`[{"op":"add","path":"/status","value":{"ready":2}},{"op":"remove","path":"/spec"}]`)
		items := []workv1alpha2.AggregatedStatusItem{{ClusterName: "m1", Status: &runtime.RawExtension{Raw: []byte(`{"ready":2}`)}}}
		template := thing()
		got, err := i.Aggregate(ctx, template, items)
		want := thing()
		want.Object["status"] = map[string]any{"ready": int64(2)}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v, -want +got:\n%s", err, diff)
		}
		if len(asked.AggregatedStatus) != 1 || asked.AggregatedStatus[0].ClusterName != "m1" {
			t.Errorf("asked %+v", asked)
		}
		if again, err := i.Aggregate(ctx, got, items); err != nil || again != got {
			t.Errorf("an equal status gave another object: %v", err)
		}
	})
	t.Run("InterpretStatus", func(t *testing.T) {
		got, err := answer(response{RawStatus: &runtime.RawExtension{Raw: []byte(`{"a":1}`)}}).Reflect(ctx, thing())
		if err != nil || string(got.Raw) != `{"a":1}` || asked.Operation != "InterpretStatus" {
			t.Errorf("got %v, %v; asked %s", got, err, asked.Operation)
		}
	})
	t.Run("InterpretHealth", func(t *testing.T) {
		for healthy, want := range map[bool]workv1alpha2.ResourceHealth{true: workv1alpha2.ResourceHealthy, false: workv1alpha2.ResourceUnhealthy} {
			if got, err := answer(response{Healthy: &healthy}).Health(ctx, thing()); err != nil || got != want {
				t.Errorf("got %s, %v; want %s", got, err, want)
			}
		}
	})
	t.Run("InterpretDependency", func(t *testing.T) {
		want := []interpret.Dependency{{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "a"}}
		got, err := answer(response{Dependencies: append(want, want...)}).Dependencies(ctx, thing())
		if diff := cmp.Diff(want, got); err != nil || diff != "" || asked.Operation != "InterpretDependency" {
			t.Errorf("%v, asked %s, -want +got:\n%s", err, asked.Operation, diff)
		}
	})
	t.Run("no patch is no change", func(t *testing.T) {
		obj := thing()
		if got, err := answer(response{}).Retain(ctx, obj, thing()); err != nil || got != obj {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

func TestAnswersThatCannotBeUsed(t *testing.T) {
	tests := map[string]struct {
		answer func(*request) *response
		want   string
	}{
		"failed": {func(q *request) *response {
			return &response{UID: q.UID, Status: &configv1alpha1.RequestStatus{Code: 418, Message: "teapot"}}
		}, "code 418: teapot"},
		"failed in silence": {func(q *request) *response { return &response{UID: q.UID} }, "without giving a reason"},
		"for another":       {func(*request) *response { return &response{UID: "other", Successful: true} }, `"other"`},
		"patch of no type":  {func(*request) *response { return &response{Patch: []byte(`[]`)} }, "not of type JSONPatch"},
		"patch of other type": {func(*request) *response {
			return &response{Patch: []byte(`[]`), PatchType: ptr.To[configv1alpha1.PatchType]("Merge")}
		}, "not of type JSONPatch"},
		"patch that is none": {patch(`{}`), "decoding the patch"},
		"patch that misses":  {patch(`[{"op":"replace","path":"/spec/no/where","value":1}]`), "applying the patch"},
		"patch of the name":  {patch(`[{"op":"replace","path":"/metadata/name","value":"y"}]`), "another object"},
		"patch to no object": {patch(`[{"op":"replace","path":"","value":[]}]`), ""},
		"patch that doubles": {patch(`[{"op":"copy","from":"/spec","path":"/spec/a"},{"op":"copy","from":"/spec","path":"/spec/b"}]`), "operation 0 of the patch is a copy"},
		"patch of large tests": {patch(`[{"op":"add","path":"/spec/text","value":"` + strings.Repeat("x", 1_000_000) + `"}` +
			strings.Repeat(`,{"op":"test","path":"","value":{}}`, 300) + `]`), "too many tests"},
		"patch without end": {patch("[" + strings.Repeat(`{"op":"test","path":"/kind","value":"Thing"},`, 10000) + `{"op":"test","path":"/kind","value":"Thing"}]`), "10001 operations"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := interpreter(pointing(server(t, tc.answer))).Retain(context.Background(), thing(), thing())
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "all/hook.example.com") {
				t.Errorf("got %v, want an error of the webhook with %q", err, tc.want)
			}
		})
	}
	empty := interpreter(pointing(server(t, func(*request) *response { return &response{} })))
	if got, err := empty.Health(context.Background(), thing()); err == nil || got != workv1alpha2.ResourceUnknown {
		t.Errorf("health is %s, %v; want Unknown and an error", got, err)
	}
	if got, err := empty.Replicas(context.Background(), thing()); err == nil {
		t.Errorf("replicas are %v, want an error", got)
	}
	dangling := []interpret.Dependency{{APIVersion: "v1", Kind: "Secret"}}
	if got, err := interpreter(pointing(server(t, func(*request) *response { return &response{Dependencies: dangling} }))).
		Dependencies(context.Background(), thing()); err == nil {
		t.Errorf("dependencies are %v, want an error", got)
	}
}

func TestServersThatMisbehave(t *testing.T) {
	tests := map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"an error": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, "418"},
		"a redirection": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://example.com", http.StatusFound)
		}, "302"},
		"no JSON":         {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }, "decoding the response"},
		"no response":     {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }, "no response"},
		"a broken answer": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "calling webhook"},
		"too long an answer": {func(w http.ResponseWriter, _ *http.Request) {
			chunk := make([]byte, 1<<20)
			for range 9 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, "longer than"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := interpreter(pointing(plainServer(t, tc.handler))).Health(context.Background(), thing())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func TestAWebhookThatDoesNotAnswerTimesOut(t *testing.T) {
	release := make(chan struct{})
	s := plainServer(t, func(http.ResponseWriter, *http.Request) { <-release })
	t.Cleanup(func() { close(release) })
	c := pointing(s)
	c.Webhooks[0].TimeoutSeconds = ptr.To[int32](1)
	_, err := interpreter(c).Health(context.Background(), thing())
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
}

func TestWebhooksConfiguredWrongly(t *testing.T) {
	tests := map[string]struct {
		change func(*configv1alpha1.ResourceInterpreterWebhook)
		want   string
	}{
		"an unknown authority": {func(w *configv1alpha1.ResourceInterpreterWebhook) { w.ClientConfig.CABundle = nil }, "certificate"},
		"a broken authority":   {func(w *configv1alpha1.ResourceInterpreterWebhook) { w.ClientConfig.CABundle = []byte("x") }, "caBundle"},
		"no encryption":        {func(w *configv1alpha1.ResourceInterpreterWebhook) { w.ClientConfig.URL = ptr.To("http://example.com") }, "not one of https"},
		"no address":           {func(w *configv1alpha1.ResourceInterpreterWebhook) { w.ClientConfig.URL = nil }, "neither"},
		"two addresses": {func(w *configv1alpha1.ResourceInterpreterWebhook) {
			w.ClientConfig.Service = &admissionregistrationv1.ServiceReference{}
		}, "both"},
		"another version": {func(w *configv1alpha1.ResourceInterpreterWebhook) { w.InterpreterContextVersions = []string{"v2"} }, "v2"},
		"a service that is not resolved": {func(w *configv1alpha1.ResourceInterpreterWebhook) {
			w.ClientConfig.URL, w.ClientConfig.Service = nil, &admissionregistrationv1.ServiceReference{}
		}, "cannot be resolved"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := pointing(server(t, func(*request) *response { return &response{Healthy: ptr.To(true)} }))
			tc.change(&c.Webhooks[0])
			_, err := interpreter(c).Health(context.Background(), thing())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func TestServicesAreResolvedAndVerifiedByName(t *testing.T) {
	var path, timeout string
	s := plainServer(t, func(w http.ResponseWriter, r *http.Request) {
		path, timeout = r.URL.Path, r.URL.Query().Get("timeout")
		question := configv1alpha1.ResourceInterpreterContext{}
		_ = json.NewDecoder(r.Body).Decode(&question)
		_ = json.NewEncoder(w).Encode(&configv1alpha1.ResourceInterpreterContext{
			Response: &response{UID: question.Request.UID, Successful: true, Healthy: ptr.To(true)},
		})
	})
	ask := func(resolve webhook.Resolve) (workv1alpha2.ResourceHealth, error) {
		c := pointing(s)
		c.Webhooks[0].ClientConfig.URL = nil
		c.Webhooks[0].ClientConfig.Service = &admissionregistrationv1.ServiceReference{Namespace: "ops", Name: "meaning", Path: ptr.To("/ask")}
		store := webhook.New(resolve, nil)
		store.Set([]*configuration{c})
		return interpret.Chain(store).Health(context.Background(), thing())
	}
	address, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	_, err = ask(func(namespace, name string, port int32) (*url.URL, error) {
		if namespace != "ops" || name != "meaning" || port != 443 {
			t.Errorf("resolved %s/%s:%d", namespace, name, port)
		}
		return address, nil
	})
	if err == nil || !strings.Contains(err.Error(), "meaning.ops.svc") {
		t.Errorf("got %v, want the certificate refused for the name of the service", err)
	}
	if _, err := ask(func(string, string, int32) (*url.URL, error) { return nil, errors.New("gone") }); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("got %v, want the resolver's error", err)
	}
	if _, err := interpreter(pointing(s)).Health(context.Background(), thing()); err != nil || path != "/interpret" || timeout != "10s" {
		t.Errorf("got %v; posted to %s with timeout %s", err, path, timeout)
	}
}

func TestTheFirstMatchingWebhookAnswers(t *testing.T) {
	healthy := pointing(server(t, func(*request) *response { return &response{Healthy: ptr.To(true)} }))
	sick := pointing(server(t, func(*request) *response { return &response{Healthy: ptr.To(false)} }))
	ask := func(obj *unstructured.Unstructured, configurations ...*configuration) workv1alpha2.ResourceHealth {
		t.Helper()
		health, err := interpreter(configurations...).Health(context.Background(), obj)
		if err != nil {
			t.Fatal(err)
		}
		return health
	}
	named := func(c *configuration, uid types.UID, rule configv1alpha1.RuleWithOperations) *configuration {
		copied := c.DeepCopy()
		copied.UID = uid
		copied.Webhooks[0].Rules = []configv1alpha1.RuleWithOperations{rule}
		return copied
	}
	rule := func(operation configv1alpha1.InterpreterOperation, group, version, kind string) configv1alpha1.RuleWithOperations {
		return configv1alpha1.RuleWithOperations{
			Operations: []configv1alpha1.InterpreterOperation{operation},
			Rule:       configv1alpha1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Kinds: []string{kind}},
		}
	}
	all := rule("*", "*", "*", "*")
	if got := ask(thing(), named(healthy, "b", all), named(sick, "a", all)); got != workv1alpha2.ResourceUnhealthy {
		t.Errorf("the configuration with the lower uid did not answer: %s", got)
	}
	for name, narrow := range map[string]configv1alpha1.RuleWithOperations{
		"operation": rule("Retain", "*", "*", "*"),
		"group":     rule("*", "apps", "*", "*"),
		"version":   rule("*", "*", "v2", "*"),
		"kind":      rule("*", "*", "*", "Other"),
	} {
		if got := ask(thing(), named(sick, "a", narrow), named(healthy, "b", all)); got != workv1alpha2.ResourceHealthy {
			t.Errorf("a webhook for another %s answered: %s", name, got)
		}
	}
	exact := rule("InterpretHealth", "example.com", "v1", "Thing")
	if got := ask(thing(), named(sick, "a", exact), named(healthy, "b", all)); got != workv1alpha2.ResourceUnhealthy {
		t.Errorf("the webhook for exactly this did not answer: %s", got)
	}
}

func TestSetReplaces(t *testing.T) {
	var healthy bool
	s := server(t, func(*request) *response { return &response{Healthy: &healthy} })
	store := webhook.New(nil, nil)
	chain := interpret.Chain(store)
	kind := thing().GroupVersionKind()
	if chain.Supports(kind, configv1alpha1.InterpreterOperationInterpretHealth) {
		t.Error("an empty store has an operation")
	}
	for range 2 {
		store.Set([]*configuration{pointing(s)})
		if got, err := chain.Health(context.Background(), thing()); err != nil || got != workv1alpha2.ResourceUnhealthy {
			t.Errorf("got %s, %v", got, err)
		}
	}
	store.Set(nil)
	if got, err := chain.Health(context.Background(), thing()); err != nil || got != workv1alpha2.ResourceHealthy {
		t.Errorf("a webhook that is gone still answers: %s, %v", got, err)
	}
}
