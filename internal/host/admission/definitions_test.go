package admission_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kadmission "k8s.io/apiserver/pkg/admission"

	"github.com/flagship-k8s/flagship/internal/host/admission"
)

func TestDefinitionsInUseAreNotDeleted(t *testing.T) {
	definition := func(change func(*apiextensions.CustomResourceDefinition)) runtime.Object {
		d := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "gears.example.io"}}
		d.Spec.Group, d.Spec.Names.Kind = "example.io", "Gear"
		change(d)
		return d
	}
	plain := definition(func(*apiextensions.CustomResourceDefinition) {})
	tests := map[string]struct {
		old     runtime.Object
		counts  map[string]int
		err     error
		refused func(error) bool
		words   string
	}{
		"nowhere": {old: plain},
		"in use":  {old: plain, counts: map[string]int{"b": 2, "a": 1}, refused: apierrors.IsForbidden, words: "1 in a, 2 in b"},
		"unknown": {old: plain, err: errors.New("starting"), refused: apierrors.IsServiceUnavailable, words: "starting"},
		"on its way out": {
			old: definition(func(d *apiextensions.CustomResourceDefinition) {
				d.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			}),
			counts: map[string]int{"a": 1},
		},
		"allowed": {
			old: definition(func(d *apiextensions.CustomResourceDefinition) {
				d.Annotations = map[string]string{"flagship.io/allow-deletion-with-instances": "true"}
			}),
			counts: map[string]int{"a": 1},
		},
		"something else": {old: object(t, "{apiVersion: v1, kind: ConfigMap}"), counts: map[string]int{"a": 1}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plugin := admission.NewDefinitions(func(_ context.Context, group, kind string) (map[string]int, bool, error) {
				if group != "example.io" || kind != "Gear" {
					t.Errorf("asked about %s %s", group, kind)
				}
				return tc.counts, true, tc.err
			}, 100*time.Millisecond)
			err := plugin.Validate(t.Context(), kadmission.NewAttributesRecord(nil, tc.old, schema.GroupVersionKind{}, "", "gears.example.io",
				schema.GroupVersionResource{}, "", kadmission.Delete, nil, false, nil), nil)
			if tc.refused == nil && err != nil {
				t.Errorf("refused: %v", err)
			}
			if tc.refused != nil && (!tc.refused(err) || !strings.Contains(err.Error(), tc.words)) {
				t.Errorf("got %v, want a refusal that says %q", err, tc.words)
			}
		})
	}
}

// One file has a definition and its objects, and kubectl deletes one after the other.
func TestTheDeletionOfADefinitionWaitsForItsObjects(t *testing.T) {
	definition := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "gears.example.io"}}
	for name, tc := range map[string]struct {
		left    func(call int) (counts map[string]int, wanted bool)
		refused bool
	}{
		"they go":         {func(int) (map[string]int, bool) { return map[string]int{"a": 1}, false }, true},
		"they are gone":   {func(call int) (map[string]int, bool) { return map[bool]map[string]int{true: {"a": 1}}[call < 3], false }, false},
		"they are wanted": {func(call int) (map[string]int, bool) { return map[bool]map[string]int{true: {"a": 1}}[call < 2], true }, true},
	} {
		t.Run(name, func(t *testing.T) {
			call := 0
			plugin := admission.NewDefinitions(func(context.Context, string, string) (map[string]int, bool, error) {
				call++
				counts, wanted := tc.left(call)
				return counts, wanted, nil
			}, 400*time.Millisecond)
			err := plugin.Validate(t.Context(), kadmission.NewAttributesRecord(nil, definition, schema.GroupVersionKind{}, "", "gears.example.io",
				schema.GroupVersionResource{}, "", kadmission.Delete, nil, false, nil), nil)
			if apierrors.IsForbidden(err) != tc.refused {
				t.Errorf("got %v after %d calls", err, call)
			}
		})
	}
}

// A server that ends has not read whether the objects would have gone: that is no refusal.
func TestADeletionThatWaitsEndsWithTheServer(t *testing.T) {
	definition := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "gears.example.io"}}
	request, end := context.WithCancel(t.Context())
	plugin := admission.NewDefinitions(func(context.Context, string, string) (map[string]int, bool, error) {
		end()
		return map[string]int{"a": 1}, false, nil
	}, time.Hour)
	err := plugin.Validate(request, kadmission.NewAttributesRecord(nil, definition, schema.GroupVersionKind{}, "", "gears.example.io",
		schema.GroupVersionResource{}, "", kadmission.Delete, nil, false, nil), nil)
	if !apierrors.IsServiceUnavailable(err) {
		t.Errorf("got %v, want 503", err)
	}
}
