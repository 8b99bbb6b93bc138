package override_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/override"
)

// TestExplainHasWhatEachRuleChanged: in the order in which the rules take effect, each on the result of the former.
func TestExplainHasWhatEachRuleChanged(t *testing.T) {
	labels := func(operator policyv1alpha1.OverriderOperator, value map[string]string) policyv1alpha1.Overriders {
		return policyv1alpha1.Overriders{LabelsOverrider: []policyv1alpha1.LabelAnnotationOverrider{{Operator: operator, Value: value}}}
	}
	first := &policyv1alpha1.ClusterOverridePolicy{ObjectMeta: metav1.ObjectMeta{Name: "first"}}
	first.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{{Overriders: labels(policyv1alpha1.OverriderOpAdd, map[string]string{"a/b": "1"})}}
	second := &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "second"}}
	second.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{
		{TargetCluster: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"m2"}}, Overriders: labels(policyv1alpha1.OverriderOpAdd, map[string]string{"x": "y"})},
		{Overriders: labels(policyv1alpha1.OverriderOpReplace, map[string]string{"a/b": "2", "app": "api"})},
		{Overriders: labels(policyv1alpha1.OverriderOpRemove, map[string]string{"app": "api"})},
	}
	template := object(t, deployment)
	result, err := override.Explain(t.Context(), template, member("m1"), []policyv1alpha1.Override{second, first})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range result.Verdicts {
		line := fmt.Sprintf("%s[%d] %s", v.Policy, v.Rule, v.Reason)
		for _, e := range v.Edits {
			line += fmt.Sprintf(" %s: %v to %v", e.Path, e.From, e.To)
		}
		got = append(got, line)
	}
	want := []string{
		"first[0] applied /metadata/labels/a~1b: <nil> to 1",
		"shop/second[0] cluster is not selected",
		"shop/second[1] applied /metadata/labels/a~1b: 1 to 2 /metadata/labels/app: web to api",
		"shop/second[2] applied /metadata/labels/app: api to <nil>",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	applied, err := override.Apply(t.Context(), template, member("m1"), []policyv1alpha1.Override{second, first})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(applied.Object.Object, result.Object.Object); diff != "" {
		t.Errorf("the object differs from that of Apply:\n%s", diff)
	}
}

// TestExplainNamesEditsWithoutEffect: a rule that was applied may have changed nothing, or only in part.
func TestExplainNamesEditsWithoutEffect(t *testing.T) {
	image := policyv1alpha1.Overriders{ImageOverrider: []policyv1alpha1.ImageOverrider{{Component: policyv1alpha1.Tag, Operator: replace, Value: "1.27"}}}
	label := func(operator policyv1alpha1.OverriderOperator, value string) []policyv1alpha1.LabelAnnotationOverrider {
		return []policyv1alpha1.LabelAnnotationOverrider{{Operator: operator, Value: map[string]string{"app": value}}}
	}
	both := func(o policyv1alpha1.Overriders, labels []policyv1alpha1.LabelAnnotationOverrider) policyv1alpha1.Overriders {
		o.LabelsOverrider = labels
		return o
	}
	args := policyv1alpha1.Overriders{ArgsOverrider: []policyv1alpha1.CommandArgsOverrider{
		{ContainerName: "other", Operator: add, Value: []string{"-q"}}, {ContainerName: "side", Operator: remove, Value: []string{"-q"}},
	}}
	const rollout = `{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: web, namespace: shop}, spec: {template: {spec: {containers: [{name: web, image: "nginx:1.26"}]}}}}`
	const predicate = ": overriders find no containers of the kind Rollout, so that an image needs predicate.path and a command plaintext"
	for name, tc := range map[string]struct {
		object string
		edits  policyv1alpha1.Overriders
		want   string
	}{
		"an image that is so":       {pod, policyv1alpha1.Overriders{ImageOverrider: []policyv1alpha1.ImageOverrider{{Component: policyv1alpha1.Tag, Operator: replace, Value: "1"}}}, "changes nothing"},
		"an image":                  {pod, image, "applied"},
		"an image of another kind":  {rollout, image, "changes nothing" + predicate},
		"a part":                    {rollout, both(image, label(add, "a")), "applied, but nothing is changed by imageOverrider[0]" + predicate},
		"a container by its name":   {deployment, args, "changes nothing"},
		"a label that is not there": {pod, both(policyv1alpha1.Overriders{}, label(replace, "a")), "changes nothing"},
		"a label that is so":        {deployment, both(policyv1alpha1.Overriders{}, label(add, "web")), "changes nothing"},
		"a label that goes":         {deployment, both(policyv1alpha1.Overriders{}, label(remove, "")), "applied"},
		"a value that is so":        {deployment, plaintext("/spec/replicas", replace, "2"), "changes nothing"},
		"a value":                   {deployment, plaintext("/spec/replicas", replace, "3"), "applied"},
	} {
		t.Run(name, func(t *testing.T) {
			// The first rule must not speak for the second.
			policies := []policyv1alpha1.Override{everywhere("a", plaintext("/metadata/annotations", add, "{}")), everywhere("b", tc.edits)}
			result, err := override.Explain(t.Context(), object(t, tc.object), member("m1"), policies)
			if err != nil {
				t.Fatal(err)
			}
			if got := result.Verdicts[1]; got.Reason != tc.want || !got.Applied {
				t.Errorf("the verdict is %+v, want %q", got, tc.want)
			}
		})
	}
}
