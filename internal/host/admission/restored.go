package admission

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// detach removes from a binding or Work that a user creates the fields that would have it deleted as soon as its template or
// namespace is missed: objects that are restored from a backup come in any order. The control plane puts it back when it
// meets the template or namespace.
func detach(a admission.Attributes, object subject) {
	if a.GetOperation() != admission.Create || ofControlPlane(a) {
		return
	}
	switch object := object.(type) {
	case workv1alpha2.Binding:
		resource := object.BindingSpec().Resource
		object.SetOwnerReferences(slices.DeleteFunc(object.GetOwnerReferences(), func(o metav1.OwnerReference) bool {
			return o.UID == resource.UID || o.Kind == resource.Kind && o.Name == resource.Name
		}))
	case *workv1alpha1.Work:
		delete(object.Annotations, workv1alpha1.CarriedNamespaceAnnotation)
	}
}
