package fields_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/flagship-k8s/flagship/internal/host/preview/fields"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest/bounded"
)

// TestThreeWay: a manifest without annotations removes those that the last one had, and leaves those of others, as "kubectl apply" does.
func TestThreeWay(t *testing.T) {
	for name, kind := range map[string]struct{ apiVersion, kind string }{
		"OfKubernetes": {"v1", "ConfigMap"},
		"Custom":       {"example.io/v1", "Gadget"},
	} {
		t.Run(name, func(t *testing.T) {
			object := func(annotations, data map[string]any) *unstructured.Unstructured {
				metadata := map[string]any{"name": "one"}
				if annotations != nil {
					metadata["annotations"] = annotations
				}
				return &unstructured.Unstructured{Object: map[string]any{"apiVersion": kind.apiVersion, "kind": kind.kind, "metadata": metadata, "data": data}}
			}
			for name, tc := range map[string]struct{ applied, want map[string]any }{
				"None":    {map[string]any{}, map[string]any{"policy": "try"}},
				"Removed": {map[string]any{"note": "a"}, map[string]any{"policy": "try"}},
			} {
				t.Run(name, func(t *testing.T) {
					last, err := json.Marshal(object(tc.applied, map[string]any{"a": "1", "b": "1"}).Object)
					if err != nil {
						t.Fatal(err)
					}
					annotations := map[string]any{"policy": "try", corev1.LastAppliedConfigAnnotation: string(last)}
					for key, value := range tc.applied {
						annotations[key] = value
					}
					present := object(annotations, map[string]any{"a": "1", "b": "1", "c": "of others"})
					patch, patchType, err := fields.ThreeWay(present, object(nil, map[string]any{"a": "2"}))
					if err != nil {
						t.Fatal(err)
					}
					before, err := json.Marshal(present.Object)
					if err != nil {
						t.Fatal(err)
					}
					var after []byte
					if patchType == types.StrategicMergePatchType {
						after, err = strategicpatch.StrategicMergePatch(before, patch, corev1.ConfigMap{})
					} else {
						after, err = jsonpatch.MergePatch(before, patch)
					}
					got := &unstructured.Unstructured{}
					if err == nil {
						err = got.UnmarshalJSON(after)
					}
					if err != nil {
						t.Fatal(err)
					}
					want := object(tc.want, map[string]any{"a": "2", "c": "of others"})
					if edits := fields.Edits(want, got); len(edits) > 0 {
						t.Errorf("it differs from what is wanted in %+v", edits)
					}
				})
			}
		})
	}
}

// TestLongListsAreComparedInBudget: those of a manifest and of an object that have nothing in common; longer ones are refused by name.
func TestLongListsAreComparedInBudget(t *testing.T) {
	pod := func(prefix string, n int) *unstructured.Unstructured {
		env := make([]any, n)
		for i := range env {
			env[i] = map[string]any{"name": fmt.Sprint(prefix, i)}
		}
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "one"},
			"spec": map[string]any{"containers": []any{map[string]any{"name": "a", "env": env}}}}}
	}
	present := pod("a", 2_000)
	last, err := json.Marshal(present.Object)
	if err != nil {
		t.Fatal(err)
	}
	present.SetAnnotations(map[string]string{corev1.LastAppliedConfigAnnotation: string(last)})
	bounded.Run(t, func() {
		patch, _, err := fields.ThreeWay(present, pod("b", 2_000))
		if err != nil {
			t.Fatal(err)
		}
		document, err := json.Marshal(present.Object)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := strategicpatch.StrategicMergePatch(document, patch, corev1.Pod{}); err != nil {
			t.Fatal(err)
		}
	})
	if _, _, err := fields.ThreeWay(present, pod("b", 2_001)); err == nil || !strings.Contains(err.Error(), "2001 entries in spec.containers[0].env") {
		t.Errorf("a longer list: %v", err)
	}
}
