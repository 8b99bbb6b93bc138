package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// warnFinalizers warns who creates an object with finalizers of an operator: these hold the object here, where the operator does not run,
// and copies do not have them.
func (p *Plugin) warnFinalizers(ctx context.Context, a admission.Attributes, object subject) {
	if a.GetOperation() != admission.Create || ofControlPlane(a) {
		return
	}
	held := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(name string) bool {
		domain, _, qualified := strings.Cut(name, "/")
		return !qualified || domain == "kubernetes.io" || domain == "karmada.io" || strings.HasSuffix(domain, ".karmada.io") || domain == "flagship.io"
	})
	if len(held) == 0 || p.Never(a.GetKind(), object.GetNamespace(), object.GetName()) {
		return
	}
	warning.AddWarning(ctx, "", fmt.Sprintf("metadata.finalizers: a deletion of the object on the control plane waits until a program here removes %s, and copies in members do not have it. "+
		"If its operator runs in members, set the annotation %s: %s instead", strings.Join(held, ", "), workv1alpha1.MemberFinalizersAnnotation, strings.Join(held, ",")))
}

// validateFinalizers returns what is wrong with the finalizers that an object is to have in members, unless they are as before.
func validateFinalizers(object, old subject) field.ErrorList {
	value, set := object.GetAnnotations()[workv1alpha1.MemberFinalizersAnnotation]
	if !set || old != nil && old.GetAnnotations()[workv1alpha1.MemberFinalizersAnnotation] == value {
		return nil
	}
	path := field.NewPath("metadata", "annotations").Key(workv1alpha1.MemberFinalizersAnnotation)
	finalizers := workv1alpha1.MemberFinalizers(object.GetAnnotations())
	if len(finalizers) > workv1alpha1.MaxMemberFinalizers {
		return field.ErrorList{field.TooMany(path, len(finalizers), workv1alpha1.MaxMemberFinalizers)}
	}
	var errs field.ErrorList
	for _, name := range finalizers {
		errs = append(errs, apivalidation.ValidateFinalizerName(name, path)...)
		if !strings.Contains(name, "/") {
			errs = append(errs, field.Invalid(path, name, "must be a name with a domain, such as example.org/cleanup"))
		}
	}
	return errs
}
