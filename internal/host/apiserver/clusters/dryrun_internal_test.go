package clusters

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// TestDryRunsArePassedOn: the server does not receive the parameter, and the member does; other requests keep it for the server.
func TestDryRunsArePassedOn(t *testing.T) {
	for name, tc := range map[string]struct {
		subresource, query, seen, forwarded string
	}{
		"a dry run in a member":      {"proxy", "dryRun=All&fieldManager=x", "fieldManager=x", "dryRun=All&fieldManager=x"},
		"no dry run":                 {"proxy", "b=2&a=1", "b=2&a=1", "b=2&a=1"},
		"an empty parameter":         {"proxy", "dryRun=", "", "dryRun="},
		"a dry run of the Cluster":   {"", "dryRun=All", "dryRun=All", "dryRun=All"},
		"a dry run of its status":    {"status", "dryRun=All", "dryRun=All", "dryRun=All"},
		"an escape of the parameter": {"proxy", "dry%52un=All", "", "dry%52un=All"},
	} {
		t.Run(name, func(t *testing.T) {
			info := &request.RequestInfo{IsResourceRequest: true, APIGroup: "cluster.karmada.io", Resource: "clusters", Subresource: tc.subresource}
			r := httptest.NewRequestWithContext(request.WithRequestInfo(t.Context(), info), http.MethodPatch, "/x?"+tc.query, nil)
			PassDryRun(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.RawQuery != tc.seen || queryOf(r) != tc.forwarded {
					t.Errorf("the server receives %q, the member %q", r.URL.RawQuery, queryOf(r))
				}
			})).ServeHTTP(httptest.NewRecorder(), r)
		})
	}
}
