package unfollowed

import (
	"errors"
	"fmt"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	"github.com/flagship-k8s/flagship/api/crds"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
)

// Err is about an object that a preview does not follow.
var Err = errors.New("what this object does is not computed")

// Kind is why a preview does not follow a kind: an error that is Err.
func Kind(kind schema.GroupKind) error {
	why := crds.NotYetActive()[kind]
	if kind == (schema.GroupKind{Group: configv1alpha1.GroupName, Kind: configv1alpha1.KindResourceInterpreterWebhookConfiguration}) {
		why = "its webhook would have to be called for every object of its kinds"
	}
	if why == "" {
		return Err
	}
	return fmt.Errorf("%w: %s", Err, why)
}

// Of is what of an object that is applied, or deleted, a preview does not follow, though it follows its kind; "" if there is nothing. Nil:
// there is no object.
func Of(obj *unstructured.Unstructured, deleted bool) string {
	if obj == nil {
		return ""
	}
	switch obj.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: configv1alpha1.GroupName, Kind: configv1alpha1.KindResourceInterpreterCustomization}:
		return rules(obj)
	case schema.GroupKind{Group: networkingv1alpha1.GroupName, Kind: networkingv1alpha1.KindMultiClusterService}:
		return "which endpoints it brings to clusters is not computed: that depends on the EndpointSlices in members"
	case schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:
		if !deleted {
			return autoscaler(obj)
		}
	case schema.GroupKind{Group: "multicluster.x-k8s.io", Kind: "ServiceExport"}, schema.GroupKind{Group: "multicluster.x-k8s.io", Kind: "ServiceImport"}:
		return "what is imported is not computed: that depends on the Services and EndpointSlices in members"
	}
	return ""
}

// rules are those of a customization whose effect is in members, or in a status.
func rules(obj *unstructured.Unstructured) string {
	all, _, err := unstructured.NestedMap(obj.Object, "spec", "customizations")
	if err != nil {
		return ""
	}
	var found []string
	for _, name := range []string{"retention", "statusReflection", "statusAggregation", "healthInterpretation"} {
		if all[name] != nil {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return fmt.Sprintf("what its %s does is not computed: that is in members, or in a status", strings.Join(found, ", "))
}

// autoscaler is what an autoscaler in a member does, as far as that is known without metrics.
func autoscaler(obj *unstructured.Unstructured) string {
	hpa := &autoscalingv2.HorizontalPodAutoscaler{}
	if obj.GroupVersionKind().Version != "v2" || runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, hpa) != nil {
		return "how many replicas it sets in members is not computed"
	}
	least := int32(1)
	if hpa.Spec.MinReplicas != nil {
		least = *hpa.Spec.MinReplicas
	}
	target := hpa.Spec.ScaleTargetRef
	return fmt.Sprintf("in each member that has it and %s %s, it owns spec.replicas there and keeps it from %d to %d; within these, metrics of the member decide, which are not read",
		target.Kind, target.Name, least, hpa.Spec.MaxReplicas)
}
