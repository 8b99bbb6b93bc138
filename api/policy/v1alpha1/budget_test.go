package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

func names(n int) []string {
	values := make([]string, n)
	for i := range values {
		values[i] = fmt.Sprint("m", i)
	}
	return values
}

// TestSelectorsHaveABudget: that of all selectors of a policy together, with the field in the message.
func TestSelectorsHaveABudget(t *testing.T) {
	values := func(n int) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: names(n)}}}
	}
	selecting := func(sizes ...int) (spec policyv1alpha1.PropagationSpec) {
		for _, n := range sizes {
			spec.ResourceSelectors = append(spec.ResourceSelectors, policyv1alpha1.ResourceSelector{Kind: "ConfigMap", LabelSelector: values(n)})
		}
		return spec
	}
	placed := func(placement policyv1alpha1.Placement) policyv1alpha1.PropagationSpec {
		return policyv1alpha1.PropagationSpec{Placement: placement}
	}
	weights := func(n int) *policyv1alpha1.ReplicaSchedulingStrategy {
		list := make([]policyv1alpha1.StaticClusterWeight, n)
		for i := range list {
			list[i].TargetCluster.ClusterNames = names(100)
		}
		return &policyv1alpha1.ReplicaSchedulingStrategy{WeightPreference: &policyv1alpha1.ClusterPreferences{StaticWeightList: list}}
	}
	tiers := policyv1alpha1.ClusterAffinityTerm{OverflowAffinities: []policyv1alpha1.OverflowAffinityTerm{
		{ClusterAffinity: policyv1alpha1.ClusterAffinity{FieldSelector: &policyv1alpha1.FieldSelector{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: names(30_000)},
		}}}},
	}}
	for name, tc := range map[string]struct {
		spec policyv1alpha1.PropagationSpec
		want string
	}{
		"labels":             {selecting(499, 499), ""},
		"too many labels":    {selecting(499, 500), "spec.resourceSelectors"},
		"names of objects":   {policyv1alpha1.PropagationSpec{ResourceSelectors: make([]policyv1alpha1.ResourceSelector, 10_000)}, ""},
		"weights":            {placed(policyv1alpha1.Placement{ReplicaScheduling: weights(500)}), ""},
		"too many weights":   {placed(policyv1alpha1.Placement{ReplicaScheduling: weights(501)}), "spec.placement"},
		"names of clusters":  {placed(policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: names(40_000), ExcludeClusters: names(10_001)}}), "spec.placement"},
		"tiers":              {placed(policyv1alpha1.Placement{ClusterAffinities: []policyv1alpha1.ClusterAffinityTerm{tiers}}), ""},
		"too many in tiers":  {placed(policyv1alpha1.Placement{ClusterAffinities: []policyv1alpha1.ClusterAffinityTerm{tiers, tiers}}), "spec.placement"},
		"labels of clusters": {placed(policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{LabelSelector: values(50_000)}}), "spec.placement"},
	} {
		t.Run(name, func(t *testing.T) {
			errs := policyv1alpha1.ValidatePropagation(&policyv1alpha1.PropagationPolicy{Spec: tc.spec})
			if tc.want == "" && len(errs) > 0 || tc.want != "" && (len(errs) != 1 || errs[0].Field != tc.want || !strings.Contains(errs[0].Detail, "in all")) {
				t.Errorf("errors are %v, want one of the field %q", errs, tc.want)
			}
		})
	}
}

// TestTargetsOfOverridesHaveABudget: that of all rules of a policy together.
func TestTargetsOfOverridesHaveABudget(t *testing.T) {
	policy := &policyv1alpha1.OverridePolicy{}
	for range 501 {
		policy.Spec.OverrideRules = append(policy.Spec.OverrideRules, policyv1alpha1.RuleWithCluster{
			TargetCluster: &policyv1alpha1.ClusterAffinity{ClusterNames: names(100)},
		})
	}
	if errs := policyv1alpha1.ValidateOverride(policy); len(errs) != 1 || errs[0].Field != "spec.overrideRules" {
		t.Errorf("errors are %v", errs)
	}
	policy.Spec.OverrideRules = policy.Spec.OverrideRules[1:]
	if errs := policyv1alpha1.ValidateOverride(policy); len(errs) != 0 {
		t.Errorf("at the bound: %v", errs)
	}
}
