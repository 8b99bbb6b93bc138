package scale

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
	for _, o := range []Options{
		{Servers: 1, Members: 1, Targets: 2}, {Servers: 1, Members: 1, Hanging: 2}, {Servers: 1, Members: 1, Gone: 2}, {Servers: 1, Members: 1, Steps: []string{"dance"}},
		{Members: 1}, {Servers: 1, Members: 1, ShardMembers: true}, {Servers: 2, Members: 1, Steps: []string{"restart"}},
	} {
		if o.validate() == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	for _, o := range []Options{{Servers: 1, Members: 2, Targets: 2, Steps: []string{"idle"}}, {Servers: 2, ShardMembers: true, Members: 2}} {
		if err := o.validate(); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if o := (Options{Servers: 2}); o.selects("restart") || !o.selects("gone") {
		t.Error("with several servers, the steps are not those that can be measured")
	}
}
