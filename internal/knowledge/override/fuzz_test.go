package override_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/override"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest/bounded"
)

// FuzzOverride runs any overriders on any object. Whatever they do, it takes neither minutes nor gigabytes, it is the same object
// afterwards, the ownership keys are what they were, and the object that was given is not changed.
func FuzzOverride(f *testing.F) {
	addSeeds(f)
	addAttacks(f)
	f.Fuzz(func(t *testing.T, data, overriders []byte, namespaced bool) {
		var spec policyv1alpha1.Overriders
		content := map[string]any{}
		if utiljson.Unmarshal(data, &content) != nil || json.Unmarshal(overriders, &spec) != nil {
			return
		}
		template := &unstructured.Unstructured{Object: content}
		if template.GetKind() == "" || template.GetAPIVersion() == "" || template.GetName() == "" {
			return // an API server stores no such object
		}
		before := template.DeepCopy()
		policy := policyv1alpha1.Override(everywhere("edits", spec))
		if namespaced {
			policy = inNamespace(template.GetNamespace(), "edits", spec)
		}
		var result override.Result
		var err error
		bounded.Run(t, func() {
			result, err = override.Apply(t.Context(), template, member("m1"), []policyv1alpha1.Override{policy})
		})
		if !equality.Semantic.DeepEqual(before.Object, template.Object) { // cmp takes minutes for objects of 1 MB
			t.Fatalf("the given object was changed (-before +after):\n%s", cmp.Diff(before.Object, template.Object))
		}
		if err != nil {
			return
		}
		expectSameObject(t, before, result.Object)
		if namespaced && policy.GetNamespace() != "" && before.GroupVersionKind().Group == "rbac.authorization.k8s.io" {
			for _, field := range []string{"rules", "aggregationRule", "subjects", "roleRef"} {
				if was, is := before.Object[field], result.Object.Object[field]; !equality.Semantic.DeepEqual(was, is) {
					t.Fatalf("a policy of a namespace changed %s of a %s:\n%s", field, before.GetKind(), cmp.Diff(was, is))
				}
			}
		}
	})
}

func addSeeds(f *testing.F) {
	overriders := []policyv1alpha1.Overriders{
		plaintext("/kind", replace, `"ClusterRoleBinding"`),
		plaintext("/metadata", replace, `{"name": "web", "namespace": "kube-system"}`),
		plaintext("/metadata/labels", add, `{"karmada.io/managed": "true"}`),
		plaintext("/metadata/annotations/work.karmada.io~1name", add, `"other"`),
		plaintext("/metadata/labels", remove, ""),
		plaintext("/roleRef/name", replace, `"cluster-admin"`),
		plaintext("/spec/template/spec/containers/-", add, `{"name": "c"}`),
		field("/metadata/name", []policyv1alpha1.JSONPatchOperation{{SubPath: "", Operator: replace, Value: raw("1")}}, nil),
		field("/data/app.yaml", nil, []policyv1alpha1.YAMLPatchOperation{{SubPath: "/limit", Operator: replace, Value: raw("1")}}),
		{
			ImageOverrider: []policyv1alpha1.ImageOverrider{
				{Component: policyv1alpha1.Tag, Operator: replace, Value: "2"},
				{Component: policyv1alpha1.Repository, Operator: add, Value: "x", Predicate: &policyv1alpha1.ImagePredicate{Path: "/metadata/namespace"}},
			},
			CommandOverrider:     []policyv1alpha1.CommandArgsOverrider{{ContainerName: "web", Operator: add, Value: []string{"-v"}}},
			ArgsOverrider:        []policyv1alpha1.CommandArgsOverrider{{ContainerName: "web", Operator: remove, Value: []string{"-g"}}},
			LabelsOverrider:      []policyv1alpha1.LabelAnnotationOverrider{{Operator: remove, Value: map[string]string{"app": "", "karmada.io/managed": ""}}},
			AnnotationsOverrider: []policyv1alpha1.LabelAnnotationOverrider{{Operator: add, Value: map[string]string{"flagship.io/adopted": "true"}}},
		},
	}
	for _, text := range []string{deployment, configMap, roleBinding} {
		object, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			f.Fatal(err)
		}
		for _, o := range overriders {
			edits, err := json.Marshal(o)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(object, edits, true)
			f.Add(object, edits, false)
		}
	}
}

func expectSameObject(t *testing.T, before, after *unstructured.Unstructured) {
	t.Helper()
	if before.GroupVersionKind() != after.GroupVersionKind() || before.GetNamespace() != after.GetNamespace() || before.GetName() != after.GetName() {
		t.Fatalf("%s %s/%s became %s %s/%s", before.GroupVersionKind(), before.GetNamespace(), before.GetName(),
			after.GroupVersionKind(), after.GetNamespace(), after.GetName())
	}
	ownership := func(entries map[string]string) map[string]string {
		kept := map[string]string{}
		maps.Copy(kept, entries)
		maps.DeleteFunc(kept, func(key, _ string) bool { return !workv1alpha1.IsOwnershipKey(key) })
		return kept
	}
	if diff := cmp.Diff(ownership(before.GetLabels()), ownership(after.GetLabels())); diff != "" {
		t.Fatalf("labels with ownership keys changed (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(ownership(before.GetAnnotations()), ownership(after.GetAnnotations())); diff != "" {
		t.Fatalf("annotations with ownership keys changed (-before +after):\n%s", diff)
	}
}
