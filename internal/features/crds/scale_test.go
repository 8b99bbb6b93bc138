package crds

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

// scaled is the layer of a hub on which v1 of Book has its replicas in spec.shelf.size, v1beta1 in spec.replicas, and v1alpha1 nowhere.
func scaled(s *shelf) *Scale {
	for i, path := range []string{".spec.shelf.size", ".spec.replicas"} {
		s.definition.Spec.Versions[i].Subresources = &apiextensionsv1.CustomResourceSubresources{
			Scale: &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: path, StatusReplicasPath: ".status.replicas"},
		}
	}
	s.definition.Spec.Versions[2].Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	return carrierOf(s, scribe{}).Scale(func(kind runtimeschema.GroupVersionKind) bool { return kind.Version != "v1alpha1" })
}

func book(version string, spec map[string]any) *unstructured.Unstructured {
	obj := written(library, version, "Book")
	obj.Object["spec"] = spec
	return obj
}

func shelved(size any) map[string]any {
	return map[string]any{"shelf": map[string]any{"size": size, "wide": true}, "replicas": int64(99)}
}

func TestWhichKindsHaveAScale(t *testing.T) {
	for name, test := range map[string]struct {
		kind runtimeschema.GroupVersionKind
		want bool
	}{
		"one that is defined with it":  {runtimeschema.GroupVersionKind{Group: library, Version: "v1", Kind: "Book"}, true},
		"a version without it":         {runtimeschema.GroupVersionKind{Group: library, Version: "v1alpha1", Kind: "Book"}, false},
		"one that is not defined here": {runtimeschema.GroupVersionKind{Group: library, Version: "v1", Kind: "Leaf"}, false},
		"a built-in":                   {runtimeschema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Book"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf("v1", "v1beta1", "v1alpha1")
			operations := scaled(s).Lookup(test.kind)
			if got := operations != nil && operations.Replicas != nil && operations.Revise != nil; got != test.want || s.reads > 0 {
				t.Errorf("it has operations: %v, after %d reads", got, s.reads)
			}
		})
	}
}

