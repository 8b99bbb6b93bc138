package v1alpha1

import (
	"fmt"
	"slices"
	"strings"
	"time"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// ValidatePropagation returns what is wrong with a policy beyond what its schema
// refuses: label selectors and label keys.
func ValidatePropagation(policy Propagation) field.ErrorList {
	path, spec := field.NewPath("spec"), policy.PropagationSpec()
	errs := validateSelectors(spec.ResourceSelectors, path.Child("resourceSelectors"))
	errs = append(errs, validatePlacement(&spec.Placement, path.Child("placement"))...)
	if spec.Failover != nil {
		path := path.Child("failover")
		if spec.Failover.Application != nil {
			errs = append(errs, validateState(spec.Failover.Application.StatePreservation, path.Child("application", "statePreservation"))...)
		}
		if spec.Failover.Cluster != nil {
			errs = append(errs, validateState(spec.Failover.Cluster.StatePreservation, path.Child("cluster", "statePreservation"))...)
		}
	}
	if spec.PreserveResourcesOnDeletion != nil && *spec.PreserveResourcesOnDeletion && policy.GetAnnotations()[HandoverAnnotation] == HandoverExclusive {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "preserveResourcesOnDeletion"),
			"copies that stay are not exclusive: see the annotation "+HandoverAnnotation))
	}
	if mode, ok := policy.GetAnnotations()[DriftAnnotation]; ok && !slices.Contains(DriftModes(), mode) {
		errs = append(errs, field.NotSupported(field.NewPath("metadata", "annotations").Key(DriftAnnotation), mode, DriftModes()))
	}
	errs = append(errs, validateIgnored(policy.GetAnnotations())...)
	return append(errs, validateMoves(policy.GetAnnotations())...)
}

// validateMoves checks the annotations about how objects move between clusters.
func validateMoves(annotations map[string]string) field.ErrorList {
	var errs field.ErrorList
	at := func(key string) *field.Path { return field.NewPath("metadata", "annotations").Key(key) }
	for key, allowed := range map[string][]string{
		HandoverAnnotation:        {HandoverExclusive, HandoverOverlap},
		ClusterFailbackAnnotation: {ClusterFailbackNever, ClusterFailbackWhenHealthy, ClusterFailbackManual},
	} {
		if value, ok := annotations[key]; ok && !slices.Contains(allowed, value) {
			errs = append(errs, field.NotSupported(at(key), value, allowed))
		}
	}
	if value, ok := annotations[ClusterFailbackSoakAnnotation]; ok {
		if soak, err := time.ParseDuration(value); err != nil || soak < 0 {
			errs = append(errs, field.Invalid(at(ClusterFailbackSoakAnnotation), value, "must be a duration, such as 10m"))
		}
	}
	if value, ok := annotations[ClusterFailbackRequestedAnnotation]; ok {
		if _, err := time.Parse(time.RFC3339, value); err != nil {
			errs = append(errs, field.Invalid(at(ClusterFailbackRequestedAnnotation), value, "must be a time in RFC 3339, such as 2027-01-31T12:00:00Z"))
		}
	}
	return errs
}

// ValidateOverride returns what is wrong with a policy beyond what its schema
// refuses: label selectors, JSON pointers, and edits of the identity or the
// owner of an object.
func ValidateOverride(policy Override) field.ErrorList {
	path, spec := field.NewPath("spec"), policy.OverrideSpec()
	errs := validateSelectors(spec.ResourceSelectors, path.Child("resourceSelectors"))
	terms := termsOfAffinity(spec.TargetCluster)
	for i := range spec.OverrideRules {
		terms += termsOfAffinity(spec.OverrideRules[i].TargetCluster)
	}
	if terms > maxAffinityTerms {
		return append(errs, field.Invalid(path.Child("overrideRules"), terms,
			fmt.Sprintf("the target clusters may have %d labels, expressions, values and names of clusters in all", maxAffinityTerms)))
	}
	for i := range spec.OverrideRules {
		rule, path := &spec.OverrideRules[i], path.Child("overrideRules").Index(i)
		errs = append(errs, ValidateClusterAffinity(rule.TargetCluster, path.Child("targetCluster"))...)
		errs = append(errs, validateOverriders(&rule.Overriders, path.Child("overriders"))...)
	}
	errs = append(errs, ValidateClusterAffinity(spec.TargetCluster, path.Child("targetCluster"))...)
	return append(errs, validateOverriders(&spec.Overriders, path.Child("overriders"))...)
}

