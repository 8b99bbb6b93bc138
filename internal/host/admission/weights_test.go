package admission_test

import (
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/warning"
)

func TestSpreadConstraintsWithStaticWeightsWarn(t *testing.T) {
	const (
		weights     = "weightPreference: {staticWeightList: [{targetCluster: {clusterNames: [a]}, weight: 2}]}"
		constraints = "spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]"
		divided     = "replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, "
	)
	for name, tc := range map[string]struct {
		annotations, placement string
		want                   bool
	}{
		"static weights":               {"", divided + weights + "}, " + constraints, true},
		"the type and preference left": {"", "replicaScheduling: {" + weights + "}, " + constraints, true},
		"with the annotation":          {"flagship.io/spread-static-weights: 'true'", divided + weights + "}, " + constraints, false},
		"without constraints":          {"", divided + weights + "}", false},
		"without weights":              {"", "replicaScheduling: {replicaSchedulingType: Divided}, " + constraints, false},
		"duplicated":                   {"", "replicaScheduling: {replicaSchedulingType: Duplicated, " + weights + "}, " + constraints, false},
		"aggregated":                   {"", "replicaScheduling: {replicaDivisionPreference: Aggregated, " + weights + "}, " + constraints, false},
		"dynamic weights":              {"", "replicaScheduling: {weightPreference: {dynamicWeight: AvailableReplicas}}, " + constraints, false},
	} {
		t.Run(name, func(t *testing.T) {
			policy := object(t, "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {namespace: shop, name: p, annotations: {"+tc.annotations+
				"}}\nspec:\n  resourceSelectors: [{apiVersion: v1, kind: ConfigMap}]\n  placement: {"+tc.placement+"}")
			var got recorder
			ctx := warning.WithWarningRecorder(t.Context(), &got)
			if err := newPlugin().Admit(ctx, request(policy, nil, ""), nil); err != nil {
				t.Fatal(err)
			}
			if warned := len(got) == 1 && strings.HasPrefix(got[0], "spec.placement.spreadConstraints has no effect"); warned != tc.want || len(got) > 1 {
				t.Errorf("warnings %q, want one: %v", got, tc.want)
			}
			got = nil
			if err := newPlugin().Admit(ctx, request(policy, policy.DeepCopy(), ""), nil); err != nil || len(got) > 0 {
				t.Errorf("a write that changes nothing has the warnings %q, %v", got, err)
			}
		})
	}
}
