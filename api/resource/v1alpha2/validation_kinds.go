package v1alpha2

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateClass checks a class.
func ValidateClass(class *ResourceClass) field.ErrorList {
	errs := validateMeta(&class.ObjectMeta, false)
	errs = append(errs, validateDriverName(class.DriverName, field.NewPath("driverName"))...)
	if ref := class.ParametersRef; ref != nil {
		path := field.NewPath("parametersRef")
		errs = append(errs, validateParameters(ref.Kind, ref.Name, path)...)
		if ref.Namespace != "" {
			for _, message := range apivalidation.ValidateNamespaceName(ref.Namespace, false) {
				errs = append(errs, field.Invalid(path.Child("namespace"), ref.Namespace, message))
			}
		}
	}
	if class.SuitableNodes != nil {
		errs = append(errs, validateNodeSelector(class.SuitableNodes, field.NewPath("suitableNodes"))...)
	}
	return errs
}

// ValidateClassUpdate checks a changed class. Everything in it may change.
func ValidateClassUpdate(class, old *ResourceClass) field.ErrorList {
	errs := validateMetaUpdate(&class.ObjectMeta, &old.ObjectMeta)
	return append(errs, ValidateClass(class)...)
}

// ValidateTemplate checks a claim template.
func ValidateTemplate(template *ResourceClaimTemplate) field.ErrorList {
	errs := validateMeta(&template.ObjectMeta, true)
	path := field.NewPath("spec")
	errs = append(errs, validateCopied(&template.Spec.ObjectMeta, path.Child("metadata"))...)
	return append(errs, validateClaimSpec(&template.Spec.Spec, path.Child("spec"))...)
}

// ValidateTemplateUpdate checks a changed claim template: the spec can never be changed.
func ValidateTemplateUpdate(template, old *ResourceClaimTemplate) field.ErrorList {
	errs := validateMetaUpdate(&template.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, apivalidation.ValidateImmutableField(template.Spec, old.Spec, field.NewPath("spec"))...)
	return append(errs, ValidateTemplate(template)...)
}

// validateCopied checks metadata that is copied into claims: labels and annotations, and nothing else, whatever else
// metadata may come to hold.
func validateCopied(metadata *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	errs := apivalidation.ValidateAnnotations(metadata.Annotations, path.Child("annotations"))
	errs = append(errs, metav1validation.ValidateLabels(metadata.Labels, path.Child("labels"))...)
	value := reflect.ValueOf(*metadata)
	for i := range value.NumField() {
		name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
		if name == "labels" || name == "annotations" || value.Field(i).IsZero() {
			continue
		}
		errs = append(errs, field.Forbidden(path.Child(name), "cannot be set"))
	}
	return errs
}

// ValidateSchedulingContext checks a scheduling context without its status.
func ValidateSchedulingContext(scheduling *PodSchedulingContext) field.ErrorList {
	errs := validateMeta(&scheduling.ObjectMeta, true)
	return append(errs, validateNodes(scheduling.Spec.PotentialNodes, field.NewPath("spec", "potentialNodes"))...)
}

// ValidateSchedulingContextUpdate checks a changed scheduling context without its status.
func ValidateSchedulingContextUpdate(scheduling, old *PodSchedulingContext) field.ErrorList {
	errs := validateMetaUpdate(&scheduling.ObjectMeta, &old.ObjectMeta)
	return append(errs, ValidateSchedulingContext(scheduling)...)
}

// ValidateSchedulingContextStatusUpdate checks a changed status of a scheduling context.
func ValidateSchedulingContextStatusUpdate(scheduling, old *PodSchedulingContext) field.ErrorList {
	errs := validateMetaUpdate(&scheduling.ObjectMeta, &old.ObjectMeta)
	// The errors of this API have this path of the list, although the field has another name.
	path := field.NewPath("status", "claims")
	seen := sets.New[string]()
	for i, claim := range scheduling.Status.ResourceClaims {
		errs = append(errs, validateNodes(claim.UnsuitableNodes, path.Index(i).Child("unsuitableNodes"))...)
		if seen.Has(claim.Name) {
			errs = append(errs, field.Duplicate(path.Index(i), claim.Name))
		}
		seen.Insert(claim.Name)
	}
	return errs
}

// validateNodes checks a bounded list of different node names.
func validateNodes(nodes []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, node := range nodes {
		if seen.Has(node) {
			errs = append(errs, field.Duplicate(path.Index(i), node))
			continue
		}
		seen.Insert(node)
		errs = append(errs, validateName(node, path.Index(i))...)
	}
	return append(errs, validateLength(len(nodes), MaxSchedulingNodes, path)...)
}

func validateExpression(requirement corev1.NodeSelectorRequirement, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	values := path.Child("values")
	switch requirement.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(requirement.Values) == 0 {
			errs = append(errs, field.Required(values, "must be specified when `operator` is 'In' or 'NotIn'"))
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(requirement.Values) > 0 {
			errs = append(errs, field.Forbidden(values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(requirement.Values) != 1 {
			errs = append(errs, field.Required(values, "must be specified single value when `operator` is 'Lt' or 'Gt'"))
		}
	default:
		errs = append(errs, field.Invalid(path.Child("operator"), requirement.Operator, "not a valid selector operator"))
	}
	return append(errs, metav1validation.ValidateLabelName(requirement.Key, path.Child("key"))...)
}

// validateFieldMatch checks a requirement on a field of the node; the name is the only field there is.
func validateFieldMatch(requirement corev1.NodeSelectorRequirement, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch requirement.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(requirement.Values) != 1 {
			errs = append(errs, field.Required(path.Child("values"), "must be one value when `operator` is 'In' or 'NotIn'"))
		}
	default:
		errs = append(errs, field.Invalid(path.Child("operator"), requirement.Operator, "not a valid selector operator"))
	}
	if requirement.Key != metav1.ObjectNameField {
		return append(errs, field.Invalid(path.Child("key"), requirement.Key, "not a valid field selector key"))
	}
	for i, value := range requirement.Values {
		errs = append(errs, validateName(value, path.Child("values").Index(i))...)
	}
	return errs
}
