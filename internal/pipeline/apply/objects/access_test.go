package objects

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestIsFamilyUnsupported: what counts is the field that the member refuses, not the text of its answer.
func TestIsFamilyUnsupported(t *testing.T) {
	kind, path := schema.GroupKind{Kind: "Service"}, field.NewPath("spec")
	families := apierrors.NewInvalid(kind, "web", field.ErrorList{field.Invalid(path.Child("ipFamilies").Index(0), "IPv6", "not configured on this cluster")})
	other := apierrors.NewInvalid(kind, "web", field.ErrorList{field.Invalid(path.Child("ports"), "80", "not with ipFamilies")})
	if wrapped := fmt.Errorf("applying Service web: %w", families); !IsFamilyUnsupported(wrapped) {
		t.Errorf("%v: it is not recognized", wrapped)
	}
	for _, err := range []error{other, errors.New("spec.ipFamilies"), apierrors.NewForbidden(schema.GroupResource{}, "web", families)} {
		if IsFamilyUnsupported(err) {
			t.Errorf("%v: it counts as a refusal of families", err)
		}
	}
	if !Only(IsFamilyUnsupported, []error{families, families}) || Only(IsFamilyUnsupported, []error{families, other}) || Only(IsFamilyUnsupported, nil) {
		t.Error("all of the errors have to be refusals of families, and there has to be one")
	}
}
