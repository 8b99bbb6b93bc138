package admission_test

import (
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/warning"
)

func TestDividedStatefulSetsWarn(t *testing.T) {
	const (
		sets    = "[{apiVersion: apps/v1, kind: StatefulSet}]"
		divided = "replicaScheduling: {replicaSchedulingType: Divided}"
		one     = "spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]"
		weights = "replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, " +
			"weightPreference: {staticWeightList: [{targetCluster: {clusterNames: [a]}, weight: 2}]}}"
	)
	for name, tc := range map[string]struct {
		annotations, selectors, placement string
		want                              []int // the selectors
	}{
		"divided":                       {"", sets, divided, []int{0}},
		"the type left":                 {"", sets, "replicaScheduling: {replicaDivisionPreference: Aggregated}", []int{0}},
		"of Kruise":                     {"", "[{apiVersion: apps.kruise.io/v1beta1, kind: StatefulSet}]", divided, []int{0}},
		"among others":                  {"", "[{apiVersion: v1, kind: ConfigMap}, {apiVersion: apps/v1, kind: StatefulSet, name: db}, {apiVersion: apps/v1, kind: StatefulSet, name: mq}]", divided, []int{1, 2}},
		"others":                        {"", "[{apiVersion: apps/v1, kind: Deployment}, {apiVersion: batch/v1, kind: Job}]", divided, nil},
		"duplicated":                    {"", sets, "replicaScheduling: {replicaSchedulingType: Duplicated}", nil},
		"nothing said":                  {"", sets, "", nil},
		"independent":                   {"flagship.io/members-independent: 'true'", sets, divided, nil},
		"not independent":               {"flagship.io/members-independent: 'false'", sets, divided, []int{0}},
		"in one cluster":                {"", sets, divided + ", " + one, nil},
		"in one of each region":         {"", sets, divided + ", spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}, {spreadByField: region, minGroups: 2, maxGroups: 2}]", []int{0}},
		"in two clusters":               {"", sets, divided + ", spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 2}]", []int{0}},
		"in a region":                   {"", sets, divided + ", spreadConstraints: [{spreadByField: region, minGroups: 1, maxGroups: 1}]", []int{0}},
		"by weights that ignore it":     {"", sets, weights + ", " + one, []int{0}},
		"by weights that do not":        {"flagship.io/spread-static-weights: 'true'", sets, weights + ", " + one, nil},
		"in the cluster that is named":  {"", sets, divided + ", clusterAffinity: {clusterNames: [a]}", nil},
		"in the clusters that are":      {"", sets, divided + ", clusterAffinity: {clusterNames: [a, b]}", []int{0}},
		"in those that a label selects": {"", sets, divided + ", clusterAffinity: {labelSelector: {matchLabels: {a: b}}}", []int{0}},
	} {
		t.Run(name, func(t *testing.T) {
			text := "\nkind: PropagationPolicy\nmetadata: {namespace: shop, name: p, annotations: {" + tc.annotations +
				"}}\nspec:\n  resourceSelectors: " + tc.selectors + "\n  placement: {" + tc.placement + "}"
			policy := object(t, "apiVersion: policy.karmada.io/v1alpha1"+text)
			var got recorder
			ctx := warning.WithWarningRecorder(t.Context(), &got)
			if err := newPlugin().Admit(ctx, request(policy, nil, ""), nil); err != nil {
				t.Fatal(err)
			}
			expectDivisionWarnings(t, got, tc.want)
			got = nil
			cluster := policy.DeepCopy()
			cluster.SetKind("ClusterPropagationPolicy")
			cluster.SetNamespace("")
			if err := newPlugin().Admit(ctx, request(cluster, nil, ""), nil); err != nil {
				t.Fatal(err)
			}
			expectDivisionWarnings(t, got, tc.want)
			got = nil
			if err := newPlugin().Admit(ctx, request(policy, policy.DeepCopy(), ""), nil); err != nil {
				t.Fatal(err)
			}
			expectDivisionWarnings(t, got, nil)
			other := object(t, "apiVersion: example.com/v1"+text)
			if err := newPlugin().Admit(ctx, request(other, nil, ""), nil); err != nil {
				t.Fatal(err)
			}
			expectDivisionWarnings(t, got, nil)
		})
	}
}

// TestDividedKindsWithoutReplicasWarn: of which nothing is known.
func TestDividedKindsWithoutReplicasWarn(t *testing.T) {
	const kinds = "[{apiVersion: apps/v1, kind: Deployment}, {apiVersion: argoproj.io/v1alpha1, kind: Rollout}]"
	for name, tc := range map[string]struct {
		selectors, placement string
		want                 int
	}{
		"divided":        {kinds, "replicaScheduling: {replicaSchedulingType: Divided}", 1},
		"duplicated":     {kinds, "replicaScheduling: {replicaSchedulingType: Duplicated}", 0},
		"nothing said":   {kinds, "", 0},
		"in one cluster": {kinds, "replicaScheduling: {replicaSchedulingType: Divided}, clusterAffinity: {clusterNames: [a]}", 0},
		"known kinds":    {"[{apiVersion: apps/v1, kind: Deployment}]", "replicaScheduling: {replicaSchedulingType: Divided}", 0},
	} {
		// Independent members say nothing of replicas.
		policy := object(t, "{apiVersion: policy.karmada.io/v1alpha1, kind: PropagationPolicy, metadata: {namespace: shop, name: p, annotations: {flagship.io/members-independent: 'true'}}, "+
			"spec: {resourceSelectors: "+tc.selectors+", placement: {"+tc.placement+"}}}")
		var got recorder
		if err := newPlugin().Admit(warning.WithWarningRecorder(t.Context(), &got), request(policy, nil, ""), nil); err != nil {
			t.Fatal(err)
		}
		if len(got) != tc.want || tc.want == 1 && !strings.HasPrefix(got[0], "spec.resourceSelectors[1] selects the kind Rollout, whose replicas are not known") {
			t.Errorf("%s: the warnings are %q, want %d", name, got, tc.want)
		}
	}
}

// expectDivisionWarnings expects one warning for each of the selectors. A policy may have warnings of something else.
func expectDivisionWarnings(t *testing.T, got recorder, selectors []int) {
	t.Helper()
	var of []string
	for _, text := range got {
		if strings.Contains(text, "selects StatefulSets") {
			of = append(of, text)
		}
	}
	if len(of) != len(selectors) {
		t.Fatalf("warnings %q, want %d", got, len(selectors))
	}
	for i, n := range selectors {
		if want := "spec.resourceSelectors[" + string(rune('0'+n)) + "] selects StatefulSets"; !strings.HasPrefix(of[i], want) || !strings.Contains(of[i], "flagship.io/members-independent=true") {
			t.Errorf("the warning is %q, want %s", of[i], want)
		}
	}
}
