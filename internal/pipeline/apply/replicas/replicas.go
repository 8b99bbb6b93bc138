package replicas

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
)

// retained returns whether the user leaves the number of replicas to the member.
func retained(obj *unstructured.Unstructured) bool {
	return obj.GetLabels()[policyv1alpha1.RetainReplicasLabel] == "true"
}

// Reclaimed returns whether the member decided about the replicas by the label that the template does not have any more. Then the
// template decides again, whoever has scaled the object in the member.
func Reclaimed(desired, live *unstructured.Unstructured) bool {
	return retained(live) && !retained(desired)
}

// Yield leaves spec.replicas to the manager that scales the object in the member, and to the member if the template has the label.
// To stop applying a field that only we own would remove it, so as long as that is so we apply what it is. If a manager has scaled the
// object to the number that we apply, both own the field, and the template goes on to decide.
func Yield(self ownership.ControlPlane, desired, live *unstructured.Unstructured) *unstructured.Unstructured {
	_, isSet, _ := unstructured.NestedFieldNoCopy(desired.Object, "spec", "replicas")
	_, owned, _ := unstructured.NestedFieldNoCopy(self.OurFields(live), "f:spec", "f:replicas")
	scaled, left := ownership.OwnedThroughScale(live), retained(desired)
	if !isSet || Reclaimed(desired, live) || !left && (owned || !scaled) {
		return desired
	}
	yielded := desired.DeepCopy()
	current, exists, _ := unstructured.NestedInt64(live.Object, "spec", "replicas")
	if owned && exists && !scaled {
		_ = unstructured.SetNestedField(yielded.Object, current, "spec", "replicas") // its parent exists
	} else {
		unstructured.RemoveNestedField(yielded.Object, "spec", "replicas")
	}
	return yielded
}

// WithoutRetained leaves out what the control plane does not set: replicas that the user leaves to the member.
func WithoutRetained(desired *unstructured.Unstructured) *unstructured.Unstructured {
	if !retained(desired) {
		return desired
	}
	rest := desired.DeepCopy()
	unstructured.RemoveNestedField(rest.Object, "spec", "replicas")
	return rest
}
