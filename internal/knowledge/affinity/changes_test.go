package affinity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

func TestChanges(t *testing.T) {
	cluster := Cluster{Name: "m1", Region: "east", Labels: map[string]string{"env": "test", "old": "yes"}}
	expression := func(key string, operator metav1.LabelSelectorOperator, values ...string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: values}
	}
	fields := func(key string, operator corev1.NodeSelectorOperator, values ...string) *policyv1alpha1.FieldSelector {
		return &policyv1alpha1.FieldSelector{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
	}
	for name, tc := range map[string]struct {
		affinity *policyv1alpha1.ClusterAffinity
		want     []string
	}{
		"no affinity":      {nil, nil},
		"selected already": {&policyv1alpha1.ClusterAffinity{ClusterNames: []string{"m1"}}, nil},
		"not named":        {&policyv1alpha1.ClusterAffinity{ClusterNames: []string{"m2"}}, []string{"add m1 to a.clusterNames"}},
		"excluded and not named": {
			&policyv1alpha1.ClusterAffinity{ClusterNames: []string{"m2"}, ExcludeClusters: []string{"m1"}},
			[]string{"remove m1 from a.exclude", "add m1 to a.clusterNames"},
		},
		"labels": {
			&policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{"env": "prod", "zone": "z"},
				MatchExpressions: []metav1.LabelSelectorRequirement{
					expression("tier", metav1.LabelSelectorOpIn, "a", "b"), expression("gpu", metav1.LabelSelectorOpExists),
					expression("old", metav1.LabelSelectorOpDoesNotExist),
				},
			}},
			[]string{"label the cluster env=prod", "label the cluster zone=z", "label the cluster tier=a", "label the cluster gpu=", "remove the label old of the cluster"},
		},
		"a field":             {&policyv1alpha1.ClusterAffinity{FieldSelector: fields("region", corev1.NodeSelectorOpIn, "west")}, []string{"set the region of the cluster to west"}},
		"a zone":              {&policyv1alpha1.ClusterAffinity{FieldSelector: fields("zone", corev1.NodeSelectorOpIn, "z")}, []string{"set the zone of the cluster to z"}},
		"a field it must not": {&policyv1alpha1.ClusterAffinity{FieldSelector: fields("region", corev1.NodeSelectorOpNotIn, "east")}, nil},
		"labels that contradict": {
			&policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{"env": "prod"}, MatchExpressions: []metav1.LabelSelectorRequirement{expression("env", metav1.LabelSelectorOpNotIn, "prod")},
			}}, nil},
	} {
		if diff := cmp.Diff(tc.want, Changes("a", tc.affinity, cluster)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if cluster.Labels["env"] != "test" || len(cluster.Labels) != 2 {
		t.Errorf("the labels of the cluster were changed: %v", cluster.Labels)
	}
}
