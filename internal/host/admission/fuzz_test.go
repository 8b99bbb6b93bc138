package admission_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest/bounded"
)

// FuzzAdmission completes and checks any object of our kinds, policies and Works among them. The same object completed twice
// is the same, it has a permanent id that its author did not choose, and an accepted policy selects in its own namespace.
func FuzzAdmission(f *testing.F) {
	for _, text := range []string{
		policy + `spec: {resourceSelectors: [` + selector + `, namespace: other}], placement: {spreadConstraints: [{maxGroups: 2}]}}`,
		`{apiVersion: policy.karmada.io/v1alpha1, kind: ClusterPropagationPolicy, metadata: {name: a, labels: {clusterpropagationpolicy.karmada.io/permanent-id: mine}}, spec: {resourceSelectors: [], placement: {replicaScheduling: {replicaSchedulingType: Divided}}}}`,
		`{apiVersion: policy.karmada.io/v1alpha1, kind: OverridePolicy, metadata: {name: a, namespace: shop}, spec: {overrideRules: [{overriders: {plaintext: [{path: /kind, operator: replace, value: Secret}], labelsOverrider: [{operator: add, value: {karmada.io/managed: "true"}}]}}]}}`,
		`{apiVersion: policy.karmada.io/v1alpha1, kind: ClusterOverridePolicy, metadata: {name: a}, spec: {overriders: {imageOverrider: [{predicate: {path: /metadata/name}, component: Tag, operator: remove}], fieldOverrider: [{fieldPath: /data/a, yaml: [{subPath: /b, operator: add, value: 1}]}]}}}`,
		`{apiVersion: work.karmada.io/v1alpha1, kind: Work, metadata: {name: w, namespace: karmada-es-member1, labels: {work.karmada.io/permanent-id: mine}}, spec: {workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}, {}, null]}}}`,
		`{apiVersion: networking.karmada.io/v1alpha1, kind: MultiClusterService, metadata: {name: a, namespace: shop}, spec: {types: [CrossCluster]}}`,
	} {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		content := map[string]any{}
		if utiljson.Unmarshal(data, &content) != nil {
			return
		}
		o := &unstructured.Unstructured{Object: content}
		if metadata, ok := content["metadata"].(map[string]any); !ok || len(metadata) == 0 {
			return // the API server has given every object metadata by then
		}
		var refusal error
		bounded.Run(t, func() { refusal = newPlugin().Admit(t.Context(), request(o, nil, ""), nil) })
		if refusal != nil {
			return
		}
		again := o.DeepCopy()
		if err := newPlugin().Admit(t.Context(), request(again, nil, ""), nil); err != nil {
			t.Fatalf("completed once, refused the second time: %v", err)
		}
		if diff := cmp.Diff(o.Object, again.Object); diff != "" {
			t.Fatalf("completing it twice differs (-first +second):\n%s", diff)
		}
		bounded.Run(t, func() { refusal = newPlugin().Validate(t.Context(), request(o, nil, ""), nil) })
		if refusal == nil {
			expectOwnNamespace(t, o)
		}
	})
}

func expectOwnNamespace(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	if o.GetKind() != policyv1alpha1.KindPropagationPolicy || o.GroupVersionKind().Group != policyv1alpha1.GroupName {
		return
	}
	if id := o.GetLabels()[policyID]; id != "new-id" {
		t.Fatalf("the policy has the permanent id %q, which its author chose", id)
	}
	var typed policyv1alpha1.PropagationPolicy
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &typed); err != nil {
		t.Fatal(err)
	}
	for _, s := range typed.Spec.ResourceSelectors {
		if s.Namespace != typed.Namespace {
			t.Fatalf("a policy of namespace %q selects in %q", typed.Namespace, s.Namespace)
		}
	}
}
