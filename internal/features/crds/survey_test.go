package crds

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/flagship-k8s/flagship/internal/features/crds/compare"
	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"
)

var gears = runtimeschema.GroupVersionResource{Group: "example.io", Version: "v1", Resource: "gears"}

// memberWith has the objects, each a name and its spec.
func memberWith(specs map[string]map[string]any) *dynamicfake.FakeDynamicClient {
	var objects []runtime.Object
	for name, spec := range specs {
		objects = append(objects, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.io/v1", "kind": "Gear", "metadata": map[string]any{"namespace": "shop", "name": name}, "spec": spec,
		}})
	}
	return dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[runtimeschema.GroupVersionResource]string{gears: "GearList"}, objects...)
}

func wantedGears(t *testing.T) *apiextensionsv1.CustomResourceDefinitionSpec {
	t.Helper()
	spec := &apiextensionsv1.CustomResourceDefinitionSpec{}
	err := yaml.UnmarshalStrict([]byte(`
group: example.io
names: {plural: gears, kind: Gear}
versions:
- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {teeth: {type: integer, maximum: 9}}}}}}}
- {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
`), spec)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestASurveyCountsWhatAChangeConcerns(t *testing.T) {
	client := memberWith(map[string]map[string]any{
		"fine": {"teeth": int64(3)}, "large": {"teeth": int64(30)}, "metal": {"teeth": int64(3), "metal": "iron"},
	})
	got := survey(t.Context(), &commission{client: client, spec: wantedGears(t), versions: []string{"v1"}})
	want := Count{Total: 3, Invalid: 1, Losing: 1, Examples: []string{
		"shop/large: spec.teeth: Invalid value: 30: spec.teeth in body should be less than or equal to 9",
		"shop/metal: loses spec.metal",
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// paged is a member's resource of which one page has two objects, and there are three.
type paged struct {
	dynamic.ResourceInterface
	asked []string
}

func (p *paged) List(_ context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	p.asked = append(p.asked, fmt.Sprintf("%d from %q", options.Limit, options.Continue))
	page := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "example.io/v1", "kind": "GearList"}}
	if len(p.asked) < 3 {
		page.SetContinue(fmt.Sprint("page ", len(p.asked)))
	}
	for i := range 2 {
		gear := unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"teeth": int64(30)}}}
		gear.SetName(fmt.Sprint(len(p.asked), "-", i))
		page.Items = append(page.Items, gear)
	}
	return page, nil
}

// TestASurveyIsMadePageByPage: a member may have more objects than fit into memory.
func TestASurveyIsMadePageByPage(t *testing.T) {
	j, err := compare.NewValidator(&wantedGears(t).Versions[0])
	if err != nil {
		t.Fatal(err)
	}
	var count Count
	member := &paged{}
	if err := count.add(t.Context(), member, j); err != nil {
		t.Fatal(err)
	}
	if count.Total != 6 || count.Invalid != 6 || len(count.Examples) != examples {
		t.Errorf("got %+v, want six objects, all of them invalid, and some for examples", count)
	}
	want := []string{`200 from ""`, `200 from "page 1"`, `200 from "page 2"`}
	if diff := cmp.Diff(want, member.asked); diff != "" {
		t.Errorf("the pages that were asked for -want +got:\n%s", diff)
	}
}

func TestASurveyThatFailsIsMadeAgain(t *testing.T) {
	client := memberWith(map[string]map[string]any{"fine": {"teeth": int64(3)}})
	down := true
	client.PrependReactor("list", "gears", func(clienttesting.Action) (bool, runtime.Object, error) {
		if down {
			return true, nil, errors.New("no route")
		}
		return false, nil, nil
	})
	clk := clocktesting.NewFakePassiveClock(time.Now())
	s := newSurveys(clk)
	what := subject{"member1", "gears.example.io"}
	change := commission{change: "a", client: client, spec: wantedGears(t), versions: []string{"v1"}}
	turn := func() {
		got, _ := s.queue.Get()
		s.execute(t.Context(), got)
		s.queue.Done(got)
	}
	if _, counted := s.ask(what, change); counted {
		t.Fatal("it is counted before the survey")
	}
	for i := range attempts {
		turn()
		count, counted := s.ask(what, change)
		if !counted || count.Failure == "" {
			t.Fatalf("got %+v, want a failure", count)
		}
		if last := i == attempts-1; count.final() != last {
			t.Errorf("after %d failures the count is final: %v", i+1, !last)
		}
	}
	down = false
	turn()
	if count, counted := s.ask(what, change); !counted || count.Failure != "" || count.Total != 1 {
		t.Fatalf("got %+v, want one object", count)
	}

	// What was counted long ago is counted again, by way of the connection there is now.
	change.client = memberWith(map[string]map[string]any{"fine": {"teeth": int64(3)}, "large": {"teeth": int64(30)}})
	if s.ask(what, change); s.queue.Len() != 0 {
		t.Error("a count is made again at once")
	}
	clk.SetTime(clk.Now().Add(stale))
	if count, counted := s.ask(what, change); !counted || count.Total != 1 {
		t.Fatalf("got %+v, want the old count until there is a new one", count)
	}
	turn()
	if count, counted := s.ask(what, change); !counted || count.Total != 2 || count.Invalid != 1 {
		t.Fatalf("got %+v, want two objects, one of them invalid", count)
	}
	other := change
	other.change = "b"
	if _, counted := s.ask(what, other); counted {
		t.Error("the count of one change is taken for another's")
	}
}

// TestACountIsOfOneDefinition: two changes of which the same is said are two changes.
func TestACountIsOfOneDefinition(t *testing.T) {
	from := &apiextensionsv1.CustomResourceDefinition{Spec: *wantedGears(t)}
	allowing := func(values ...string) *apiextensionsv1.CustomResourceDefinition {
		to := from.DeepCopy()
		spec := to.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		teeth := spec.Properties["teeth"]
		for _, value := range values {
			teeth.Enum = append(teeth.Enum, apiextensionsv1.JSON{Raw: []byte(value)})
		}
		spec.Properties["teeth"] = teeth
		return to
	}
	few, more := allowing("3"), allowing("3", "4")
	said := func(to *apiextensionsv1.CustomResourceDefinition) string {
		return fmt.Sprint(compare.Compare(&from.Spec, &to.Spec, nil))
	}
	if said(few) != said(more) {
		t.Fatal("the messages differ; take others")
	}
	if betweenOf(from, few) == betweenOf(from, more) {
		t.Error("the count of one change is taken for another's")
	}
	if betweenOf(from, few) != betweenOf(from, allowing("3")) {
		t.Error("the same change is counted twice")
	}
}

func TestACountThatPanicsFails(t *testing.T) {
	s := newSurveys(clocktesting.NewFakeClock(time.Now()))
	what := subject{"m1", "gears.example.io"}
	s.ask(what, commission{change: "a"}) // without a definition, which cannot be counted
	s.execute(t.Context(), what)
	if count, counted := s.ask(what, commission{change: "a"}); !counted || count.Failure == "" {
		t.Errorf("got %+v, %t, want a failed count", count, counted)
	}
}
