package admission

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// refuseProtected keeps an object of any kind that its user marked against deletion.
func refuseProtected(a admission.Attributes) error {
	if a.GetSubresource() != "" || a.GetOldObject() == nil {
		return nil
	}
	object, err := meta.Accessor(a.GetOldObject())
	if err != nil || object.GetLabels()[policyv1alpha1.DeletionProtectionLabel] != policyv1alpha1.DeletionProtectionAlways {
		return nil
	}
	return admission.NewForbidden(a, fmt.Errorf("it is protected: set its label %s to something else than %q, or remove it, to delete it",
		policyv1alpha1.DeletionProtectionLabel, policyv1alpha1.DeletionProtectionAlways))
}
