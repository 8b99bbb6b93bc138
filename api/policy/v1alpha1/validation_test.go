package v1alpha1_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// badSelector compares without a value to compare with.
func badSelector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn}}}
}

func fieldsOf(errs field.ErrorList) []string {
	var fields []string
	for _, err := range errs {
		fields = append(fields, err.Field)
	}
	return fields
}

func TestValidatePropagation(t *testing.T) {
	bad := policyv1alpha1.ClusterAffinity{LabelSelector: badSelector()}
	good := policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
	policy := &policyv1alpha1.PropagationPolicy{Spec: policyv1alpha1.PropagationSpec{
		ResourceSelectors: []policyv1alpha1.ResourceSelector{{LabelSelector: badSelector()}, {}},
		Placement: policyv1alpha1.Placement{
			ClusterAffinity: &bad,
			ClusterAffinities: []policyv1alpha1.ClusterAffinityTerm{{ClusterAffinity: good}, {
				ClusterAffinity:    bad,
				OverflowAffinities: []policyv1alpha1.OverflowAffinityTerm{{ClusterAffinity: good}, {ClusterAffinity: bad}},
			}},
			SpreadConstraints: []policyv1alpha1.SpreadConstraint{{SpreadByField: "cluster"}, {SpreadByLabel: "a b"}},
			ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{WeightPreference: &policyv1alpha1.ClusterPreferences{
				StaticWeightList: []policyv1alpha1.StaticClusterWeight{{TargetCluster: bad}}}},
			WorkloadAffinity: &policyv1alpha1.WorkloadAffinity{
				Affinity:     &policyv1alpha1.WorkloadAffinityTerm{GroupByLabelKey: ""},
				AntiAffinity: &policyv1alpha1.WorkloadAntiAffinityTerm{GroupByLabelKey: "a b"},
			},
		},
		Failover: &policyv1alpha1.FailoverBehavior{
			Application: &policyv1alpha1.ApplicationFailoverBehavior{StatePreservation: &policyv1alpha1.StatePreservation{
				Rules: []policyv1alpha1.StatePreservationRule{{AliasLabelName: "a/b", JSONPath: "{ .a }"}, {AliasLabelName: "a b"}}}},
			Cluster: &policyv1alpha1.ClusterFailoverBehavior{StatePreservation: &policyv1alpha1.StatePreservation{
				Rules: []policyv1alpha1.StatePreservationRule{{AliasLabelName: "a", JSONPath: ""}}}},
		},
	}}
	want := []string{
		"spec.resourceSelectors[0].labelSelector.matchExpressions[0].values",
		"spec.placement.clusterAffinity.labelSelector.matchExpressions[0].values",
		"spec.placement.clusterAffinities[1].labelSelector.matchExpressions[0].values",
		"spec.placement.clusterAffinities[1].overflowAffinities[1].labelSelector.matchExpressions[0].values",
		"spec.placement.spreadConstraints[1].spreadByLabel",
		"spec.placement.replicaScheduling.weightPreference.staticWeightList[0].targetCluster.labelSelector.matchExpressions[0].values",
		"spec.placement.workloadAffinity.affinity.groupByLabelKey",
		"spec.placement.workloadAffinity.affinity.groupByLabelKey",
		"spec.placement.workloadAffinity.antiAffinity.groupByLabelKey",
		"spec.failover.application.statePreservation.rules[1].aliasLabelName",
		"spec.failover.application.statePreservation.rules[1].jsonPath",
		"spec.failover.cluster.statePreservation.rules[0].jsonPath",
	}
	if diff := cmp.Diff(want, fieldsOf(policyv1alpha1.ValidatePropagation(policy))); diff != "" {
		t.Errorf("fields found wrong differ (-want +got):\n%s", diff)
	}
	if errs := policyv1alpha1.ValidatePropagation(&policyv1alpha1.ClusterPropagationPolicy{}); len(errs) > 0 {
		t.Errorf("unexpected errors: %v", errs)
	}
}

