package fleettest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRequestsAreReadFromMetrics(t *testing.T) {
	text := `# HELP apiserver_request_total [STABLE] Counter
apiserver_request_total{code="201",component="apiserver",dry_run="",group="apps",resource="deployments",scope="resource",subresource="",verb="POST",version="v1"} 3
apiserver_request_total{code="200",component="apiserver",dry_run="",group="apps",resource="deployments",scope="resource",subresource="status",verb="PATCH",version="v1"} 2
apiserver_request_total{code="200",component="apiserver",dry_run="",group="coordination.k8s.io",resource="leases",scope="resource",subresource="",verb="PUT",version="v1"} 9
apiserver_request_total{code="201",component="apiserver",dry_run="",group="authorization.k8s.io",resource="subjectaccessreviews",scope="resource",subresource="",verb="POST",version="v1"} 1
apiserver_request_total{code="0",component="apiserver",dry_run="",group="",resource="pods",scope="cluster",subresource="",verb="WATCH",version="v1"} 1e+01
apiserver_request_duration_seconds_count{verb="POST"} 4
`
	all, err := parseRequests([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if n := all[Request{Verb: "WATCH", Resource: "pods"}]; n != 10 {
		t.Errorf("%d watches of pods, want 10", n)
	}
	create := Request{Verb: "POST", Group: "apps", Resource: "deployments", Code: 201}
	status := Request{Verb: "PATCH", Group: "apps", Resource: "deployments/status", Code: 200}
	if diff := cmp.Diff(Requests{create: 3, status: 2}, all.Writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Requests{create: 1}, all.Of("deployments").Since(Requests{create: 2, status: 2})); diff != "" {
		t.Errorf("since (-want +got):\n%s", diff)
	}
	if got := all.Writes().String(); !strings.Contains(got, "3 POST apps/deployments (201)") || all.Writes().Total() != 5 {
		t.Errorf("total %d:\n%s", all.Writes().Total(), got)
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	if diff := cmp.Diff("b\nc\n", tail([]byte("a\nb\nc\n"), 2)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff("cause of the end: panic: a\nb\n", tail([]byte("panic: a\nb\n"), 1)); diff != "" {
		t.Error(diff)
	}
	if got := tail([]byte(strings.Repeat("x", 1000)), 2); len(got) > 410 {
		t.Errorf("a long line stays %d bytes long", len(got))
	}
}