func TestReplicasAreWhereTheDefinitionSays(t *testing.T) {
	known := func(n int32) interpret.ReplicaResult { return interpret.ReplicaResult{Known: true, Replicas: n} }
	for name, test := range map[string]struct {
		obj  *unstructured.Unstructured
		want interpret.ReplicaResult
		err  string
	}{
		"in a field of a field":     {obj: book("v1", shelved(int64(6))), want: known(6)},
		"in spec.replicas":          {obj: book("v1beta1", shelved(int64(6))), want: known(99)},
		"nowhere":                   {obj: book("v1alpha1", shelved(int64(6)))},
		"in a version not defined":  {obj: book("v7", shelved(int64(6)))},
		"none":                      {obj: book("v1", shelved(int64(0))), want: known(0)},
		"as many as there can be":   {obj: book("v1", shelved(int64(math.MaxInt32))), want: known(math.MaxInt32)},
		"more than there can be":    {obj: book("v1", shelved(int64(math.MaxInt32+1))), err: "spec.shelf.size is no number of replicas"},
		"less than none":            {obj: book("v1", shelved(int64(-1))), err: "spec.shelf.size is no number of replicas"},
		"a text":                    {obj: book("v1", shelved("6")), err: "spec.shelf.size is no number of replicas"},
		"the field is missing":      {obj: book("v1", map[string]any{"shelf": map[string]any{}}), want: known(1)},
		"that above it is missing":  {obj: book("v1", map[string]any{}), want: known(1)},
		"that above it is a number": {obj: book("v1", map[string]any{"shelf": int64(6)}), err: "spec.shelf.size is no number of replicas"},
	} {
		t.Run(name, func(t *testing.T) {
			before := test.obj.DeepCopy()
			got, err := scaled(newShelf("v1", "v1beta1", "v1alpha1")).replicas(t.Context(), test.obj)
			if (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("error %v, want %q", err, test.err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(before, test.obj); diff != "" {
				t.Errorf("the object changed: -before +after:\n%s", diff)
			}
		})
	}
}

func TestWhatAReplicaNeedsIsThatOfItsPods(t *testing.T) {
	container := map[string]any{"name": "c", "resources": map[string]any{"requests": map[string]any{"cpu": "250m"}}}
	for name, test := range map[string]struct {
		template any
		want     string // of cpu; "" for no requirements
	}{
		"a template of pods":   {map[string]any{"spec": map[string]any{"containers": []any{container}}}, "250m"},
		"no template":          {nil, ""},
		"another template":     {map[string]any{"spec": map[string]any{"containers": "many"}}, ""},
		"a template of a text": {"pod", ""},
	} {
		t.Run(name, func(t *testing.T) {
			spec := shelved(int64(2))
			if test.template != nil {
				spec["template"] = test.template
			}
			got, err := scaled(newShelf("v1", "v1beta1", "v1alpha1")).replicas(t.Context(), book("v1", spec))
			if err != nil || got.Replicas != 2 || (got.Requirements != nil) != (test.want != "") {
				t.Fatalf("got %+v, %v", got, err)
			}
			if test.want != "" && got.Requirements.ResourceRequest.Cpu().String() != test.want {
				t.Errorf("a replica needs %v", got.Requirements.ResourceRequest)
			}
		})
	}
}

func TestReplicasAreSetWhereTheDefinitionSays(t *testing.T) {
	for name, test := range map[string]struct {
		obj  *unstructured.Unstructured
		want map[string]any // nil: an error
	}{
		"in a field of a field":     {book("v1", shelved(int64(6))), shelved(int64(4))},
		"in spec.replicas":          {book("v1beta1", map[string]any{"replicas": int64(6)}), map[string]any{"replicas": int64(4)}},
		"nowhere":                   {book("v1alpha1", shelved(int64(6))), shelved(int64(6))},
		"the field is missing":      {book("v1", map[string]any{"a": "b"}), map[string]any{"a": "b", "shelf": map[string]any{"size": int64(4)}}},
		"that above it is a number": {book("v1", map[string]any{"shelf": int64(6)}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			before := test.obj.DeepCopy()
			got, err := scaled(newShelf("v1", "v1beta1", "v1alpha1")).revise(t.Context(), test.obj, 4)
			if (err != nil) != (test.want == nil) {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(before, test.obj); diff != "" {
				t.Errorf("the object itself changed: -before +after:\n%s", diff)
			}
			if err != nil {
				return
			}
			if diff := cmp.Diff(test.want, got.Object["spec"]); diff != "" || got.GetName() != "it" {
				t.Errorf("%s: -want +got:\n%s", got.GetName(), diff)
			}
		})
	}
}

// TestTheScaleFollowsTheDefinition: a path that changes counts from the next generation of the definition on.
func TestTheScaleFollowsTheDefinition(t *testing.T) {
	s := newShelf("v1", "v1beta1", "v1alpha1")
	layer := scaled(s)
	for _, step := range []struct {
		path string
		want int32
	}{{".spec.shelf.size", 6}, {".spec.replicas", 99}} {
		s.definition.Spec.Versions[0].Subresources.Scale.SpecReplicasPath = step.path
		s.definition.Generation++
		for range 2 {
			if got, err := layer.replicas(t.Context(), book("v1", shelved(int64(6)))); err != nil || got.Replicas != step.want {
				t.Errorf("with %s: %+v, %v", step.path, got, err)
			}
		}
	}
	if s.reads != 2 {
		t.Errorf("the definition is read %d times", s.reads)
	}
}

// TestADefinitionThatCannotBeReadIsAnError: an answer without replicas would take the object for one that has none.
func TestADefinitionThatCannotBeReadIsAnError(t *testing.T) {
	s := newShelf("v1", "v1beta1", "v1alpha1")
	s.unreadable = errors.New("away")
	layer := scaled(s)
	if got, err := layer.replicas(t.Context(), book("v1", shelved(int64(6)))); !errors.Is(err, s.unreadable) || got.Known {
		t.Errorf("the replicas are %+v, %v", got, err)
	}
	if _, err := layer.revise(t.Context(), book("v1", shelved(int64(6))), 4); !errors.Is(err, s.unreadable) {
		t.Errorf("the replicas are set, %v", err)
	}
}
