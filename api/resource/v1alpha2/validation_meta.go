package v1alpha2

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateMeta applies the rules that built-in kinds have for metadata: those of every object, and that of their finalizers.
func validateMeta(metadata *metav1.ObjectMeta, namespaced bool) field.ErrorList {
	path := field.NewPath("metadata")
	errs := apivalidation.ValidateObjectMeta(metadata, namespaced, apivalidation.NameIsDNSSubdomain, path)
	return append(errs, validateFinalizers(metadata.Finalizers, path)...)
}

// validateMetaUpdate does the same for what may change. A whole object that is updated is checked by both, and has the cause of both.
func validateMetaUpdate(metadata, old *metav1.ObjectMeta) field.ErrorList {
	path := field.NewPath("metadata")
	errs := apivalidation.ValidateObjectMetaUpdate(metadata, old, path)
	return append(errs, validateFinalizers(metadata.Finalizers, path)...)
}

// validateFinalizers refuses names without a domain, but for those of Kubernetes.
func validateFinalizers(finalizers []string, path *field.Path) field.ErrorList {
	standard := []string{string(corev1.FinalizerKubernetes), metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents}
	var errs field.ErrorList
	for i, name := range finalizers {
		if !strings.Contains(name, "/") && !slices.Contains(standard, name) {
			errs = append(errs, field.Invalid(path.Child("finalizers").Index(i), name, "name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}
