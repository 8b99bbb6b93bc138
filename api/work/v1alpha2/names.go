package v1alpha2

import (
	"strings"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// BindingName returns the name of the binding of a template, for example
// "nginx-deployment".
func BindingName(kind, name string) string {
	return strings.ToLower(strings.ReplaceAll(name, ":", ".") + "-" + kind)
}

// DependedByLabel returns the label key by which an attached binding names one
// binding that depends on it; the value is that binding's permanent id.
func DependedByLabel(namespace, bindingName string) string {
	return dependedByLabelPrefix + workv1alpha1.NameHash(namespace+"/"+bindingName)
}
