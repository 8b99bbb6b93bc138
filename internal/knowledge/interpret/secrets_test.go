package interpret_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// secret has the values canary-NAME of the given keys.
func secret(keys ...string) *unstructured.Unstructured {
	data := map[string]any{}
	for _, key := range keys {
		data[key] = "canary-" + key
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
		"metadata": map[string]any{"namespace": "shop", "name": "x", "annotations": map[string]any{"a": "b", lastApplied: "canary-applied"}},
		"data":     data, "stringData": map[string]any{"text": "canary-text"},
	}}
}

// spy is a layer with all operations that keeps what it was given.
type spy struct {
	seen   []string
	revise func(*unstructured.Unstructured) *unstructured.Unstructured
	retain func(desired, observed *unstructured.Unstructured) *unstructured.Unstructured
}

func (s *spy) see(objects ...*unstructured.Unstructured) {
	for _, obj := range objects {
		raw, err := json.Marshal(obj.Object)
		if err != nil {
			panic(err)
		}
		s.seen = append(s.seen, string(raw))
	}
}

func (s *spy) operations() *interpret.Operations {
	return &interpret.Operations{
		Replicas: func(_ context.Context, obj *unstructured.Unstructured) (interpret.ReplicaResult, error) {
			s.see(obj)
			return interpret.ReplicaResult{}, nil
		},
		Components: func(_ context.Context, obj *unstructured.Unstructured) ([]workv1alpha2.Component, error) {
			s.see(obj)
			return nil, nil
		},
		Reflect: func(_ context.Context, obj *unstructured.Unstructured) (*runtime.RawExtension, error) {
			s.see(obj)
			raw, err := json.Marshal(obj.Object)
			return &runtime.RawExtension{Raw: raw}, err
		},
		Health: func(_ context.Context, obj *unstructured.Unstructured) (workv1alpha2.ResourceHealth, error) {
			s.see(obj)
			return workv1alpha2.ResourceHealthy, nil
		},
		Aggregate: func(_ context.Context, template *unstructured.Unstructured, _ []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
			s.see(template)
			return interpret.WithStatus(template, map[string]any{"all": template.Object["data"]}), nil
		},
		Dependencies: func(_ context.Context, obj *unstructured.Unstructured) ([]interpret.Dependency, error) {
			s.see(obj)
			return nil, nil
		},
		Revise: func(_ context.Context, obj *unstructured.Unstructured, _ int32) (*unstructured.Unstructured, error) {
			s.see(obj)
			return s.revise(obj.DeepCopy()), nil
		},
		Retain: func(_ context.Context, desired, observed *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			s.see(desired, observed)
			return s.retain(desired, observed), nil
		},
	}
}

// TestNoLayerSeesTheValuesOfASecret goes through every operation.
func TestNoLayerSeesTheValuesOfASecret(t *testing.T) {
	same := func(obj *unstructured.Unstructured) *unstructured.Unstructured { return obj }
	s := &spy{revise: same, retain: func(desired, _ *unstructured.Unstructured) *unstructured.Unstructured { return desired.DeepCopy() }}
	chain, ctx, obj := interpret.Chain(layer{"Secret": s.operations()}), t.Context(), secret("a", "b")
	_, err := chain.Replicas(ctx, obj)
	_, errComponents := chain.Components(ctx, obj)
	status, errReflect := chain.Reflect(ctx, obj)
	_, errHealth := chain.Health(ctx, obj)
	aggregated, errAggregate := chain.Aggregate(ctx, obj, nil)
	_, errDependencies := chain.Dependencies(ctx, obj)
	revised, errRevise := chain.Revise(ctx, obj, 3)
	retained, errRetain := chain.Retain(ctx, obj, secret("b", "c"))
	for _, err := range []error{err, errComponents, errReflect, errHealth, errAggregate, errDependencies, errRevise, errRetain} {
		if err != nil {
			t.Error(err)
		}
	}
	if len(s.seen) != 9 {
		t.Errorf("%d objects were passed to the layer, want those of eight operations", len(s.seen))
	}
	for _, seen := range append(s.seen, string(status.Raw)) {
		if strings.Contains(seen, "canary") {
			t.Errorf("a layer sees %s", seen)
		}
	}
	if diff := cmp.Diff(secret("a", "b").Object, obj.Object); diff != "" {
		t.Errorf("the object was changed:\n%s", diff)
	}
	for what, result := range map[string]*unstructured.Unstructured{"Revise": revised, "Retain": retained} {
		if diff := cmp.Diff(obj.Object, result.Object); diff != "" {
			t.Errorf("%s did not put the values back:\n%s", what, diff)
		}
	}
	if got, _ := aggregated.Object["status"].(map[string]any); cmp.Diff(obj.Object["data"], aggregated.Object["data"]) != "" || got["all"] != nil {
		t.Errorf("Aggregate returned %v, want the template with its values and a status without them", aggregated.Object)
	}
}

// TestRetainMovesValuesItCannotRead: a script takes values of the member over by their keys.
func TestRetainMovesValuesItCannotRead(t *testing.T) {
	entries := func(obj *unstructured.Unstructured) map[string]any { return obj.Object["data"].(map[string]any) }
	for name, test := range map[string]struct {
		retain func(desired, observed *unstructured.Unstructured) // desired may be changed
		want   map[string]any
		fails  bool
	}{
		"Copied": {func(desired, observed *unstructured.Unstructured) { entries(desired)["c"] = entries(observed)["c"] }, map[string]any{"a": "canary-a", "b": "canary-b", "c": "canary-c"}, false},
		"Own":    {func(desired, _ *unstructured.Unstructured) { entries(desired)["c"] = "eA==" }, map[string]any{"a": "canary-a", "b": "canary-b", "c": "eA=="}, false},
		"Compared": {func(desired, observed *unstructured.Unstructured) {
			entries(desired)["a"] = entries(observed)["b"] == entries(desired)["b"]
		}, map[string]any{"a": true, "b": "canary-b"}, false},
		"Joined": {func(desired, observed *unstructured.Unstructured) {
			entries(desired)["c"] = "x" + entries(observed)["c"].(string)
		}, nil, true},
		"Annotation": {func(desired, observed *unstructured.Unstructured) {
			desired.SetAnnotations(map[string]string{"a": "b", "stolen": entries(observed)["c"].(string)})
		}, map[string]any{"a": "canary-a", "b": "canary-b"}, false},
	} {
		s := &spy{retain: func(desired, observed *unstructured.Unstructured) *unstructured.Unstructured {
			desired = desired.DeepCopy()
			test.retain(desired, observed)
			return desired
		}}
		retained, err := interpret.Chain(layer{"Secret": s.operations()}).Retain(t.Context(), secret("a", "b"), secret("b", "c"))
		if test.fails {
			if err == nil || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s: got %v, want an error without a value", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(test.want, retained.Object["data"]); diff != "" {
			t.Errorf("%s: data (-want +got):\n%s", name, diff)
		}
		if strings.Contains(retained.GetAnnotations()["stolen"], "canary") {
			t.Errorf("%s: a value is in an annotation, where more users may read it", name)
		}
	}
	unchanged := &spy{retain: func(desired, _ *unstructured.Unstructured) *unstructured.Unstructured { return desired }}
	desired := secret("a")
	if got, err := interpret.Chain(layer{"Secret": unchanged.operations()}).Retain(t.Context(), desired, secret("b")); err != nil || got != desired {
		t.Errorf("an object of which nothing is retained: %v, %v; want the object itself", got, err)
	}
}
