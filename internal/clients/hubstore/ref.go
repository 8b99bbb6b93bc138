package hubstore

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// Ref names one template. It is comparable and serves as a queue key.
// Namespace is empty for cluster-scoped kinds.
type Ref struct {
	GroupVersionKind schema.GroupVersionKind
	Namespace, Name  string
}

// NamespaceRef returns the reference of a namespace.
func NamespaceRef(name string) Ref {
	return Ref{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, Name: name}
}

// RefOf returns the reference of an object that has its kind set.
func RefOf(obj *unstructured.Unstructured) Ref {
	return Ref{GroupVersionKind: obj.GroupVersionKind(), Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// TemplateOf returns the reference of a binding's template, in the version that the binding names.
func TemplateOf(spec *workv1alpha2.ResourceBindingSpec) Ref {
	return Ref{GroupVersionKind: spec.Resource.GroupVersionKind(), Namespace: spec.Resource.Namespace, Name: spec.Resource.Name}
}

// String is the reference as logs show it: "apps/v1/Deployment shop/web".
func (r Ref) String() string {
	var b strings.Builder
	b.WriteString(r.GroupVersionKind.GroupVersion().String())
	b.WriteByte('/')
	b.WriteString(r.GroupVersionKind.Kind)
	b.WriteByte(' ')
	if r.Namespace != "" {
		b.WriteString(r.Namespace)
		b.WriteByte('/')
	}
	b.WriteString(r.Name)
	return b.String()
}

// MarshalLog keeps structured logs to one field per reference.
func (r Ref) MarshalLog() any { return r.String() }

func (r Ref) key() string {
	if r.Namespace == "" {
		return r.Name
	}
	return r.Namespace + "/" + r.Name
}

func (r Ref) objectKey() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

func refTo(gvk schema.GroupVersionKind, obj metav1.Object) Ref {
	return Ref{GroupVersionKind: gvk, Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// Canonical returns the reference in the version in which the store watches the kind.
func (r Ref) Canonical(store interface {
	Canonical(schema.GroupVersionKind) (schema.GroupVersionKind, bool)
}) Ref {
	if gvk, ok := store.Canonical(r.GroupVersionKind); ok {
		r.GroupVersionKind = gvk
	}
	return r
}