// ValidateClusterTaintPolicy returns what is wrong with a policy beyond what its
// schema refuses: label selectors, and keys and values of taints.
func ValidateClusterTaintPolicy(policy *ClusterTaintPolicy) field.ErrorList {
	path := field.NewPath("spec")
	errs := ValidateClusterAffinity(policy.Spec.TargetClusters, path.Child("targetClusters"))
	for i, taint := range policy.Spec.Taints {
		path := path.Child("taints").Index(i)
		errs = append(errs, metav1validation.ValidateLabelName(taint.Key, path.Child("key"))...)
		for _, message := range validation.IsValidLabelValue(taint.Value) {
			errs = append(errs, field.Invalid(path.Child("value"), taint.Value, message))
		}
	}
	return errs
}

// ValidateClusterAffinity returns what is wrong with the label selector of an
// affinity, which may be nil.
func ValidateClusterAffinity(affinity *ClusterAffinity, path *field.Path) field.ErrorList {
	if affinity == nil {
		return nil
	}
	return metav1validation.ValidateLabelSelector(affinity.LabelSelector, metav1validation.LabelSelectorValidationOptions{}, path.Child("labelSelector"))
}

func validateSelectors(selectors []ResourceSelector, path *field.Path) field.ErrorList {
	terms := 0
	for _, selector := range selectors {
		terms += termsOf(selector.LabelSelector)
	}
	if terms > maxLabelTerms {
		return field.ErrorList{field.Invalid(path, terms, fmt.Sprintf("the label selectors may have %d labels, expressions and values in all", maxLabelTerms))}
	}
	var errs field.ErrorList
	for i, selector := range selectors {
		errs = append(errs, metav1validation.ValidateLabelSelector(selector.LabelSelector,
			metav1validation.LabelSelectorValidationOptions{}, path.Index(i).Child("labelSelector"))...)
	}
	return errs
}

func validatePlacement(placement *Placement, path *field.Path) field.ErrorList {
	if terms := termsOfPlacement(placement); terms > maxAffinityTerms {
		return field.ErrorList{field.Invalid(path, terms, fmt.Sprintf("the affinities may have %d labels, expressions, values and names of clusters in all", maxAffinityTerms))}
	}
	errs := ValidateClusterAffinity(placement.ClusterAffinity, path.Child("clusterAffinity"))
	for i := range placement.ClusterAffinities {
		term, path := &placement.ClusterAffinities[i], path.Child("clusterAffinities").Index(i)
		errs = append(errs, ValidateClusterAffinity(&term.ClusterAffinity, path)...)
		for j := range term.OverflowAffinities {
			errs = append(errs, ValidateClusterAffinity(&term.OverflowAffinities[j].ClusterAffinity, path.Child("overflowAffinities").Index(j))...)
		}
	}
	for i, constraint := range placement.SpreadConstraints {
		if constraint.SpreadByLabel != "" {
			errs = append(errs, metav1validation.ValidateLabelName(constraint.SpreadByLabel,
				path.Child("spreadConstraints").Index(i).Child("spreadByLabel"))...)
		}
	}
	if strategy := placement.ReplicaScheduling; strategy != nil && strategy.WeightPreference != nil {
		path := path.Child("replicaScheduling", "weightPreference", "staticWeightList")
		for i := range strategy.WeightPreference.StaticWeightList {
			errs = append(errs, ValidateClusterAffinity(&strategy.WeightPreference.StaticWeightList[i].TargetCluster, path.Index(i).Child("targetCluster"))...)
		}
	}
	if affinity := placement.WorkloadAffinity; affinity != nil {
		path := path.Child("workloadAffinity")
		if affinity.Affinity != nil {
			errs = append(errs, metav1validation.ValidateLabelName(affinity.Affinity.GroupByLabelKey, path.Child("affinity", "groupByLabelKey"))...)
		}
		if affinity.AntiAffinity != nil {
			errs = append(errs, metav1validation.ValidateLabelName(affinity.AntiAffinity.GroupByLabelKey, path.Child("antiAffinity", "groupByLabelKey"))...)
		}
	}
	return errs
}

