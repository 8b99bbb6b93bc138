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
