package affinity_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/affinity"
)

func fields(key string, operator corev1.NodeSelectorOperator, values ...string) *policyv1alpha1.FieldSelector {
	return &policyv1alpha1.FieldSelector{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
}

func TestMismatch(t *testing.T) {
	cluster := affinity.Cluster{Name: "a", Labels: map[string]string{"tier": "gold", "empty": ""}, Provider: "p", Region: "r", Zones: []string{"z1", "z2"}}
	exists := []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpExists}}
	absent := []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpDoesNotExist}}
	for name, tc := range map[string]struct {
		affinity *policyv1alpha1.ClusterAffinity
		want     affinity.Part
	}{
		"None":            {nil, affinity.None},
		"Empty":           {&policyv1alpha1.ClusterAffinity{}, affinity.None},
		"Named":           {&policyv1alpha1.ClusterAffinity{ClusterNames: []string{"b", "a"}}, affinity.None},
		"OtherNames":      {&policyv1alpha1.ClusterAffinity{ClusterNames: []string{"b"}}, affinity.Names},
		"NamedExcluded":   {&policyv1alpha1.ClusterAffinity{ClusterNames: []string{"a"}, ExcludeClusters: []string{"a"}}, affinity.Exclude},
		"Label":           {&policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}}, affinity.None},
		"LabelOther":      {&policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "tin"}}}, affinity.Labels},
		"LabelEmpty":      {&policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"empty": ""}}}, affinity.None},
		"LabelAbsent":     {&policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"absent": ""}}}, affinity.Labels},
		"Expression":      {&policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchExpressions: exists}}, affinity.None},
		"ExpressionFails": {&policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchExpressions: absent}}, affinity.Labels},
		"Provider":        {&policyv1alpha1.ClusterAffinity{FieldSelector: fields("provider", corev1.NodeSelectorOpIn, "p")}, affinity.None},
		"NotProvider":     {&policyv1alpha1.ClusterAffinity{FieldSelector: fields("provider", corev1.NodeSelectorOpNotIn, "p")}, affinity.Fields},
		"Region":          {&policyv1alpha1.ClusterAffinity{FieldSelector: fields("region", corev1.NodeSelectorOpIn, "q")}, affinity.Fields},
		"AnyZone":         {&policyv1alpha1.ClusterAffinity{FieldSelector: fields("zone", corev1.NodeSelectorOpIn, "z2", "z3")}, affinity.None},
		"NotAnyZone":      {&policyv1alpha1.ClusterAffinity{FieldSelector: fields("zone", corev1.NodeSelectorOpNotIn, "z2")}, affinity.Fields},
		"FirstPartCounts": {&policyv1alpha1.ClusterAffinity{ClusterNames: []string{"b"}, FieldSelector: fields("region", corev1.NodeSelectorOpIn, "q")}, affinity.Fields},
	} {
		t.Run(name, func(t *testing.T) {
			selector, err := affinity.Compile("spec", tc.affinity)
			if err != nil {
				t.Fatal(err)
			}
			if got := selector.Mismatch(&cluster); got != tc.want {
				t.Errorf("got part %d, want %d", got, tc.want)
			}
		})
	}
}

func TestAnAffinityThatCannotBeCompiled(t *testing.T) {
	for name, tc := range map[string]*policyv1alpha1.ClusterAffinity{
		"Key":      {FieldSelector: fields("planet", corev1.NodeSelectorOpIn, "p")},
		"Operator": {FieldSelector: fields("region", corev1.NodeSelectorOpExists)},
		"Labels": {LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "tier", Operator: metav1.LabelSelectorOpIn},
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := affinity.Compile("spec", tc); err == nil {
				t.Error("there is no error")
			}
		})
	}
}

func TestZonesOfACluster(t *testing.T) {
	for name, tc := range map[string]struct {
		spec clusterv1alpha1.ClusterSpec
		want []string
	}{
		"None": {},
		"List": {clusterv1alpha1.ClusterSpec{Zones: []string{"b", "a"}, Zone: "c"}, []string{"a", "b"}},
		"Old":  {clusterv1alpha1.ClusterSpec{Zone: "c"}, []string{"c"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := affinity.Of(&clusterv1alpha1.Cluster{Spec: tc.spec}).Zones; !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
