package health_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/server/healthz"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/health"
)

// serve answers with loops in front of the checks of an API server: the real handler, with the check etcd, which fails with the error.
func serve(t *testing.T, loops *health.Loops, etcd error, target string) *httptest.ResponseRecorder {
	t.Helper()
	mux := http.NewServeMux()
	healthz.InstallPathHandler(mux, "/readyz", healthz.NamedCheck("etcd", func(*http.Request) error { return etcd }))
	healthz.InstallPathHandler(mux, "/livez", healthz.PingHealthz)
	answer := httptest.NewRecorder()
	loops.Handler(mux).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, target, nil))
	return answer
}

func TestReadyz(t *testing.T) {
	stuck := errors.New("no reconcile ended for 1h")
	const allWell = "[+]apply ok\n[+]schedule ok\n"
	tests := map[string]struct {
		reason     string
		target     string
		loop, etcd error
		code       int
		body       string // the whole answer
		contains   []string
		lacks      []string
	}{
		"Well": {
			reason: "as an API server answers", target: "/readyz", code: http.StatusOK, body: "ok",
		},
		"Verbose": {
			reason: "every loop has a line, in the order of the names, before the result", target: "/readyz?verbose", code: http.StatusOK,
			body: "[+]etcd ok\n" + allWell + "readyz check passed\n",
		},
		"LoopFails": {
			reason: "a load balancer sends nothing to a server with a loop that is stuck", target: "/readyz", loop: stuck, code: http.StatusServiceUnavailable,
			body: "[-]apply failed: no reconcile ended for 1h\n[+]schedule ok\nreadyz check failed\n",
		},
		"LoopFailsVerbose": {
			reason: "the line names the reason", target: "/readyz?verbose", loop: stuck, code: http.StatusServiceUnavailable,
			contains: []string{"[-]apply failed: no reconcile ended for 1h\n[+]schedule ok\nreadyz check failed\n"}, lacks: []string{"passed"},
		},
		"LoopExcluded": {
			reason: "an operator may ignore one loop", target: "/readyz?verbose&exclude=apply", loop: stuck, code: http.StatusOK,
			body: "[+]etcd ok\n[+]apply excluded: ok\n[+]schedule ok\nreadyz check passed\n",
		},
		"OtherLoopExcluded": {
			reason: "and only this one", target: "/readyz?exclude=schedule", loop: stuck, code: http.StatusServiceUnavailable,
			contains: []string{"[-]apply failed", "[+]schedule excluded: ok"},
		},
		"CheckExcluded": {
			reason: "the API server's own checks are excluded as ever", target: "/readyz?verbose&exclude=etcd", etcd: errors.New("no leader"), code: http.StatusOK,
			body: "[+]etcd excluded: ok\n" + allWell + "readyz check passed\n",
		},
		"UnknownExcluded": {
			reason: "a misspelt name is reported as before", target: "/readyz?verbose&exclude=aply", code: http.StatusOK,
			contains: []string{`"aply"`, allWell + "readyz check passed\n"},
		},
		"CheckFails": {
			reason: "a failure of the API server stays one if all loops are well", target: "/readyz", etcd: errors.New("no leader"), code: http.StatusInternalServerError,
			contains: []string{"[-]etcd failed", allWell + "readyz check failed\n"},
		},
		"BothFail": {
			reason: "both reasons are in the answer", target: "/readyz", loop: stuck, etcd: errors.New("no leader"), code: http.StatusInternalServerError,
			contains: []string{"[-]etcd failed", "[-]apply failed: no reconcile ended for 1h\n"},
		},
		"OneLoop": {
			reason: "a loop has a path, as a check of the API server has", target: "/readyz/apply", code: http.StatusOK, body: "ok",
		},
		"OneLoopFails": {
			reason: "with its own result", target: "/readyz/apply", loop: stuck, code: http.StatusServiceUnavailable,
			body: "not ready: no reconcile ended for 1h\n",
		},
		"OneLoopOfOthers": {
			reason: "which does not depend on others", target: "/readyz/schedule", loop: stuck, etcd: stuck, code: http.StatusOK, body: "ok",
		},
		"OneCheck": {
			reason: "the API server's checks keep their paths", target: "/readyz/etcd", loop: stuck, code: http.StatusOK, body: "ok",
		},
		"NoLoop": {
			reason: "there is no such loop", target: "/readyz/missing", code: http.StatusNotFound,
		},
		"OtherPath": {
			reason: "a stuck loop is no reason to restart the process", target: "/livez", loop: stuck, etcd: stuck, code: http.StatusOK, body: "ok",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			loops := health.NewLoops()
			loops.Add("schedule", func() error { return nil })
			loops.Add("apply", func() error { return tc.loop })
			got := serve(t, loops, tc.etcd, tc.target)
			body := got.Body.String()
			if got.Code != tc.code || tc.body != "" && body != tc.body {
				t.Errorf("GET %s (%s): got %d and %q, want %d and %q", tc.target, tc.reason, got.Code, body, tc.code, tc.body)
			}
			for _, text := range tc.contains {
				if !strings.Contains(body, text) {
					t.Errorf("GET %s (%s): %q lacks %q", tc.target, tc.reason, body, text)
				}
			}
			for _, text := range tc.lacks {
				if strings.Contains(body, text) {
					t.Errorf("GET %s (%s): %q contains %q", tc.target, tc.reason, body, text)
				}
			}
		})
	}
}

func TestALoopThatIsAddedLaterCounts(t *testing.T) {
	loops := health.NewLoops()
	if got := serve(t, loops, nil, "/readyz"); got.Code != http.StatusOK || got.Body.String() != "ok" {
		t.Errorf("without loops: %d, %s", got.Code, got.Body)
	}
	loops.Add("member-m1", func() error { return errors.New("caches are not synced") })
	if got := serve(t, loops, nil, "/readyz"); got.Code != http.StatusServiceUnavailable {
		t.Errorf("a loop of a member that joined is not in the result: %d, %s", got.Code, got.Body)
	}
	loops.Add("member-m1", func() error { return nil })
	if got := serve(t, loops, nil, "/readyz"); got.Code != http.StatusOK {
		t.Errorf("the check that was replaced still counts: %d, %s", got.Code, got.Body)
	}
}

func TestReadyzIsPlainText(t *testing.T) {
	loops := health.NewLoops()
	loops.Add("apply", func() error { return errors.New("<script>") })
	got := serve(t, loops, nil, "/readyz")
	if kind := got.Header().Get("Content-Type"); kind != "text/plain; charset=utf-8" || got.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers are %v", got.Header())
	}
}
