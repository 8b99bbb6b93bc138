package observability_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// metric is a row of docs/metrics.md. The test of the product's layout compares the page with what the code registers.
type metric struct {
	histogram bool
	labels    []string
}

// others are metrics of the programs inside, with their labels. The test of the support bundle finds them in /metrics.
var others = map[string]metric{
	"workqueue_queue_duration_seconds":          {true, []string{"name"}},
	"controller_runtime_reconcile_panics_total": {false, []string{"controller"}},
	"workqueue_depth":                           {false, []string{"name"}},
	"apiserver_request_total":                   {false, []string{"verb", "code"}},
	"etcd_disk_wal_fsync_duration_seconds":      {true, nil},
	"process_resident_memory_bytes":             {false, nil},
	"etcd_requests_total":                       {false, []string{"operation", "group", "resource"}},
	"etcd_request_errors_total":                 {false, []string{"operation", "group", "resource"}},
	"leader_election_master_status":             {false, []string{"name"}}, // test/servers reads it, and the two above
	"up":                                        {false, nil},              // Prometheus' own
}

func documented(t *testing.T) map[string]metric {
	t.Helper()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]metric{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(flagship_[a-z_]+)` \\| (counter|gauge|histogram)(?:: ([^|]*))? \\|").FindAllStringSubmatch(string(page), -1) {
		m := metric{histogram: row[2] == "histogram"}
		for _, label := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[3], -1) {
			m.labels = append(m.labels, label[1])
		}
		found[row[1]] = m
	}
	if len(found) < 40 {
		t.Fatalf("read only %d metrics from the page", len(found))
	}
	for name, m := range others {
		found[name] = m
	}
	return found
}

// check compares what an expression selects and groups by with the metrics.
func check(t *testing.T, where, expression string, known map[string]metric) {
	t.Helper()
	expr, err := parser.ParseExpr(expression)
	if err != nil {
		t.Errorf("%s: %v in %s", where, err, expression)
		return
	}
	// Grouping is checked against all metrics below it.
	var below func(node parser.Node) (names []string)
	below = func(node parser.Node) (names []string) {
		parser.Inspect(node, func(n parser.Node, _ []parser.Node) error {
			if selector, is := n.(*parser.VectorSelector); is {
				names = append(names, selector.Name)
			}
			return nil
		})
		return names
	}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		switch node := n.(type) {
		case *parser.VectorSelector:
			m, exists := find(known, node.Name)
			if !exists {
				t.Errorf("%s: there is no metric %s, or it is no histogram", where, node.Name)
				return nil
			}
			for _, matcher := range node.LabelMatchers {
				if matcher.Name != labels.MetricName && !slices.Contains(m.labels, matcher.Name) {
					t.Errorf("%s: %s has no label %s", where, node.Name, matcher.Name)
				}
			}
		case *parser.AggregateExpr:
			for _, name := range below(node.Expr) {
				m, _ := find(known, name)
				for _, label := range node.Grouping {
					if !slices.Contains(m.labels, label) && label != "instance" {
						t.Errorf("%s: %s has no label %s", where, name, label)
					}
				}
			}
		}
		return nil
	})
	if len(below(expr)) == 0 {
		t.Errorf("%s selects nothing: %s", where, expression)
	}
}

// find returns a metric by the name of a sample.
func find(known map[string]metric, sample string) (metric, bool) {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if name, cut := strings.CutSuffix(sample, suffix); cut && known[name].histogram {
			m := known[name]
			if suffix == "_bucket" {
				m.labels = append(slices.Clone(m.labels), "le")
			}
			return m, true
		}
	}
	m, exists := known[sample]
	return m, exists && !m.histogram
}

func TestRulesUseMetricsThatExist(t *testing.T) {
	known := documented(t)
	for _, rule := range alerts(t) {
		check(t, rule.Alert, rule.Expr, known)
	}
}

func TestTheDashboardUsesMetricsThatExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(deploy, "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Title, UID string
		Panels     []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	known, seen := documented(t), map[int]bool{}
	for _, panel := range dashboard.Panels {
		if seen[panel.ID] || panel.Title == "" || len(panel.Targets) == 0 || panel.GridPos.X+panel.GridPos.W > 24 {
			t.Errorf("panel %d %q has no number of its own, no title, no query, or does not fit", panel.ID, panel.Title)
		}
		seen[panel.ID] = true
		for _, target := range panel.Targets {
			check(t, panel.Title, strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"), known)
		}
	}
	if dashboard.UID == "" || len(dashboard.Panels) < 10 {
		t.Errorf("%q has %d panels", dashboard.Title, len(dashboard.Panels))
	}
}

// TestWrongExpressionsAreFound: the checks above can fail.
func TestWrongExpressionsAreFound(t *testing.T) {
	for _, expression := range []string{
		"flagship_no_such_metric", `flagship_cluster_ready{loop="x"}`, "max by (loop) (flagship_cluster_ready)", "flagship_work_arrival_seconds", "flagship_cluster_ready_bucket", "1 +", "1",
	} {
		probe := &testing.T{}
		check(probe, "probe", expression, documented(t))
		if !probe.Failed() {
			t.Errorf("%s is accepted", expression)
		}
	}
}
