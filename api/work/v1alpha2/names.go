package v1alpha2

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// BindingName returns the name of the binding of a template, for example
// "nginx-deployment". Templates of equal kind and name in two groups share it,
// and so do templates whose names differ in case and colons only: the second
// one's binding has the AlternativeBindingName.
func BindingName(kind, name string) string {
	return workv1alpha1.LegalName(plainBindingName(kind, name), kind+"/"+name)
}

// AlternativeBindingName returns the name of the binding of a template while the
// binding of another template has the BindingName. No two templates share it.
func AlternativeBindingName(kind schema.GroupKind, namespace, name string) string {
	return workv1alpha1.AlternativeName(plainBindingName(kind.Kind, name), kind, namespace, name)
}

func plainBindingName(kind, name string) string {
	return strings.ToLower(strings.ReplaceAll(name, ":", ".") + "-" + kind)
}

// DependedByLabel returns the label key by which an attached binding names one
// binding that depends on it; the value is that binding's permanent id.
func DependedByLabel(namespace, bindingName string) string {
	return dependedByLabelPrefix + workv1alpha1.NameHash(namespace+"/"+bindingName)
}
