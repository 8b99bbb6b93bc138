package admission

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/warning"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// placementOf returns a propagation policy whose spec is new or changes, and its placement; nil for anything else.
func placementOf(kind schema.GroupKind, object, old subject) (*unstructured.Unstructured, *policyv1alpha1.Placement) {
	custom, ok := object.(*unstructured.Unstructured)
	policy := kind.Kind == policyv1alpha1.KindPropagationPolicy || kind.Kind == policyv1alpha1.KindClusterPropagationPolicy
	if !ok || !policy || kind.Group != policyv1alpha1.GroupName || sameSpec(object, old) {
		return nil, nil
	}
	placement := &policyv1alpha1.Placement{}
	content, found, err := unstructured.NestedMap(custom.Object, "spec", "placement")
	if err != nil || !found || runtime.DefaultUnstructuredConverter.FromUnstructured(content, placement) != nil {
		return nil, nil // the schema refuses another type
	}
	return custom, placement
}

// warnWeights warns of spread constraints of a propagation policy that have no effect because it has static weights.
func warnWeights(ctx context.Context, kind schema.GroupKind, object, old subject) {
	custom, placement := placementOf(kind, object, old)
	if custom == nil || policyv1alpha1.IsOn(custom.GetAnnotations(), policyv1alpha1.SpreadStaticWeightsAnnotation) {
		return
	}
	if len(placement.SpreadConstraints) > 0 && placement.HasStaticWeights() {
		warning.AddWarning(ctx, "", fmt.Sprintf("spec.placement.spreadConstraints has no effect with a staticWeightList: "+
			"the replicas are divided among all clusters that fit. With the annotation %s=true it holds", policyv1alpha1.SpreadStaticWeightsAnnotation))
	}
}
