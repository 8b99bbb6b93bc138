package admission

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// warnSelectors warns of each selector of a propagation policy that selects nothing because what it names is never sent to members.
func (p *Plugin) warnSelectors(ctx context.Context, kind schema.GroupKind, object, old subject) {
	namespaced := kind == schema.GroupKind{Group: policyv1alpha1.GroupName, Kind: policyv1alpha1.KindPropagationPolicy}
	cluster := kind == schema.GroupKind{Group: policyv1alpha1.GroupName, Kind: policyv1alpha1.KindClusterPropagationPolicy}
	custom, ok := object.(*unstructured.Unstructured)
	if !ok || !namespaced && !cluster || sameSpec(object, old) {
		return
	}
	selectors, _, _ := unstructured.NestedSlice(custom.Object, "spec", "resourceSelectors") // the schema refuses another type
	for i, item := range selectors {
		selector, _ := item.(map[string]any)
		text := func(key string) string { value, _ := selector[key].(string); return value }
		namespace := text("namespace")
		if namespaced {
			namespace = cmp.Or(namespace, custom.GetNamespace())
		}
		of, name := schema.FromAPIVersionAndKind(text("apiVersion"), text("kind")), text("name")
		switch path := field.NewPath("spec", "resourceSelectors").Index(i); {
		case !p.Never(of, namespace, name):
		case workv1alpha1.NamespaceOfKubernetes(namespace) && !p.Never(of, "", name):
			warning.AddWarning(ctx, "", fmt.Sprintf("%s selects only objects with the annotation %s=true: others in namespace %s stay on the control plane",
				path, workv1alpha1.PropagateAnnotation, namespace))
		default:
			warning.AddWarning(ctx, "", fmt.Sprintf("%s selects nothing: it names what belongs to the control plane or to one cluster, or a namespace that stays here, and is never sent to members", path))
		}
	}
}
