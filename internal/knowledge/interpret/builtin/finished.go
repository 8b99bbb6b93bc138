package builtin

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin/fields"
)

// when makes an operation of package interpret of a rule.
func when(finished func(obj *unstructured.Unstructured) bool) func(context.Context, *unstructured.Unstructured) (bool, error) {
	return func(_ context.Context, obj *unstructured.Unstructured) (bool, error) { return finished(obj), nil }
}

func jobFinished(obj *unstructured.Unstructured) bool {
	conditions := fields.Conditions(obj)
	return conditions["Complete"].Status == "True" || conditions["Failed"].Status == "True"
}

// podFinished: a pod that its kubelet always starts again has no end. It fails when it is evicted, and is wanted again then.
func podFinished(obj *unstructured.Unstructured) bool {
	policy, _, _ := unstructured.NestedString(obj.Object, "spec", "restartPolicy")
	phase := fields.StatusText(obj, "phase")
	return policy != "" && policy != "Always" && (phase == "Succeeded" || phase == "Failed")
}
