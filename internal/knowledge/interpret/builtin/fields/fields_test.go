package fields_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin/fields"
)

func with(spec, status map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"spec": spec, "status": status}}
}

func TestNumbers(t *testing.T) {
	for value, want := range map[any]int64{int64(3): 3, int32(3): 3, 3: 3, 3.0: 3, nil: 7} {
		if got, err := fields.SpecNumber(with(map[string]any{"replicas": value}, nil), "replicas", 7); err != nil || got != want {
			t.Errorf("SpecNumber of %v (%T) is %d, %v; want %d", value, value, got, err, want)
		}
	}
	for _, value := range []any{"3", 3.5, true} {
		if got, err := fields.SpecNumber(with(map[string]any{"replicas": value}, nil), "replicas", 7); err == nil {
			t.Errorf("SpecNumber of %v (%T) is %d, want an error", value, value, got)
		}
		if got := fields.StatusNumber(with(nil, map[string]any{"ready": value}), "ready"); value == "3" && got != 0 {
			t.Errorf("StatusNumber of text is %d, want 0", got)
		}
	}
	if got, err := fields.SpecNumber(&unstructured.Unstructured{Object: map[string]any{"spec": "none"}}, "replicas", 7); err == nil {
		t.Errorf("SpecNumber without a spec that is a map is %d, want an error", got)
	}
}

func TestConditions(t *testing.T) {
	got := fields.Conditions(with(nil, map[string]any{"conditions": []any{
		map[string]any{"type": "Ready", "status": "True", "reason": "AllWell", "observedGeneration": int64(2)},
		map[string]any{"type": "Stalled"}, map[string]any{"status": "True"}, "no condition",
	}}))
	want := map[string]fields.Condition{"Ready": {Status: "True", Reason: "AllWell", ObservedGeneration: 2}, "Stalled": {}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !got["Ready"].Stale(3) || got["Ready"].Stale(2) || got["Stalled"].Stale(3) {
		t.Error("a condition is stale if it has an observed generation before the object's")
	}
}

func TestPodSpec(t *testing.T) {
	obj := with(map[string]any{"template": map[string]any{"spec": map[string]any{"nodeName": "n"}}, "broken": map[string]any{"containers": 7}}, nil)
	for path, want := range map[string]string{"template": "n", "absent": ""} {
		if got, err := fields.PodSpec(obj, "spec", path, "spec"); err != nil || got.NodeName != want {
			t.Errorf("PodSpec at %s: %v, %v; want node %q", path, got, err, want)
		}
	}
	if _, err := fields.PodSpec(obj, "spec", "broken"); err == nil {
		t.Error("a pod spec whose containers are a number is read without an error")
	}
}
