package override_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/override"
)

// A policy that replaces the registry of images in the clusters of a region.
func ExampleApply() {
	policy := &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "mirror"}}
	policy.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{{
		TargetCluster: &policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"region": "eu"}}},
		Overriders: policyv1alpha1.Overriders{ImageOverrider: []policyv1alpha1.ImageOverrider{
			{Component: policyv1alpha1.Registry, Operator: policyv1alpha1.OverriderOpReplace, Value: "mirror.eu.example"},
		}},
	}}
	pod := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"namespace": "shop", "name": "web"},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "web", "image": "docker.io/library/nginx:1.27"}}},
	}}
	for _, region := range []string{"eu", "us"} {
		cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: region + "-1", Labels: map[string]string{"region": region}}}
		result, err := override.Apply(context.Background(), pod, cluster, []policyv1alpha1.Override{policy})
		if err != nil {
			fmt.Println(err)
			return
		}
		containers, _, _ := unstructured.NestedSlice(result.Object.Object, "spec", "containers")
		verdict := result.Verdicts[0]
		fmt.Printf("%s: %s (%s rule %d: %s)\n", cluster.Name, containers[0].(map[string]any)["image"], verdict.Policy, verdict.Rule, verdict.Reason)
	}
	// Output:
	// eu-1: mirror.eu.example/library/nginx:1.27 (shop/mirror rule 0: applied)
	// us-1: docker.io/library/nginx:1.27 (shop/mirror rule 0: cluster is not selected)
}