func validateState(state *StatePreservation, path *field.Path) field.ErrorList {
	if state == nil {
		return nil
	}
	var errs field.ErrorList
	for i, rule := range state.Rules {
		path := path.Child("rules").Index(i)
		errs = append(errs, metav1validation.ValidateLabelName(rule.AliasLabelName, path.Child("aliasLabelName"))...)
		if workv1alpha1.IsOwnershipKey(rule.AliasLabelName) {
			errs = append(errs, field.Forbidden(path.Child("aliasLabelName"), ownerMessage))
		}
		if rule.JSONPath == "" {
			errs = append(errs, field.Required(path.Child("jsonPath"), "a JSONPath template such as { .replicas }"))
		}
	}
	return errs
}

func validateOverriders(overriders *Overriders, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range overriders.Plaintext {
		errs = append(errs, validatePlaintext(&overriders.Plaintext[i], path.Child("plaintext").Index(i))...)
	}
	for i, overrider := range overriders.FieldOverrider {
		path := path.Child("fieldOverrider").Index(i)
		errs = append(errs, validatePointer(overrider.FieldPath, path.Child("fieldPath"))...)
		errs = append(errs, validateEdited(overrider.FieldPath, path.Child("fieldPath"))...)
		for j, operation := range overrider.JSON {
			errs = append(errs, validatePointer(operation.SubPath, path.Child("json").Index(j).Child("subPath"))...)
		}
		for j, operation := range overrider.YAML {
			errs = append(errs, validatePointer(operation.SubPath, path.Child("yaml").Index(j).Child("subPath"))...)
		}
	}
	for i, overrider := range overriders.ImageOverrider {
		path := path.Child("imageOverrider").Index(i)
		if overrider.Predicate != nil {
			errs = append(errs, validatePointer(overrider.Predicate.Path, path.Child("predicate", "path"))...)
			errs = append(errs, validateEdited(overrider.Predicate.Path, path.Child("predicate", "path"))...)
		}
		if overrider.Operator != OverriderOpRemove && overrider.Value == "" {
			errs = append(errs, field.Required(path.Child("value"), "the text to put in"))
		}
	}
	// What is removed need not be a name that anything could have.
	for i, overrider := range overriders.LabelsOverrider {
		errs = append(errs, validateEntries(overrider.Value, path.Child("labelsOverrider").Index(i).Child("value"))...)
		if overrider.Operator != OverriderOpRemove {
			errs = append(errs, metav1validation.ValidateLabels(overrider.Value, path.Child("labelsOverrider").Index(i).Child("value"))...)
		}
	}
	for i, overrider := range overriders.AnnotationsOverrider {
		errs = append(errs, validateEntries(overrider.Value, path.Child("annotationsOverrider").Index(i).Child("value"))...)
		if overrider.Operator != OverriderOpRemove {
			errs = append(errs, apivalidation.ValidateAnnotations(overrider.Value, path.Child("annotationsOverrider").Index(i).Child("value"))...)
		}
	}
	return errs
}

// validatePointer checks a JSON pointer (RFC 6901): tokens begin with a slash, and
// a tilde is written ~0 or, where it stands for a slash, ~1.
func validatePointer(pointer string, path *field.Path) field.ErrorList {
	if !strings.HasPrefix(pointer, "/") {
		return field.ErrorList{field.Invalid(path, pointer, "must be a JSON pointer that starts with a slash")}
	}
	escapes := strings.Count(pointer, "~0") + strings.Count(pointer, "~1")
	if strings.Count(pointer, "~") != escapes {
		return field.ErrorList{field.Invalid(path, pointer, "a tilde must be followed by 0 or 1")}
	}
	return nil
}
