package crds

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

func TestHeldBack(t *testing.T) {
	definition := func(edits ...func(*apiextensionsv1.CustomResourceDefinition)) *unstructured.Unstructured {
		d := newShelf("v1", "v2").definition
		d.TypeMeta = metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}
		d.Spec.Versions[0].Storage = true
		for _, edit := range edits {
			edit(d)
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d)
		if err != nil {
			t.Fatal(err)
		}
		return &unstructured.Unstructured{Object: content}
	}
	without := func(version int) func(*apiextensionsv1.CustomResourceDefinition) {
		return func(d *apiextensionsv1.CustomResourceDefinition) {
			d.Spec.Versions = append(d.Spec.Versions[:version:version], d.Spec.Versions[version+1:]...)
			d.Spec.Versions[0].Storage = true
		}
	}
	allowed := func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Annotations = map[string]string{workv1alpha1.AllowBreakingAnnotation: "true"}
	}
	scope := func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Scope = apiextensionsv1.ClusterScoped }
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	for name, tc := range map[string]struct {
		sent, desired *unstructured.Unstructured
		want          []string
	}{
		"the same":                            {definition(), definition(), nil},
		"a version that is gone":              {definition(), definition(without(1)), []string{"held back from cluster m1", workv1alpha1.AllowBreakingAnnotation + "=true"}},
		"that is allowed":                     {definition(), definition(without(1), allowed), nil},
		"a version in which objects are":      {definition(), definition(without(0), allowed), []string{"held back from cluster m1"}},
		"another scope cannot be allowed":     {definition(), definition(scope, allowed), []string{"held back from cluster m1"}},
		"what is no definition is not judged": {object, object, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := HeldBack("m1", tc.sent, tc.desired)
			if len(tc.want) == 0 && got != "" {
				t.Errorf("it is held back: %s", got)
			}
			for _, want := range tc.want {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in %q", want, got)
				}
			}
		})
	}
}
