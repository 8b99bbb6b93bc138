package controlplane

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/flagship-k8s/flagship/internal/features/restore"
	"github.com/flagship-k8s/flagship/internal/host/apiserver"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/exposition"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/tunable"
)

func page(t *testing.T, o Options, path string) (int, string) {
	t.Helper()
	handler, ok := o.Server.Pages[path]
	if !ok {
		t.Fatalf("%s is not served", path)
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return answer.Code, answer.Body.String()
}

func TestOptionsAreCompleted(t *testing.T) {
	given := map[string]http.Handler{"/own": http.NotFoundHandler()}
	o := Options{Server: Server{Role: apiserver.Member, Pages: given}, Tunable: tunable.Options{ProbePeriod: time.Second}}.complete()
	if set := tunable.Now(o.tuned, func(t *tunable.Options) *tunable.Options { return t })(); set.ProbePeriod != time.Second || set.LeaseGrace != 40*time.Second || set.Evict.Timeout != 10*time.Minute {
		t.Errorf("a value that is set stays and others have their default: %+v", set)
	}
	if o.Server.Role != apiserver.Hub {
		t.Errorf("the API server of a control plane is a %s", o.Server.Role)
	}
	if _, ok := o.Server.Pages["/own"]; !ok || len(given) != 1 {
		t.Errorf("pages are added to a copy of those given, which has %d now", len(given))
	}
}

// TestPagesWhileStarting: the API server answers before the loops are built.
func TestPagesWhileStarting(t *testing.T) {
	o := Options{}.complete()
	for _, path := range []string{restore.OrphansPath, restore.StatusPath} {
		if code, _ := page(t, o, path); code != http.StatusServiceUnavailable {
			t.Errorf("%s answers %d, want 503", path, code)
		}
	}
	if _, err := o.lookups.cluster(t.Context(), "m"); err == nil {
		t.Error("a Cluster that cannot be read yet counts as absent")
	}
	if _, _, err := o.lookups.instances(t.Context(), "example.com", "Thing"); err == nil {
		t.Error("objects that cannot be counted yet count as none")
	}
	if _, err := o.lookups.keeps(t.Context(), nil); err == nil {
		t.Error("a Work of which nothing is known yet may be deleted")
	}
	if err := o.lookups.mayStore("shop", true, func() bool { return true }); err != nil {
		t.Errorf("a write is refused before limits are known: %v", err)
	}
}

// TestMetricsPages: the page of all metrics has those of the API server's libraries, the own page only ours.
func TestMetricsPages(t *testing.T) {
	o := Options{}.complete()
	o.loops.Loop("schedule")
	code, all := page(t, o, exposition.Path)
	if code != http.StatusOK || !strings.Contains(all, "\ngo_goroutines ") {
		t.Errorf("%s answers %d without the metrics of the process", exposition.Path, code)
	}
	code, own := page(t, o, exposition.OwnPath)
	if code != http.StatusOK || strings.Contains(own, "\ngo_goroutines ") {
		t.Errorf("%s answers %d, or has the metrics of the process", exposition.OwnPath, code)
	}
	for line := range strings.Lines(own) {
		if !strings.HasPrefix(line, "#") && !strings.Contains(all, line[:strings.IndexAny(line, "{ ")]) {
			t.Errorf("%s lacks %s", exposition.Path, line)
		}
	}
}
