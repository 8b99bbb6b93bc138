package scale

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestQuantilesAreOfTheNearestRank(t *testing.T) {
	sample := []float64{5, 1, 4, 2, 3, 6, 7, 8, 9, 10}
	for q, want := range map[float64]float64{0: 1, .5: 5, .9: 9, .95: 10, 1: 10} {
		if got := quantile(sample, q); got != want {
			t.Errorf("the quantile %v is %v, want %v", q, got, want)
		}
	}
	if !math.IsNaN(quantile(nil, .5)) {
		t.Error("the median of nothing is a number")
	}
}

func TestFiguresAreATableAndJSON(t *testing.T) {
	var log, table, file bytes.Buffer
	r := report{log: &log}
	r.add("join", "CPU", 0.1234, "s")
	r.distribution("place", "placement", []float64{1, 2.25, 3})
	r.distribution("hang", "nothing", nil)
	if err := r.print(&table, &file); err != nil {
		t.Fatal(err)
	}
	if text := table.String(); !strings.Contains(text, "0.123 s") || !strings.Contains(text, "p50 2.2, p90 3, p95 3, max 3 s") {
		t.Errorf("the table is\n%s", text)
	}
	var figures []Figure
	if err := json.Unmarshal(file.Bytes(), &figures); err != nil {
		t.Fatal(err)
	}
	if len(figures) != 5 || figures[1] != (Figure{"place", "placement p50", 2.25, "s"}) {
		t.Errorf("the figures are %v, want those that are numbers", figures)
	}
	if !strings.Contains(log.String(), "max 3 s") {
		t.Errorf("the progress is\n%s", log.String())
	}
}

func TestMetricsAreAddedUp(t *testing.T) {
	text := "# TYPE depth gauge\ndepth{loop=\"a\"} 2\ndepth{loop=\"b\"} 1e+01\ndepth_total 7\ngo_goroutines 42\n"
	got, err := sums(text, "depth", "go_goroutines", "absent")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]float64{"depth": 12, "go_goroutines": 42, "absent": 0}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := sums("depth many\n", "depth"); err == nil {
		t.Error("a sample that is no number is accepted")
	}
}

func TestWatchesOfAgentsAreCounted(t *testing.T) {
	text := []byte(`apiserver_longrunning_requests{component="apiserver",group="work.karmada.io",resource="works",scope="namespace",subresource="",verb="WATCH",version="v1alpha1"} 998
apiserver_longrunning_requests{component="apiserver",group="work.karmada.io",resource="works",scope="cluster",subresource="",verb="WATCH",version="v1alpha1"} 4
apiserver_request_total{code="429",component="apiserver",resource="works",scope="namespace",verb="WATCH"} 3
apiserver_request_total{code="200",component="apiserver",resource="works",scope="namespace",verb="LIST"} 5
apiserver_request_total{code="200",component="apiserver",resource="works",scope="namespace",verb="POST"} 7
`)
	if got := [3]float64{sumOf(text, watching), sumOf(text, refused), sumOf(text, listed)}; got != [3]float64{998, 3, 5} {
		t.Errorf("counted %v", got)
	}
}

func TestAPlacementIsDoneWithItsLastMember(t *testing.T) {
	p := placement{0: 9, 1: 2, 2: 3}
	if got := p.all(noMember); got != 9 {
		t.Errorf("all after %v", got)
	}
	if got := p.all(func(member int) bool { return member == 0 }); got != 3 {
		t.Errorf("all others after %v", got)
	}
	b := &bench{Options: Options{Members: 10, Targets: 4}}
	if diff := cmp.Diff(b.targets(3), b.targets(3)); diff != "" || len(b.targets(3)) != 4 {
		t.Errorf("the targets of a placement are not the same in every run: %s", diff)
	}
}

func TestOptionsThatCannotBeMeasuredAreRefused(t *testing.T) {
	for _, o := range []Options{{Members: 1, Targets: 2}, {Members: 1, Hanging: 2}, {Members: 1, Gone: 2}, {Members: 1, Steps: []string{"dance"}}} {
		if o.validate() == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	if err := (Options{Members: 2, Targets: 2, Steps: []string{"idle"}}).validate(); err != nil {
		t.Error(err)
	}
}
