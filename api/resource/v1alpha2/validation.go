package v1alpha2

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxDriverName is how many bytes the name of a driver may have: it becomes part of labels and paths on nodes.
const maxDriverName = 63

// ValidateClaim checks a claim without its status, which no client may set when creating one.
func ValidateClaim(claim *ResourceClaim) field.ErrorList {
	errs := validateMeta(&claim.ObjectMeta, true)
	return append(errs, validateClaimSpec(&claim.Spec, field.NewPath("spec"))...)
}

// ValidateClaimUpdate checks a changed claim without its status: the spec can never be changed.
func ValidateClaimUpdate(claim, old *ResourceClaim) field.ErrorList {
	errs := ValidateClaim(claim)
	errs = append(errs, validateMetaUpdate(&claim.ObjectMeta, &old.ObjectMeta)...)
	return append(errs, apivalidation.ValidateImmutableField(claim.Spec, old.Spec, field.NewPath("spec"))...)
}

// ValidateClaimStatusUpdate checks a changed status, by itself and against the one before.
func ValidateClaimStatusUpdate(claim, old *ResourceClaim) field.ErrorList {
	path := field.NewPath("status")
	status := &claim.Status
	errs := validateMetaUpdate(&claim.ObjectMeta, &old.ObjectMeta)
	switch {
	case status.DriverName != "":
		errs = append(errs, validateDriverName(status.DriverName, path.Child("driverName"))...)
	case status.Allocation != nil:
		errs = append(errs, field.Required(path.Child("driverName"), "must be specified when `allocation` is set"))
	}
	if status.Allocation != nil {
		errs = append(errs, validateAllocation(status.Allocation, path.Child("allocation"))...)
	}
	errs = append(errs, validateConsumers(status.ReservedFor, path.Child("reservedFor"))...)
	errs = append(errs, validateReservation(claim, old, path.Child("reservedFor"))...)
	if status.Allocation != nil && old.Status.Allocation != nil {
		errs = append(errs, apivalidation.ValidateImmutableField(*status.Allocation, *old.Status.Allocation, path.Child("allocation"))...)
	}
	return append(errs, validateDeallocation(status, &old.Status, path)...)
}

// validateReservation holds what consumers and allocation have to do with each other.
func validateReservation(claim, old *ResourceClaim, path *field.Path) field.ErrorList {
	status := &claim.Status
	if len(status.ReservedFor) == 0 {
		return nil
	}
	if status.Allocation == nil {
		return field.ErrorList{field.Forbidden(path, "may not be specified when `allocated` is not set")}
	}
	var errs field.ErrorList
	if len(status.ReservedFor) > 1 && !status.Allocation.Shareable {
		errs = append(errs, field.Forbidden(path, "may not be reserved more than once"))
	}
	if claim.DeletionTimestamp != nil || status.DeallocationRequested {
		isNew := func(consumer ResourceClaimConsumerReference) bool {
			return !slices.Contains(old.Status.ReservedFor, consumer)
		}
		if slices.ContainsFunc(status.ReservedFor, isNew) {
			errs = append(errs, field.Forbidden(path,
				"new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"))
		}
	}
	return errs
}

// validateDeallocation holds how a request to deallocate begins and ends.
func validateDeallocation(status, old *ResourceClaimStatus, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	requested := path.Child("deallocationRequested")
	if !old.DeallocationRequested && status.DeallocationRequested && len(status.ReservedFor) > 0 {
		errs = append(errs, field.Forbidden(requested, "deallocation cannot be requested while `reservedFor` is set"))
	}
	if status.DeallocationRequested && status.Allocation == nil {
		errs = append(errs, field.Forbidden(path, "`allocation` must be set when `deallocationRequested` is set"))
	}
	if old.DeallocationRequested && !status.DeallocationRequested && status.Allocation != nil {
		errs = append(errs, field.Forbidden(requested, "may not be cleared when `allocation` is set"))
	}
	return errs
}

func validateClaimSpec(spec *ResourceClaimSpec, path *field.Path) field.ErrorList {
	errs := validateName(spec.ResourceClassName, path.Child("resourceClassName"))
	if ref := spec.ParametersRef; ref != nil {
		errs = append(errs, validateParameters(ref.Kind, ref.Name, path.Child("parametersRef"))...)
	}
	modes := []AllocationMode{AllocationModeImmediate, AllocationModeWaitForFirstConsumer}
	if !slices.Contains(modes, spec.AllocationMode) {
		errs = append(errs, field.NotSupported(path.Child("allocationMode"), spec.AllocationMode, modes))
	}
	return errs
}

