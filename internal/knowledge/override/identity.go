package override

import (
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// identity is what overrides must leave as it is: which object it is, to whom it belongs and, for the policies of a namespace,
// whom it gives which rights.
type identity struct {
	apiVersion, kind, namespace, name string
	// labels and annotations are those with ownership keys. They are not in the object while it is edited, so that an edit of all
	// labels at once does no harm to them.
	labels, annotations map[string]string
	// rights are the fields of an RBAC object that give rights, and values is how many values they have.
	rights map[string]any
	values int
}

// rbacFields are the fields of RBAC objects that give rights.
var rbacFields = []string{"rules", "aggregationRule", "subjects", "roleRef"}

func identityOf(object *unstructured.Unstructured) identity {
	id := identity{
		apiVersion: object.GetAPIVersion(), kind: object.GetKind(), namespace: object.GetNamespace(), name: object.GetName(),
		labels: ownershipKeys(object.GetLabels()), annotations: ownershipKeys(object.GetAnnotations()),
	}
	if schema.FromAPIVersionAndKind(id.apiVersion, id.kind).Group == "rbac.authorization.k8s.io" {
		id.rights = map[string]any{}
		id.allow(object)
	}
	return id
}

func ownershipKeys(entries map[string]string) map[string]string {
	maps.DeleteFunc(entries, func(key, _ string) bool { return !workv1alpha1.IsOwnershipKey(key) })
	return entries
}

func rightsIn(object map[string]any) map[string]any {
	rights := map[string]any{}
	for _, field := range rbacFields {
		if value, found := object[field]; found {
			rights[field] = value
		}
	}
	return rights
}

// allow makes the rights that an object gives now those that the policies of a namespace leave as they are.
func (id *identity) allow(object *unstructured.Unstructured) {
	if id.rights != nil {
		id.rights = runtime.DeepCopyJSON(rightsIn(object.Object))
		id.values = valuesIn(id.rights)
	}
}

// setAside removes the ownership keys from an object before it is edited.
func (id identity) setAside(object *unstructured.Unstructured) {
	for _, field := range []string{"labels", "annotations"} {
		entries, _, _ := unstructured.NestedFieldNoCopy(object.Object, "metadata", field)
		if entries, ok := entries.(map[string]any); ok {
			maps.DeleteFunc(entries, func(key string, _ any) bool { return workv1alpha1.IsOwnershipKey(key) })
		}
	}
}

// restore puts the ownership keys back.
func (id identity) restore(object *unstructured.Unstructured) {
	if len(id.labels) > 0 {
		object.SetLabels(joined(object.GetLabels(), id.labels))
	}
	if len(id.annotations) > 0 {
		object.SetAnnotations(joined(object.GetAnnotations(), id.annotations))
	}
}

func joined(entries, more map[string]string) map[string]string {
	if entries == nil {
		entries = map[string]string{}
	}
	maps.Copy(entries, more)
	return entries
}

// comparisonSteps is what it takes to compare a value.
const comparisonSteps = 8

// steps is what check takes.
func (id identity) steps(object map[string]any, namespaced bool) int {
	n := 1
	metadata, _ := object["metadata"].(map[string]any)
	for _, field := range []string{"labels", "annotations"} {
		entries, _ := metadata[field].(map[string]any)
		n += len(entries)
	}
	if namespaced {
		n += comparisonSteps * id.values
	}
	return n
}

// check returns what an edit must not have done to an object, which may be anything. Namespaced is true for the edit of a policy of a
// namespace.
func (id identity) check(object map[string]any, namespaced bool) error {
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return fmt.Errorf("an override cannot remove metadata")
	}
	for _, field := range []struct {
		path, want string
		got        any
	}{
		{"apiVersion", id.apiVersion, object["apiVersion"]},
		{"kind", id.kind, object["kind"]},
		{"metadata.namespace", id.namespace, metadata["namespace"]},
		{"metadata.name", id.name, metadata["name"]},
	} {
		switch got, text := field.got.(string); {
		case field.got == nil && field.want != "":
			return fmt.Errorf("an override cannot change %s, which is %q: the object is left without %[1]s", field.path, field.want)
		case got != field.want || !text && field.got != nil:
			return fmt.Errorf("an override cannot change %s, which is %q", field.path, field.want)
		}
	}
	for _, field := range []string{"labels", "annotations"} {
		entries, ok := metadata[field].(map[string]any)
		if !ok && metadata[field] != nil {
			return fmt.Errorf("the %s are no map", field)
		}
		for key, value := range entries {
			if workv1alpha1.IsOwnershipKey(key) {
				return fmt.Errorf("an override cannot set metadata.%s[%s]: it shows which control plane an object in a member belongs to", field, key)
			}
			if _, text := value.(string); !text {
				return fmt.Errorf("metadata.%s[%s] is no text: put it in quotes", field, key)
			}
		}
	}
	if namespaced && id.rights != nil {
		return id.checkRights(object)
	}
	return nil
}

// checkRights refuses that OverridePolicies give rights: the API server lets only those write RBAC objects who have these rights
// themselves, and has no such rule for OverridePolicies.
func (id identity) checkRights(object map[string]any) error {
	if equality.Semantic.DeepEqual(rightsIn(object), id.rights) {
		return nil
	}
	return fmt.Errorf("an OverridePolicy cannot change %s of a %s: use a ClusterOverridePolicy", strings.Join(rbacFields, ", "), id.kind)
}