func TestValidateMoves(t *testing.T) {
	cases := map[string]struct {
		key, value string
		preserve   bool
		ok         bool
	}{
		"Exclusive":             {policyv1alpha1.HandoverAnnotation, "Exclusive", false, true},
		"ExclusiveAndPreserved": {policyv1alpha1.HandoverAnnotation, "Exclusive", true, false},
		"OverlapAndPreserved":   {policyv1alpha1.HandoverAnnotation, "Overlap", true, true},
		"Handover":              {policyv1alpha1.HandoverAnnotation, "exclusive", false, false},
		"WhenHealthy":           {policyv1alpha1.ClusterFailbackAnnotation, "WhenHealthy", false, true},
		"Failback":              {policyv1alpha1.ClusterFailbackAnnotation, "Soon", false, false},
		"Soak":                  {policyv1alpha1.ClusterFailbackSoakAnnotation, "90s", false, true},
		"NoSoak":                {policyv1alpha1.ClusterFailbackSoakAnnotation, "90", false, false},
		"SoakBelowZero":         {policyv1alpha1.ClusterFailbackSoakAnnotation, "-1s", false, false},
		"Requested":             {policyv1alpha1.ClusterFailbackRequestedAnnotation, "2027-01-31T12:00:00Z", false, true},
		"RequestedSomeday":      {policyv1alpha1.ClusterFailbackRequestedAnnotation, "today", false, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			policy := &policyv1alpha1.PropagationPolicy{}
			policy.Annotations = map[string]string{tc.key: tc.value}
			policy.Spec.PreserveResourcesOnDeletion = &tc.preserve
			if errs := policyv1alpha1.ValidatePropagation(policy); (len(errs) == 0) != tc.ok {
				t.Errorf("errors are %v", errs)
			}
		})
	}
}

func TestValidateOverride(t *testing.T) {
	overriders := policyv1alpha1.Overriders{
		Plaintext: []policyv1alpha1.PlaintextOverrider{{Path: "/metadata/annotations/a~1b~0c"}, {Path: "spec"}, {Path: "/a~2"}},
		FieldOverrider: []policyv1alpha1.FieldOverrider{{
			FieldPath: "/data/x",
			JSON:      []policyv1alpha1.JSONPatchOperation{{SubPath: "/a"}, {SubPath: "a"}},
			YAML:      []policyv1alpha1.YAMLPatchOperation{{SubPath: "/a~"}},
		}},
		ImageOverrider: []policyv1alpha1.ImageOverrider{
			{Operator: policyv1alpha1.OverriderOpRemove},
			{Operator: policyv1alpha1.OverriderOpAdd, Predicate: &policyv1alpha1.ImagePredicate{Path: "x"}},
		},
		LabelsOverrider: []policyv1alpha1.LabelAnnotationOverrider{
			{Operator: policyv1alpha1.OverriderOpRemove, Value: map[string]string{"not a name": ""}},
			{Operator: policyv1alpha1.OverriderOpAdd, Value: map[string]string{"tier": "not a value"}},
		},
		AnnotationsOverrider: []policyv1alpha1.LabelAnnotationOverrider{
			{Operator: policyv1alpha1.OverriderOpReplace, Value: map[string]string{"fine": "any text", "not a name": ""}},
		},
	}
	wrong := []string{
		"plaintext[1].path", "plaintext[2].path", "fieldOverrider[0].json[1].subPath", "fieldOverrider[0].yaml[0].subPath",
		"imageOverrider[1].predicate.path", "imageOverrider[1].value",
		"labelsOverrider[1].value", "annotationsOverrider[0].value",
	}
	policy := &policyv1alpha1.OverridePolicy{Spec: policyv1alpha1.OverrideSpec{
		ResourceSelectors: []policyv1alpha1.ResourceSelector{{LabelSelector: badSelector()}},
		OverrideRules: []policyv1alpha1.RuleWithCluster{{
			TargetCluster: &policyv1alpha1.ClusterAffinity{LabelSelector: badSelector()}, Overriders: overriders}},
		TargetCluster: &policyv1alpha1.ClusterAffinity{LabelSelector: badSelector()},
		Overriders:    overriders,
	}}
	want := []string{
		"spec.resourceSelectors[0].labelSelector.matchExpressions[0].values",
		"spec.overrideRules[0].targetCluster.labelSelector.matchExpressions[0].values",
	}
	for _, path := range wrong {
		want = append(want, "spec.overrideRules[0].overriders."+path)
	}
	want = append(want, "spec.targetCluster.labelSelector.matchExpressions[0].values")
	for _, path := range wrong {
		want = append(want, "spec.overriders."+path)
	}
	if diff := cmp.Diff(want, fieldsOf(policyv1alpha1.ValidateOverride(policy))); diff != "" {
		t.Errorf("fields found wrong differ (-want +got):\n%s", diff)
	}
}

func TestValidateClusterTaintPolicy(t *testing.T) {
	policy := &policyv1alpha1.ClusterTaintPolicy{Spec: policyv1alpha1.ClusterTaintPolicySpec{
		TargetClusters: &policyv1alpha1.ClusterAffinity{LabelSelector: badSelector()},
		Taints:         []policyv1alpha1.Taint{{Key: "example.com/a"}, {Key: "a b"}, {Key: "c", Value: "not a value"}},
	}}
	want := []string{"spec.targetClusters.labelSelector.matchExpressions[0].values", "spec.taints[1].key", "spec.taints[2].value"}
	if diff := cmp.Diff(want, fieldsOf(policyv1alpha1.ValidateClusterTaintPolicy(policy))); diff != "" {
		t.Errorf("fields found wrong differ (-want +got):\n%s", diff)
	}
}
