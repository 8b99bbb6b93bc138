package admission

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// protected is the sentence that clients of Karmada look for.
const protected = "This resource is protected, please make sure to remove the label"

// refuseProtected keeps an object of any kind that its user marked against deletion.
func refuseProtected(a admission.Attributes) error {
	if a.GetSubresource() != "" || a.GetOldObject() == nil {
		return nil
	}
	object, err := meta.Accessor(a.GetOldObject())
	if err != nil || object.GetLabels()[policyv1alpha1.DeletionProtectionLabel] != policyv1alpha1.DeletionProtectionAlways {
		return nil
	}
	return admission.NewForbidden(a, fmt.Errorf("%s: %s", protected, policyv1alpha1.DeletionProtectionLabel))
}
