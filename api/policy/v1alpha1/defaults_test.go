package v1alpha1_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

func TestSetPropagationDefaults(t *testing.T) {
	type spec = policyv1alpha1.PropagationSpec
	cases := map[string]struct{ given, want spec }{
		"nothing to complete": {},
		"a selector stays in the policy's namespace": {
			given: spec{ResourceSelectors: []policyv1alpha1.ResourceSelector{{Kind: "Secret", Namespace: "elsewhere"}}},
			want:  spec{ResourceSelectors: []policyv1alpha1.ResourceSelector{{Kind: "Secret", Namespace: "ns"}}},
		},
		"an imported service brings what it needs": {
			given: spec{ResourceSelectors: []policyv1alpha1.ResourceSelector{
				{APIVersion: "multicluster.x-k8s.io/v1alpha1", Kind: "ServiceImport", Namespace: "ns"}}},
			want: spec{PropagateDeps: true, ResourceSelectors: []policyv1alpha1.ResourceSelector{
				{APIVersion: "multicluster.x-k8s.io/v1alpha1", Kind: "ServiceImport", Namespace: "ns"}}},
		},
		"in any version": {
			given: spec{ResourceSelectors: []policyv1alpha1.ResourceSelector{
				{APIVersion: "multicluster.x-k8s.io/v1beta1", Kind: "ServiceImport", Namespace: "ns"}}},
			want: spec{PropagateDeps: true, ResourceSelectors: []policyv1alpha1.ResourceSelector{
				{APIVersion: "multicluster.x-k8s.io/v1beta1", Kind: "ServiceImport", Namespace: "ns"}}},
		},
		"groups are clusters, and one is enough": {
			given: spec{Placement: policyv1alpha1.Placement{SpreadConstraints: []policyv1alpha1.SpreadConstraint{{MaxGroups: 2}, {SpreadByLabel: "rack", MinGroups: 2}}}},
			want: spec{Placement: policyv1alpha1.Placement{SpreadConstraints: []policyv1alpha1.SpreadConstraint{
				{SpreadByField: "cluster", MaxGroups: 2, MinGroups: 1}, {SpreadByLabel: "rack", MinGroups: 2}}}},
		},
		"replicas are divided by weight": {
			given: spec{Placement: policyv1alpha1.Placement{ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{ReplicaSchedulingType: "Divided"}}},
			want: spec{Placement: policyv1alpha1.Placement{ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{
				ReplicaSchedulingType: "Divided", ReplicaDivisionPreference: "Weighted"}}},
		},
		"full copies have no weight": {
			given: spec{Placement: policyv1alpha1.Placement{ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{ReplicaSchedulingType: "Duplicated"}}},
			want:  spec{Placement: policyv1alpha1.Placement{ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{ReplicaSchedulingType: "Duplicated"}}},
		},
		"grace has a period": {
			given: spec{Failover: &policyv1alpha1.FailoverBehavior{Application: &policyv1alpha1.ApplicationFailoverBehavior{PurgeMode: "Gracefully"}}},
			want: spec{Failover: &policyv1alpha1.FailoverBehavior{Application: &policyv1alpha1.ApplicationFailoverBehavior{
				PurgeMode: "Gracefully", GracePeriodSeconds: ptr.To[int32](600)}}},
		},
		"no grace, no period": {
			given: spec{Failover: &policyv1alpha1.FailoverBehavior{Application: &policyv1alpha1.ApplicationFailoverBehavior{PurgeMode: "Directly"}}},
			want:  spec{Failover: &policyv1alpha1.FailoverBehavior{Application: &policyv1alpha1.ApplicationFailoverBehavior{PurgeMode: "Directly"}}},
		},
	}
	for reason, c := range cases {
		t.Run(reason, func(t *testing.T) {
			policy := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Spec: c.given}
			policyv1alpha1.SetPropagationDefaults(policy)
			if diff := cmp.Diff(c.want, policy.Spec); diff != "" {
				t.Errorf("differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDefaultsLeaveClusterScopedSelectorsAlone(t *testing.T) {
	selectors := []policyv1alpha1.ResourceSelector{{Kind: "Secret", Namespace: "elsewhere"}, {Kind: "Secret"}}
	propagation := &policyv1alpha1.ClusterPropagationPolicy{}
	propagation.Spec.ResourceSelectors = append(propagation.Spec.ResourceSelectors, selectors...)
	policyv1alpha1.SetPropagationDefaults(propagation)
	if diff := cmp.Diff(selectors, propagation.Spec.ResourceSelectors); diff != "" {
		t.Errorf("propagation selectors differ (-want +got):\n%s", diff)
	}
	override := &policyv1alpha1.ClusterOverridePolicy{}
	override.Spec.ResourceSelectors = append(override.Spec.ResourceSelectors, selectors...)
	policyv1alpha1.SetOverrideDefaults(override)
	if diff := cmp.Diff(selectors, override.Spec.ResourceSelectors); diff != "" {
		t.Errorf("override selectors differ (-want +got):\n%s", diff)
	}
	namespaced := &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}
	namespaced.Spec.ResourceSelectors = append(namespaced.Spec.ResourceSelectors, selectors...)
	policyv1alpha1.SetOverrideDefaults(namespaced)
	for i, selector := range namespaced.Spec.ResourceSelectors {
		if selector.Namespace != "ns" {
			t.Errorf("selector %d of a namespaced policy selects from %q", i, selector.Namespace)
		}
	}
}
