package compose

import (
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
)

// claimKeys are the ownership keys that a copy has from its template: they name what selected the template, and nothing in
// a member depends on them.
var claimKeys = map[string]bool{
	policyv1alpha1.PropagationPolicyPermanentIDLabel:        true,
	policyv1alpha1.PropagationPolicyNamespaceAnnotation:     true,
	policyv1alpha1.PropagationPolicyNameAnnotation:          true,
	policyv1alpha1.ClusterPropagationPolicyPermanentIDLabel: true,
	policyv1alpha1.ClusterPropagationPolicyNameAnnotation:   true,
	policyv1alpha1.ResourceTemplateClaimedByLabel:           true,
	networkingv1alpha1.MultiClusterServicePermanentIDLabel:  true,
	networkingv1alpha1.MultiClusterServiceNamespaceLabel:    true,
	networkingv1alpha1.MultiClusterServiceNameLabel:         true,
}

// removeOwnershipKeys removes, in place, the ownership keys that a user wrote on a template. The copy gets its own later.
func removeOwnershipKeys(obj *unstructured.Unstructured) {
	for _, name := range []string{"labels", "annotations"} {
		value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "metadata", name)
		if entries, ok := value.(map[string]any); ok {
			maps.DeleteFunc(entries, func(key string, _ any) bool { return workv1alpha1.IsOwnershipKey(key) && !claimKeys[key] })
		}
	}
}

// checkIdentity returns an error if an interpreter made another object of a template. Customizations may
// change the content of a copy, not which object it is.
func checkIdentity(template, made *unstructured.Unstructured) error {
	for _, field := range []struct{ path, want, got string }{
		{"apiVersion", template.GetAPIVersion(), made.GetAPIVersion()},
		{"kind", template.GetKind(), made.GetKind()},
		{"metadata.namespace", template.GetNamespace(), made.GetNamespace()},
		{"metadata.name", template.GetName(), made.GetName()},
	} {
		if field.got != field.want {
			return fmt.Errorf("the interpreter of the kind changed %s from %q to %q", field.path, field.want, field.got)
		}
	}
	return nil
}

// ErrNotOfNamespace means that a binding names an object outside its namespace.
var ErrNotOfNamespace = errors.New("spec.resource: a ResourceBinding names an object of its own namespace, a ClusterResourceBinding one that belongs to none. Delete this binding")

// CheckTemplate returns an error if a binding names an object that must not be propagated. Admission refuses such a binding; one that was
// stored before comes here.
func CheckTemplate(binding workv1alpha2.Binding) error {
	ref := hubstore.TemplateOf(binding.BindingSpec())
	switch {
	case ref.Namespace != binding.GetNamespace():
		return ErrNotOfNamespace
	case hubstore.Excluded(ref) && !hubstore.MayLeave(ref):
		return fmt.Errorf("spec.resource: %s is never sent to members. Delete this binding", ref)
	}
	return nil
}
