package aggregate_test

import (
	"context"
	"path"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func newInterpreter() (interpret.Interpreter, *testingclock.FakePassiveClock) {
	clk := testingclock.NewFakePassiveClock(noon)
	return interpret.Chain(builtin.New(clk)), clk
}

// object reads an object as a client of an API server would: whole numbers are
// int64.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	return &unstructured.Unstructured{Object: fields(t, text)}
}

func fields(t *testing.T, text string) map[string]any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("reading %q: %v", text, err)
	}
	result := map[string]any{}
	if err := utiljson.Unmarshal(data, &result); err != nil {
		t.Fatalf("reading %q: %v", text, err)
	}
	return result
}

// item is the report of a cluster whose copy is applied and healthy.
func item(t *testing.T, cluster, status string) workv1alpha2.AggregatedStatusItem {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(status))
	if err != nil {
		t.Fatalf("reading %q: %v", status, err)
	}
	return workv1alpha2.AggregatedStatusItem{
		ClusterName: cluster, Status: &runtime.RawExtension{Raw: data},
		Applied: true, Health: workv1alpha2.ResourceHealthy,
	}
}

// silent is a cluster that has not reported yet.
func silent(cluster string) workv1alpha2.AggregatedStatusItem {
	return workv1alpha2.AggregatedStatusItem{ClusterName: cluster}
}

// lost makes the item one of a cluster that cannot be reached.
func lost(item workv1alpha2.AggregatedStatusItem) workv1alpha2.AggregatedStatusItem {
	item.Health = workv1alpha2.ResourceUnknown
	return item
}

// aggregate folds the items and checks the rules that hold for every kind:
// the template is not touched, and folding the result again changes nothing.
func aggregate(t *testing.T, template *unstructured.Unstructured, items ...workv1alpha2.AggregatedStatusItem) *unstructured.Unstructured {
	t.Helper()
	i, clk := newInterpreter()
	before := template.DeepCopy()
	result, err := i.Aggregate(context.Background(), template, items)
	if err != nil {
		t.Fatalf("Aggregate: %v", err)
	}
	if diff := cmp.Diff(before.Object, template.Object); diff != "" {
		t.Fatalf("Aggregate changed its argument (-before +after):\n%s", diff)
	}
	clk.SetTime(noon.Add(time.Hour))
	again, err := i.Aggregate(context.Background(), result, items)
	if err != nil {
		t.Fatalf("Aggregate of its own result: %v", err)
	}
	if again != result {
		t.Fatalf("Aggregate of its own result returned another object (-first +second):\n%s", cmp.Diff(result.Object, again.Object))
	}
	return result
}

// conditionOf returns the status and reason of a condition, empty if absent.
func conditionOf(obj *unstructured.Unstructured, name string) (status, reason string) {
	list, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, entry := range list {
		condition := entry.(map[string]any)
		if condition["type"] == name {
			status, _ = condition["status"].(string)
			reason, _ = condition["reason"].(string)
		}
	}
	return status, reason
}

// ofKind reads an object without the fields of its kind, which is given as group/version/Kind.
func ofKind(t *testing.T, kind, text string) *unstructured.Unstructured {
	t.Helper()
	obj := object(t, text)
	obj.SetAPIVersion(path.Dir(kind))
	obj.SetKind(path.Base(kind))
	return obj
}
