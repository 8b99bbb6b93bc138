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

// Yield leaves spec.replicas to the manager that scales the object in the member. To stop applying a field that only we
// own would remove it, so as long as that is so we apply what it is.
func Yield(self ownership.ControlPlane, desired, live *unstructured.Unstructured) *unstructured.Unstructured {
	_, wants, _ := unstructured.NestedFieldNoCopy(desired.Object, "spec", "replicas")
	if !wants || !retained(desired) && !ownership.OwnedThroughScale(live) {
		return desired
	}
	yielded := desired.DeepCopy()
	_, owned, _ := unstructured.NestedFieldNoCopy(self.OurFields(live), "f:spec", "f:replicas")
	current, exists, _ := unstructured.NestedInt64(live.Object, "spec", "replicas")
	if owned && exists && !ownership.OwnedThroughScale(live) {
		_ = unstructured.SetNestedField(yielded.Object, current, "spec", "replicas") // its parent exists
	} else {
		unstructured.RemoveNestedField(yielded.Object, "spec", "replicas")
	}
	return yielded
}

// WithoutRetained leaves out what is not ours to want: replicas that the user leaves to the member.
func WithoutRetained(desired *unstructured.Unstructured) *unstructured.Unstructured {
	if !retained(desired) {
		return desired
	}
	rest := desired.DeepCopy()
	unstructured.RemoveNestedField(rest.Object, "spec", "replicas")
	return rest
}
