package admission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// validateTaintPolicy returns what is wrong with a ClusterTaintPolicy. Taints that evict need the consent of whoever starts the control
// plane, since a condition that is wrong would empty clusters.
func (c Config) validateTaintPolicy(policy *policyv1alpha1.ClusterTaintPolicy) field.ErrorList {
	errs := policyv1alpha1.ValidateClusterTaintPolicy(policy)
	for i, taint := range policy.Spec.Taints {
		if taint.Effect == corev1.TaintEffectNoExecute && !c.AllowNoExecuteTaintPolicy {
			errs = append(errs, field.Forbidden(field.NewPath("spec", "taints").Index(i).Child("effect"),
				"NoExecute is accepted only if the control plane runs with --allow-no-execute-taint-policy"))
		}
	}
	return errs
}

// warnTaints warns of each taint of a ClusterTaintPolicy that has no effect, because it follows from the Ready condition.
func warnTaints(ctx context.Context, kind schema.GroupKind, object, old subject) {
	custom, ok := object.(*unstructured.Unstructured)
	if !ok || kind != (schema.GroupKind{Group: policyv1alpha1.GroupName, Kind: policyv1alpha1.KindClusterTaintPolicy}) || sameSpec(object, old) {
		return
	}
	taints, _, _ := unstructured.NestedSlice(custom.Object, "spec", "taints") // the schema refuses another type
	for i, item := range taints {
		taint, _ := item.(map[string]any)
		key, _ := taint["key"].(string)
		effect, _ := taint["effect"].(string)
		if clusterv1alpha1.IsConditionTaint(key, corev1.TaintEffect(effect)) {
			warning.AddWarning(ctx, "", fmt.Sprintf("%s has no effect: the control plane sets and removes it by the condition Ready",
				field.NewPath("spec", "taints").Index(i)))
		}
	}
}
