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

// warnWeights warns of spread constraints of a propagation policy that have no effect because it has static weights.
func warnWeights(ctx context.Context, kind schema.GroupKind, object, old subject) {
	custom, ok := object.(*unstructured.Unstructured)
	policy := kind.Kind == policyv1alpha1.KindPropagationPolicy || kind.Kind == policyv1alpha1.KindClusterPropagationPolicy
	if !ok || !policy || kind.Group != policyv1alpha1.GroupName || sameSpec(object, old) {
		return
	}
	if policyv1alpha1.IsOn(custom.GetAnnotations(), policyv1alpha1.SpreadStaticWeightsAnnotation) {
		return
	}
	var placement policyv1alpha1.Placement
	content, found, err := unstructured.NestedMap(custom.Object, "spec", "placement")
	if err != nil || !found || runtime.DefaultUnstructuredConverter.FromUnstructured(content, &placement) != nil {
		return // the schema refuses another type
	}
	if len(placement.SpreadConstraints) > 0 && placement.HasStaticWeights() {
		warning.AddWarning(ctx, "", fmt.Sprintf("spec.placement.spreadConstraints has no effect with a staticWeightList: "+
			"the replicas are divided among all clusters that fit. With the annotation %s=true it holds", policyv1alpha1.SpreadStaticWeightsAnnotation))
	}
}
