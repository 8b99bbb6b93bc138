package override_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/override"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest/bounded"
)

// many is n values.
func many[T any](n int, value func(i int) T) []T {
	values := make([]T, n)
	for i := range values {
		values[i] = value(i)
	}
	return values
}

// withData is a ConfigMap with one entry.
func withData(text string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "shop", "name": "settings"}, "data": map[string]any{"app": text},
	}}
}

// withContainers is an object of a kind that looks like a Deployment. Its definition does not require that names of containers differ.
func withContainers(n int, name func(i int) string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.io/v1", "kind": "Deployment", "metadata": map[string]any{"namespace": "shop", "name": "web"},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": many(n, func(i int) any {
			return map[string]any{"name": name(i), "image": "nginx:1"}
		})}}},
	}}
}

func annotated(n int) *unstructured.Unstructured {
	object, annotations := withData(""), map[string]string{}
	for i := range n {
		annotations[fmt.Sprintf("example.io/a%d", i)] = ""
	}
	object.SetAnnotations(annotations)
	return object
}

func yamlEdits(n int) policyv1alpha1.Overriders {
	return policyv1alpha1.Overriders{FieldOverrider: many(n, func(int) policyv1alpha1.FieldOverrider {
		return policyv1alpha1.FieldOverrider{FieldPath: "/data/app", YAML: []policyv1alpha1.YAMLPatchOperation{{SubPath: "/j", Operator: add, Value: raw("1")}}}
	})}
}

func jsonEdits(n int) policyv1alpha1.Overriders {
	return policyv1alpha1.Overriders{FieldOverrider: many(n, func(int) policyv1alpha1.FieldOverrider {
		return policyv1alpha1.FieldOverrider{FieldPath: "/data/app", JSON: []policyv1alpha1.JSONPatchOperation{{SubPath: "/j", Operator: add, Value: raw("1")}}}
	})}
}

// attack is an object and overriders, each small enough to be stored.
type attack struct {
	object *unstructured.Unstructured
	edits  policyv1alpha1.Overriders
	// want is a part of the error; empty if the edits are made.
	want string
}

// attacks have a passage over the object, or over a document, for each of many edits, or a text that becomes many times as long. They have a part of
// the size that the errors are for, such as a tenth for 10.
func attacks(part int) map[string]attack {
	same := func(int) string { return "web" }
	role := withData("")
	role.SetAPIVersion("rbac.authorization.k8s.io/v1")
	role.SetKind("Role")
	role.Object["rules"] = many(40_000/part, func(int) any { return map[string]any{"verbs": []any{"get"}} })
	words := many(100_000/part, func(i int) string { return fmt.Sprint(i) })
	laughs := "a: &a [x]\n"
	for _, c := range "bcdefghijklmnopqrstuvwxyz" {
		laughs += fmt.Sprintf("%c: &%[1]c [*%c, *%[2]c, *%[2]c, *%[2]c]\n", c, c-1)
	}
	return map[string]attack{
		"AliasesOfALongText": {withData("a: &a " + strings.Repeat("x", 400_000/part) + "\nb: [" + strings.Repeat("*a, ", 8_000/part) + "*a]\n"), yamlEdits(1), "more than 1400000 bytes"},
		"AliasesOfAKey":      {withData("a: &a " + strings.Repeat("x", 400_000/part) + "\nb:\n" + strings.Repeat("- {*a : 1}\n", 8_000/part)), yamlEdits(1), "more than 1400000 bytes"},
		"AliasesOfAliases":   {withData(laughs), yamlEdits(1), "more than"},
		"AnchorInItself":     {withData("k: &a [*a]\n"), yamlEdits(1), "contains itself"},
		"ManyValuesOfYAML":   {withData("k: [" + strings.Repeat("a,", 600_000/part) + "a]\n"), yamlEdits(1), "more than 400000 values"},
		"ManyLinesOfYAML":    {withData("k:\n" + strings.Repeat("- - a\n", 200_000/part)), yamlEdits(1), "more than 400000 values"},
		"DeepYAML":           {withData("a: &a 1\nk: " + strings.Repeat("{a: ", 4_000/part) + "*a" + strings.Repeat("}", 4_000/part) + "\n"), yamlEdits(1), "more than 1400000 bytes"},
		"ManyEditsOfYAML":    {withData("k: |\n  " + strings.Repeat("x", 1_000_000/part) + "\n"), yamlEdits(1_000 / part), "more than 16777216 steps"},
		"ManyEditsOfJSON":    {withData(`{"k": "` + strings.Repeat("x", 1_000_000/part) + `"}`), jsonEdits(1_000 / part), "more than 16777216 steps"},
		"WordsTimesWords":    {withWords(words), policyv1alpha1.Overriders{ArgsOverrider: []policyv1alpha1.CommandArgsOverrider{{ContainerName: "web", Operator: remove, Value: words}}}, ""},
		"WordsTimesEdits": {withWords(words), policyv1alpha1.Overriders{ArgsOverrider: many(20_000/part, func(int) policyv1alpha1.CommandArgsOverrider {
			return policyv1alpha1.CommandArgsOverrider{ContainerName: "web", Operator: remove, Value: []string{"x"}}
		})}, "more than 16777216 steps"},
		"WordsTimesContainer": {withContainers(20_000/part, same), policyv1alpha1.Overriders{CommandOverrider: []policyv1alpha1.CommandArgsOverrider{{ContainerName: "web", Operator: add, Value: words}}}, "more than 2800000 bytes"},
		"ImagesTimesEdits": {withContainers(20_000/part, func(i int) string { return fmt.Sprint(i) }), policyv1alpha1.Overriders{ImageOverrider: many(10_000/part, func(int) policyv1alpha1.ImageOverrider {
			return policyv1alpha1.ImageOverrider{Component: policyv1alpha1.Tag, Operator: replace, Value: "2"}
		})}, "more than 16777216 steps"},
		"LabelsTimesEdits": {annotated(30_000 / part), policyv1alpha1.Overriders{LabelsOverrider: many(20_000/part, func(int) policyv1alpha1.LabelAnnotationOverrider {
			return policyv1alpha1.LabelAnnotationOverrider{Operator: add, Value: map[string]string{"a": "b"}}
		})}, "more than 16777216 steps"},
		"RightsTimesEdits": {role, policyv1alpha1.Overriders{Plaintext: many(20_000/part, func(int) policyv1alpha1.PlaintextOverrider {
			return policyv1alpha1.PlaintextOverrider{Path: "/data", Operator: replace, Value: raw("{}")}
		})}, "more than 16777216 steps"},
		"ItemsTimesEdits": {withWords(words), policyv1alpha1.Overriders{Plaintext: many(20_000/part, func(int) policyv1alpha1.PlaintextOverrider {
			return policyv1alpha1.PlaintextOverrider{Path: "/spec/template/spec/containers/0/args/0", Operator: add, Value: raw(`"x"`)}
		})}, "more than 16777216 steps"},
		"ManyLargeValues": {withData(""), policyv1alpha1.Overriders{Plaintext: many(10, func(i int) policyv1alpha1.PlaintextOverrider {
			return policyv1alpha1.PlaintextOverrider{Path: fmt.Sprintf("/data/%d", i), Operator: add, Value: raw(`"` + strings.Repeat("x", 500_000/part) + `"`)}
		})}, "more than 2800000 bytes"},
	}
}

