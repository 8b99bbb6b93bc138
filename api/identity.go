package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// PermanentIDLabel returns the label key under which objects of a kind carry
// their own permanent id (a UUID, stamped once when they are created), and false
// for kinds that have none.
func PermanentIDLabel(kind schema.GroupKind) (string, bool) {
	switch kind {
	case schema.GroupKind{Group: policyv1alpha1.GroupName, Kind: policyv1alpha1.KindPropagationPolicy}:
		return policyv1alpha1.PropagationPolicyPermanentIDLabel, true
	case schema.GroupKind{Group: policyv1alpha1.GroupName, Kind: policyv1alpha1.KindClusterPropagationPolicy}:
		return policyv1alpha1.ClusterPropagationPolicyPermanentIDLabel, true
	case schema.GroupKind{Group: workv1alpha2.GroupName, Kind: workv1alpha2.KindResourceBinding}:
		return workv1alpha2.ResourceBindingPermanentIDLabel, true
	case schema.GroupKind{Group: workv1alpha2.GroupName, Kind: workv1alpha2.KindClusterResourceBinding}:
		return workv1alpha2.ClusterResourceBindingPermanentIDLabel, true
	case schema.GroupKind{Group: workv1alpha1.GroupName, Kind: workv1alpha1.KindWork}:
		return workv1alpha1.WorkPermanentIDLabel, true
	case schema.GroupKind{Group: networkingv1alpha1.GroupName, Kind: networkingv1alpha1.KindMultiClusterService}:
		return networkingv1alpha1.MultiClusterServicePermanentIDLabel, true
	}
	return "", false
}

// ValidatePermanentID returns an error if an object of a kind that has a
// permanent id changes or loses it.
func ValidatePermanentID(kind schema.GroupKind, updated, old metav1.Object) field.ErrorList {
	label, ok := PermanentIDLabel(kind)
	id := old.GetLabels()[label]
	if !ok || id == "" || updated.GetLabels()[label] == id {
		return nil
	}
	path := field.NewPath("metadata", "labels").Key(label)
	return field.ErrorList{field.Invalid(path, updated.GetLabels()[label], "cannot be changed once set")}
}

// ReleaseFinalizer returns the finalizer that objects of a kind carry from the
// start, so that what they claimed is released before they go, and false for
// kinds that carry none.
func ReleaseFinalizer(kind schema.GroupKind) (string, bool) {
	switch kind {
	case schema.GroupKind{Group: policyv1alpha1.GroupName, Kind: policyv1alpha1.KindPropagationPolicy}:
		return policyv1alpha1.PropagationPolicyFinalizer, true
	case schema.GroupKind{Group: policyv1alpha1.GroupName, Kind: policyv1alpha1.KindClusterPropagationPolicy}:
		return policyv1alpha1.ClusterPropagationPolicyFinalizer, true
	}
	return "", false
}
