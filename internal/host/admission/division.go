package admission

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// warnDivision warns of each selector of a propagation policy that divides StatefulSets without saying that the sets are independent, or a kind
// whose replicas the control plane cannot read. A policy that places them in one cluster divides nothing.
func (p *Plugin) warnDivision(ctx context.Context, kind schema.GroupKind, object, old subject) {
	custom, placement := placementOf(kind, object, old)
	if custom == nil {
		return
	}
	divides := placement.ReplicaScheduling != nil && placement.ReplicaScheduling.ReplicaSchedulingType != policyv1alpha1.ReplicaSchedulingTypeDuplicated
	if !divides || inOneCluster(placement, policyv1alpha1.IsOn(custom.GetAnnotations(), policyv1alpha1.SpreadStaticWeightsAnnotation)) {
		return
	}
	independent := policyv1alpha1.IsOn(custom.GetAnnotations(), policyv1alpha1.MembersIndependentAnnotation)
	selectors, _, _ := unstructured.NestedSlice(custom.Object, "spec", "resourceSelectors") // the schema refuses another type
	for i, item := range selectors {
		selector, _ := item.(map[string]any)
		of, _ := selector["kind"].(string)
		version, _ := selector["apiVersion"].(string)
		path := field.NewPath("spec", "resourceSelectors").Index(i)
		switch {
		case of == "StatefulSet" && !independent:
			warning.AddWarning(ctx, "", fmt.Sprintf("%s selects StatefulSets, which the policy divides: each cluster names its pods from 0 on and gives them volumes of their own, "+
				"so that these are several sets, not one. The annotation %s=true says that they are independent", path, policyv1alpha1.MembersIndependentAnnotation))
		case p.ReplicasUnknown != nil && p.ReplicasUnknown(schema.FromAPIVersionAndKind(version, of)):
			warning.AddWarning(ctx, "", fmt.Sprintf("%s selects the kind %s, whose replicas are not known, and the policy divides: each cluster gets all replicas of an object. "+
				"A ResourceInterpreterCustomization with replicaResource and replicaRevision says which they are, or the subresource scale of the definition", path, of))
		}
	}
}

// inOneCluster returns whether a placement never chooses two clusters. Spread constraints have no effect with static weights, unless the
// policy says so.
func inOneCluster(placement *policyv1alpha1.Placement, spreadStatic bool) bool {
	if a := placement.ClusterAffinity; a != nil && len(a.ClusterNames) == 1 {
		return true
	}
	if placement.HasStaticWeights() && !spreadStatic {
		return false
	}
	one := false
	for i := range placement.SpreadConstraints {
		c := &placement.SpreadConstraints[i]
		if c.MinGroups > 1 {
			return false // each region that is required has its cluster
		}
		one = one || c.SpreadByField == policyv1alpha1.SpreadByFieldCluster && c.MaxGroups == 1
	}
	return one
}
