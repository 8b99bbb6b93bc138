package propagate

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

// Rules makes Deps.Customized of the part of an interpreter that users wrote: the fingerprint of the operations that a binding is made with.
func Rules(customized *interpret.Chained) func(schema.GroupVersionKind) string {
	return func(kind schema.GroupVersionKind) string {
		return customized.Fingerprint(kind, configv1alpha1.InterpreterOperationInterpretReplica,
			configv1alpha1.InterpreterOperationInterpretComponent, configv1alpha1.InterpreterOperationInterpretDependency)
	}
}
