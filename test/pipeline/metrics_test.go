package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// page reads a path of a cluster's API server; the code is what it answered with.
func page(ctx context.Context, config *rest.Config, path string) (code int, body string, err error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return 0, "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(config.Host, "/")+path, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := httpClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// TestEveryLoopIsMeasured: what the control plane, controller-runtime, client-go and the API server measure is on one page, and
// the page for the control plane's own metrics has nothing that is not documented.
func TestEveryLoopIsMeasured(t *testing.T) {
	fleettest.NeedsPushMode(t, "the control plane itself applies nothing and observes nothing, and has no figures of that")
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	settings := fleettest.ConfigMap(ns, "settings", map[string]string{"a": "1"})
	fleettest.Create(t, fleet.Hub, settings, fleettest.Policy(ns, "settings", fleettest.To("member1"), settings))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), bindingIs("FullyApplied", metav1.ConditionTrue, ""))
	var body string
	if err := eventually(t, func(ctx context.Context) error { // a loop is measured after what it did is visible
		code, text, err := page(ctx, fleet.Hub.Config, "/metrics")
		body = text
		return errors.Join(err, answered(code, text), measured(text))
	}); err != nil {
		t.Error(err)
	}
	for _, series := range []string{`flagship_loop_queue_depth{loop="apply"} `, `flagship_loop_longest_running_seconds{loop="schedule"} `, "flagship_schedule_pending "} {
		if !strings.Contains(body, "\n"+series) {
			t.Errorf("/metrics has no %s", series)
		}
	}
	documentedMetrics(t, fleet)

	stranger := rest.AnonymousClientConfig(fleet.Hub.Config)
	for _, path := range []string{"/metrics", "/metrics/flagship"} {
		if code, _, err := page(t.Context(), stranger, path); err != nil || code != http.StatusForbidden && code != http.StatusUnauthorized {
			t.Errorf("%s: a stranger is answered %d: %v", path, code, err)
		}
	}
}

// eventually polls until a condition returns nil, and returns its last error when patience ends: no object can be watched for it.
func eventually(t *testing.T, condition func(context.Context) error) error {
	t.Helper()
	var last error
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, fleettest.Patience, true, func(ctx context.Context) (bool, error) {
		last = condition(ctx)
		return last == nil, nil
	}); err != nil {
		return errors.Join(err, last)
	}
	return nil
}

// answered is nil if a page was answered with 200.
func answered(code int, text string) error {
	if code != http.StatusOK {
		return fmt.Errorf("answered %d: %s", code, text)
	}
	return nil
}

// measured is nil if a page of metrics has a sample of each part, none of them 0.
func measured(body string) error {
	var missing []error
	for _, sample := range []string{
		`flagship_loop_reconcile_total{loop="apply",result="success"} `,
		`flagship_loop_reconcile_seconds_count{loop="observe"} `,
		`flagship_loop_queue_seconds_count{loop="apply"} `,
		`flagship_loop_queue_adds_total{loop="report"} `,
		`flagship_schedule_attempts_total{reason="Success",result="scheduled"} `,
		`flagship_schedule_seconds_count{phase="decide"} `,
		`flagship_apply_writes_total{operation="apply",result="ok"} `,
		`flagship_template_arrival_seconds_count `,
		`controller_runtime_reconcile_total{controller="propagate",result="success"} `,
		`controller_runtime_reconcile_time_seconds_count{controller="schedule"} `,
		`workqueue_adds_total{`,
		`rest_client_requests_total{`,
		`apiserver_request_total{`,
		`go_goroutines `,
	} {
		_, value, found := strings.Cut(body, "\n"+sample)
		if !found || strings.HasPrefix(value, "0\n") {
			missing = append(missing, fmt.Errorf("/metrics has no %s, or it is 0", sample))
		}
	}
	return errors.Join(missing...)
}

// documentedMetrics compares what is served of the control plane itself with the documents: names, types and labels.
func documentedMetrics(t *testing.T, fleet *fleettest.Fleet) {
	t.Helper()
	documented, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(flagship_[a-z_]+)` \\| (\\w+)(?:: ([^|]*))? \\|").FindAllStringSubmatch(string(documented), -1) {
		rows[row[1]] = row
	}
	_, own, err := page(t.Context(), fleet.Hub.Config, "/metrics/flagship")
	if err != nil {
		t.Fatal(err)
	}
	families := regexp.MustCompile("(?m)^# TYPE ([a-z_]+) ([a-z]+)$").FindAllStringSubmatch(own, -1)
	for _, family := range families {
		name, row := family[1], rows[family[1]]
		if row == nil {
			t.Errorf("docs/metrics.md says nothing of %s", name)
			continue
		}
		if row[2] != family[2] {
			t.Errorf("docs/metrics.md has %s as a %s, and a %s is served", name, row[2], family[2])
		}
		for _, sample := range regexp.MustCompile("(?m)^"+name+"(?:_bucket|_sum|_count)?\\{(.*)\\} ").FindAllStringSubmatch(own, -1) {
			for _, label := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(sample[1], -1) {
				if label[1] != "le" && !strings.Contains(row[3], "`"+label[1]+"`") {
					t.Errorf("docs/metrics.md has %s without the label %s, which is served", name, label[1])
				}
			}
		}
	}
	if len(families) < 20 {
		t.Errorf("only %d metrics are served:\n%s", len(families), own)
	}
}

// loops are the names of all loops of the control plane, by the metric that has a sample of each that exists.
func loops(t *testing.T, fleet *fleettest.Fleet) (names []string) {
	t.Helper()
	_, text, err := page(t.Context(), fleet.Hub.Config, "/metrics/flagship")
	if err != nil {
		t.Fatal(err)
	}
	for _, sample := range regexp.MustCompile(`(?m)^flagship_loop_longest_running_seconds\{loop="([^"]*)"\} `).FindAllStringSubmatch(text, -1) {
		names = append(names, sample[1])
	}
	if len(names) < 30 || !slices.Contains(names, "exported-endpoints") { // which is a part of another loop
		t.Errorf("the metric has the loops %q", names)
	}
	return names
}

// TestEveryLoopIsInReadyz: each loop that exists has a line of its own and a path of its own.
func TestEveryLoopIsInReadyz(t *testing.T) {
	fleet := shared.Start(t)
	var body string
	if err := eventually(t, func(ctx context.Context) error { // on a busy machine a loop may wait for long
		code, text, err := page(ctx, fleet.Hub.Config, "/readyz?verbose")
		body = text
		return errors.Join(err, answered(code, text))
	}); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(loops(t, fleet), "caches") {
		if !strings.Contains(body, "[+]"+name+" ok\n") {
			t.Errorf("/readyz?verbose has no line for %s", name)
		}
		if err := eventually(t, func(ctx context.Context) error {
			code, one, err := page(ctx, fleet.Hub.Config, "/readyz/"+url.PathEscape(name))
			return errors.Join(err, answered(code, one), equal("ok", one))
		}); err != nil {
			t.Errorf("/readyz/%s: %v", name, err)
		}
	}
}