func validateParameters(kind, name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if kind == "" {
		errs = append(errs, field.Required(path.Child("kind"), ""))
	}
	if name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	return errs
}

func validateAllocation(allocation *AllocationResult, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	handles := path.Child("resourceHandles")
	for i := range allocation.ResourceHandles {
		errs = append(errs, validateHandle(&allocation.ResourceHandles[i], handles.Index(i))...)
	}
	errs = append(errs, validateLength(len(allocation.ResourceHandles), MaxResourceHandles, handles)...)
	if allocation.AvailableOnNodes != nil {
		errs = append(errs, validateNodeSelector(allocation.AvailableOnNodes, path.Child("availableOnNodes"))...)
	}
	return errs
}

func validateHandle(handle *ResourceHandle, path *field.Path) field.ErrorList {
	errs := validateDriverName(handle.DriverName, path.Child("driverName"))
	if len(handle.Data) > MaxResourceHandleData {
		errs = append(errs, field.TooLong(path.Child("data"), "", MaxResourceHandleData))
	}
	if handle.StructuredData == nil {
		return errs
	}
	errs = append(errs, validateStructured(handle.StructuredData, path.Child("structuredData"))...)
	if handle.Data != "" {
		errs = append(errs, field.Invalid(path, nil, "data and structuredData are mutually exclusive"))
	}
	return errs
}

func validateStructured(handle *StructuredResourceHandle, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if handle.NodeName != "" {
		errs = append(errs, validateName(handle.NodeName, path.Child("nodeName"))...)
	}
	for i, result := range handle.Results {
		at := path.Child("results").Index(i)
		if result.NamedResources == nil {
			errs = append(errs, field.Required(at, "exactly one structured model field must be set"))
			continue
		}
		errs = append(errs, validateName(result.NamedResources.Name, at.Child("namedResources", "name"))...)
	}
	return errs
}

// validateConsumers reports nothing else about a repeated uid.
func validateConsumers(consumers []ResourceClaimConsumerReference, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[types.UID]()
	for i, consumer := range consumers {
		at := path.Index(i)
		if seen.Has(consumer.UID) {
			errs = append(errs, field.Duplicate(at.Child("uid"), consumer.UID))
			continue
		}
		seen.Insert(consumer.UID)
		for _, required := range []struct{ name, value string }{
			{"resource", consumer.Resource}, {"name", consumer.Name}, {"uid", string(consumer.UID)},
		} {
			if required.value == "" {
				errs = append(errs, field.Required(at.Child(required.name), ""))
			}
		}
	}
	return append(errs, validateLength(len(consumers), MaxReservedFor, path)...)
}

// validateDriverName accepts upper case, which drivers of those days had.
func validateDriverName(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		errs = append(errs, field.Required(path, ""))
	}
	if len(name) > maxDriverName {
		errs = append(errs, field.TooLong(path, "", maxDriverName))
	}
	for _, message := range validation.IsDNS1123Subdomain(strings.ToLower(name)) {
		errs = append(errs, field.Invalid(path, name, message))
	}
	return errs
}

func validateName(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, message := range apivalidation.NameIsDNSSubdomain(name, false) {
		errs = append(errs, field.Invalid(path, name, message))
	}
	return errs
}

func validateLength(length, limit int, path *field.Path) field.ErrorList {
	if length <= limit {
		return nil
	}
	return field.ErrorList{field.TooMany(path, length, limit)}
}

// validateNodeSelector applies the rules for node selectors in a pod's required affinity.
func validateNodeSelector(selector *corev1.NodeSelector, path *field.Path) field.ErrorList {
	terms := path.Child("nodeSelectorTerms")
	if len(selector.NodeSelectorTerms) == 0 {
		return field.ErrorList{field.Required(terms, "must have at least one node selector term")}
	}
	var errs field.ErrorList
	for i, term := range selector.NodeSelectorTerms {
		for j, requirement := range term.MatchExpressions {
			errs = append(errs, validateExpression(requirement, terms.Index(i).Child("matchExpressions").Index(j))...)
		}
		for j, requirement := range term.MatchFields {
			errs = append(errs, validateFieldMatch(requirement, terms.Index(i).Child("matchFields").Index(j))...)
		}
	}
	return errs
}
