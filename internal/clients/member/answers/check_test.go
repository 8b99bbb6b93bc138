package answers_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/flagship-k8s/flagship/internal/clients/member/answers"
)

func TestCheck(t *testing.T) {
	const (
		success = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"a","kind":"configmaps","uid":"u"}}`
		failure = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure"}`
		page    = `<html><body>Log in</body></html>`
		object  = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"n"}}`
		custom  = `{"apiVersion":"example.io/v1","kind":"Foo","metadata":{"annotations":{},"name":"a"},"status":{"status":"Success"}}`
		partial = `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","namespace":"n"}}`
		review  = `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"status":{"allowed":true}}`

		maps    = "/api/v1/namespaces/n/configmaps"
		foo     = "/apis/example.io/v1/foos/a"
		reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	)
	long := strings.Repeat("x", 2000)
	for name, tc := range map[string]struct {
		request, sent string
		code          int
		answer        string
		wrong         bool
	}{
		"deleted, a Status":              {"DELETE " + maps + "/a", "", 200, success, false},
		"deleted, the object":            {"DELETE " + maps + "/a", "", 200, object, false},
		"deleted, later":                 {"DELETE " + maps + "/a", "", 202, object, false},
		"deleted, another object":        {"DELETE " + maps + "/b", "", 200, object, true},
		"deleted, another kind":          {"DELETE " + foo, "", 200, object, true},
		"deleted, another namespace":     {"DELETE /api/v1/namespaces/m/configmaps/a", "", 200, object, true},
		"deleted, a failure":             {"DELETE " + maps + "/a", "", 200, failure, true},
		"deleted, a page":                {"DELETE " + maps + "/a", "", 200, page, true},
		"deleted, nothing":               {"DELETE " + maps + "/a", "", 200, "", true},
		"deleted, null":                  {"DELETE " + maps + "/a", "", 200, "null", true},
		"deleted, half":                  {"DELETE " + maps + "/a", "", 200, object[:len(object)-3], true},
		"deleted, a redirection":         {"DELETE " + maps + "/a", "", 302, "", true},
		"a refusal":                      {"DELETE " + maps + "/a", "", 404, page, false},
		"deleted, without a namespace":   {"DELETE " + foo, "", 200, custom, false},
		"a namespace":                    {"DELETE /api/v1/namespaces/a", "", 200, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"a"}}`, false},
		"the end of a namespace":         {"PUT /api/v1/namespaces/a/finalize", "", 200, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"a"}}`, false},
		"an object":                      {"GET " + maps + "/a", "", 200, object, false},
		"its metadata":                   {"GET " + maps + "/a", "", 200, partial, false},
		"a page for an object":           {"GET " + maps + "/a", "", 200, page, true},
		"success for an object":          {"GET " + maps + "/a", "", 200, success, true},
		"applied":                        {"PATCH " + maps + "/a", object, 200, object, false},
		"applied, as another kind":       {"PATCH " + maps + "/a", strings.Replace(object, "ConfigMap", "Secret", 1), 200, object, true},
		"applied, a Status":              {"PATCH " + maps + "/a", object, 200, success, true},
		"patched with a list of changes": {"PATCH " + maps + "/a", `[{"op":"remove","path":"/x"}]`, 200, object, false},
		"created":                        {"POST " + maps, object, 201, object, false},
		"created, as another kind":       {"POST " + maps, object, 201, strings.Replace(object, "ConfigMap", "Pod", 1), true},
		"reviewed":                       {"POST " + reviews, review, 201, review, false},
		"a token":                        {"POST /api/v1/namespaces/n/serviceaccounts/a/token", "", 201, `{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1"}`, false},
		"a token, a page":                {"POST /api/v1/namespaces/n/serviceaccounts/a/token", "", 201, page, true},
		"evicted":                        {"POST /api/v1/namespaces/n/pods/a/eviction", "", 201, success, false},
		"a log":                          {"GET /api/v1/namespaces/n/pods/a/log", "", 200, "text", false},
		"a list":                         {"GET " + maps, "", 200, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[]}`, false},
		"a list of custom resources":     {"GET /apis/example.io/v1/foos", "", 200, `{"apiVersion":"example.io/v1","items":[{"a":"` + long + `"}],"kind":"FooList"}`, false},
		"a list of namespaces":           {"GET /api/v1/namespaces", "", 200, `{"kind":"NamespaceList","apiVersion":"v1"}`, false},
		"a list with a long beginning":   {"GET " + maps, "", 200, `{"metadata":{"continue":"` + long + `"},"kind":"ConfigMapList"}`, false},
		"an object for a list":           {"GET " + maps, "", 200, object, true},
		"a page for a list":              {"GET " + maps, "", 200, page, true},
		"nothing for a list":             {"GET " + maps, "", 200, "", true},
		"an empty object for a list":     {"GET " + maps, "", 200, "{}", true},
		"half a list":                    {"GET " + maps, "", 200, `{"metadata":{`, true},
		"versions":                       {"GET /api", "", 200, `{"kind":"APIVersions","versions":["v1"]}`, false},
		"all groups at once":             {"GET /apis", "", 200, `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2"}`, false},
		"not modified":                   {"GET /apis", "", 304, "", false},
		"a group":                        {"GET /apis/apps", "", 200, `{"kind":"APIGroup","apiVersion":"v1"}`, false},
		"resources":                      {"GET /apis/apps/v1", "", 200, `{"kind":"APIResourceList"}`, false},
		"an object for resources":        {"GET /api/v1", "", 200, object, true},
		"a page for groups":              {"GET /apis", "", 200, page, true},
		"something else":                 {"GET /version", "", 200, page, false},
	} {
		t.Run(name, func(t *testing.T) {
			method, path, _ := strings.Cut(tc.request, " ")
			req, err := http.NewRequestWithContext(t.Context(), method, "https://member"+path, strings.NewReader(tc.sent))
			if err != nil {
				t.Fatal(err)
			}
			resp := &http.Response{StatusCode: tc.code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(tc.answer))}
			if err := answers.Check(req, resp); (err != nil) != tc.wrong {
				t.Errorf("got %v, want an error: %t", err, tc.wrong)
			}
			if body, err := io.ReadAll(resp.Body); err != nil || string(body) != tc.answer {
				t.Errorf("afterwards the body is %.100q, %v", body, err)
			}
			// In protobuf only the beginning is compared; the decoder does the rest.
			resp = &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/vnd.kubernetes.protobuf"}}, Body: io.NopCloser(strings.NewReader("k8s\x00\x0a"))}
			if err := answers.Check(req, resp); err != nil {
				t.Errorf("in protobuf: %v", err)
			}
		})
	}
}