func withWords(words []string) *unstructured.Unstructured {
	object := withContainers(1, func(int) string { return "web" })
	containers, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "template", "spec", "containers")
	containers.([]any)[0].(map[string]any)["args"] = many(len(words), func(i int) any { return words[i] })
	return object
}

// TestEditsHaveABudget: no overrider takes minutes of a processor or gigabytes, and what takes too much says so.
func TestEditsHaveABudget(t *testing.T) {
	for name, tc := range attacks(1) {
		t.Run(name, func(t *testing.T) {
			bounded.Run(t, func() {
				_, err := override.Apply(t.Context(), tc.object, member("m1"), []policyv1alpha1.Override{inNamespace("shop", "edits", tc.edits)})
				expectRefusal(t, err, tc.want)
			})
		})
	}
	t.Run("Explained", func(t *testing.T) {
		policy := inNamespace("shop", "edits", policyv1alpha1.Overriders{})
		policy.Spec.OverrideRules = make([]policyv1alpha1.RuleWithCluster, 50_000)
		bounded.Run(t, func() {
			_, err := override.Explain(t.Context(), annotated(10_000), member("m1"), []policyv1alpha1.Override{policy})
			expectRefusal(t, err, "more than 16777216 steps")
		})
	})
}

func expectRefusal(t *testing.T, err error, want string) {
	t.Helper()
	var impossible *override.Error
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && (!errors.As(err, &impossible) || !strings.Contains(err.Error(), want)):
		t.Errorf("the error is %v, want an *Error with %q", err, want)
	}
}

// TestManyEditsAreMade: the budget is far above what people write.
func TestManyEditsAreMade(t *testing.T) {
	edits := yamlEdits(20)
	edits.Plaintext = many(500, func(i int) policyv1alpha1.PlaintextOverrider {
		return policyv1alpha1.PlaintextOverrider{Path: fmt.Sprintf("/data/%d", i), Operator: add, Value: raw(`"` + strings.Repeat("x", 200) + `"`)}
	})
	object := annotated(300)
	object.Object["data"] = map[string]any{"app": "text: |\n  " + strings.Repeat("x", 100_000) + "\n"}
	if _, err := override.Apply(t.Context(), object, member("m1"), []policyv1alpha1.Override{inNamespace("shop", "edits", edits)}); err != nil {
		t.Error(err)
	}
}

// TestEditsEndWithTheirContext: a request that has ended leaves no work behind. That is no fault of a policy, so that it is tried again.
func TestEditsEndWithTheirContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := override.Apply(ctx, withData(""), member("m1"), []policyv1alpha1.Override{inNamespace("shop", "edits", plaintext("/data/a", add, `"b"`))})
	var impossible *override.Error
	if !errors.Is(err, context.Canceled) || errors.As(err, &impossible) {
		t.Errorf("the error is %v, want that of the context alone", err)
	}
}

// addAttacks adds the attacks as seeds of a fuzz target.
func addAttacks(f *testing.F) {
	for name, tc := range attacks(20) {
		object, err := tc.object.MarshalJSON()
		if err != nil {
			f.Fatal(name, err)
		}
		edits, err := json.Marshal(tc.edits)
		if err != nil {
			f.Fatal(name, err)
		}
		f.Add(object, edits, true)
	}
}
