package v1alpha2

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// This file is the rule of who owns a Work. A Work with the keys of a binding is the binding's. A Work that carries a namespace, which
// goes to every cluster with or without a binding, has one name for both: without a binding it belongs to the loop that sends
// namespaces; a binding takes it over by Bind, and ends with Unbind instead of deleting it, which would delete the member's namespace.

// BoundTo returns which binding a Work was made for: "namespace/name", or "/name" of a cluster-scoped one; "" if the Work does not
// name one.
func BoundTo(work metav1.Object) string {
	annotations := work.GetAnnotations()
	if name := annotations[ClusterResourceBindingNameAnnotation]; name != "" {
		return "/" + name
	}
	if name := annotations[ResourceBindingNameAnnotation]; name != "" {
		return annotations[ResourceBindingNamespaceAnnotation] + "/" + name
	}
	return ""
}

// TenantOf returns the namespace of the template that a Work carries; "" for a cluster-scoped one.
func TenantOf(work metav1.Object) string {
	return work.GetAnnotations()[ResourceBindingNamespaceAnnotation]
}

// IsBound returns whether a Work is a binding's. One whose annotations a user removed still has the label.
func IsBound(work metav1.Object) bool {
	labels := work.GetLabels()
	return BoundTo(work) != "" || labels[ResourceBindingPermanentIDLabel] != "" || labels[ClusterResourceBindingPermanentIDLabel] != ""
}

// BindingKeys returns the label and the annotations that name a binding on its Works, and on the objects that they carry.
func BindingKeys(binding Binding) (labels, annotations map[string]string) {
	key := binding.PermanentIDLabel()
	labels = map[string]string{key: binding.GetLabels()[key]}
	if binding.GetNamespace() == "" {
		return labels, map[string]string{ClusterResourceBindingNameAnnotation: binding.GetName()}
	}
	return labels, map[string]string{
		ResourceBindingNamespaceAnnotation: binding.GetNamespace(),
		ResourceBindingNameAnnotation:      binding.GetName(),
	}
}

// Unbind removes what a binding set on a Work, except for the manifest.
func Unbind(work *workv1alpha1.Work) {
	maps.DeleteFunc(work.Labels, func(key, _ string) bool {
		return key == ResourceBindingPermanentIDLabel || key == ClusterResourceBindingPermanentIDLabel
	})
	maps.DeleteFunc(work.Annotations, func(key, _ string) bool {
		return key == ResourceBindingNamespaceAnnotation || key == ResourceBindingNameAnnotation || key == ClusterResourceBindingNameAnnotation
	})
	work.Spec.SuspendDispatching, work.Spec.PreserveResourcesOnDeletion = nil, nil
}
