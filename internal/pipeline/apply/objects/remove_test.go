package objects

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

func TestWhatWasTakenOverIsReleasedUnlessTheWorkSaysOtherwise(t *testing.T) {
	yes, no := true, false
	adopted := func(kind string) *unstructured.Unstructured {
		return object(t, fmt.Sprintf(`{apiVersion: v1, kind: %s, metadata: {name: a, annotations: {flagship.io/adopted: "true"}}}`, kind))
	}
	for name, tc := range map[string]struct {
		preserve *bool
		object   *unstructured.Unstructured
		want     bool
	}{
		"Unset":     {nil, adopted("Secret"), true},
		"InWords":   {&no, adopted("Secret"), false},
		"Preserved": {&yes, adopted("Secret"), true},
		"Namespace": {&no, adopted("Namespace"), true},
		"Made":      {nil, object(t, `{apiVersion: v1, kind: Secret, metadata: {name: a}}`), false},
	} {
		w := &workv1alpha1.Work{Spec: workv1alpha1.WorkSpec{PreserveResourcesOnDeletion: tc.preserve}}
		if got := TermsOf(w).Keep(tc.object); got != tc.want {
			t.Errorf("%s: it is kept: %t", name, got)
		}
	}
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	return &unstructured.Unstructured{Object: decode(t, text)}
}

// decode reads YAML as an API server's JSON is read.
func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	fields := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}
