package v1alpha1

import (
	"strings"

	"k8s.io/utils/ptr"
)

// SetPropagationDefaults completes a policy with what its schema cannot: values
// that depend on other values. It changes nothing the second time.
func SetPropagationDefaults(policy Propagation) {
	spec := policy.PropagationSpec()
	for i := range spec.ResourceSelectors {
		selector := &spec.ResourceSelectors[i]
		confine(selector, policy.GetNamespace())
		// Who imports a service needs the Service and endpoints behind it.
		if selector.Kind == serviceImportKind && strings.HasPrefix(selector.APIVersion, serviceImportGroup+"/") {
			spec.PropagateDeps = true
		}
	}
	setPlacementDefaults(&spec.Placement)
	if failover := spec.Failover; failover != nil && failover.Application != nil {
		application := failover.Application
		if application.PurgeMode == PurgeModeGracefully && application.GracePeriodSeconds == nil {
			application.GracePeriodSeconds = ptr.To(DefaultFailoverGracePeriodSeconds)
		}
	}
}

// The kind whose selection switches propagateDeps on.
const (
	serviceImportKind  = "ServiceImport"
	serviceImportGroup = "multicluster.x-k8s.io"
)

// SetOverrideDefaults completes a policy with what its schema cannot. It changes
// nothing the second time.
func SetOverrideDefaults(policy Override) {
	spec := policy.OverrideSpec()
	for i := range spec.ResourceSelectors {
		confine(&spec.ResourceSelectors[i], policy.GetNamespace())
	}
}

// confine keeps the selectors of a namespaced policy to its namespace.
func confine(selector *ResourceSelector, namespace string) {
	if namespace != "" {
		selector.Namespace = namespace
	}
}

func setPlacementDefaults(placement *Placement) {
	for i := range placement.SpreadConstraints {
		constraint := &placement.SpreadConstraints[i]
		if constraint.SpreadByField == "" && constraint.SpreadByLabel == "" {
			constraint.SpreadByField = SpreadByFieldCluster
		}
		if constraint.MinGroups == 0 {
			constraint.MinGroups = 1
		}
	}
	if strategy := placement.ReplicaScheduling; strategy != nil &&
		strategy.ReplicaSchedulingType == ReplicaSchedulingTypeDivided && strategy.ReplicaDivisionPreference == "" {
		strategy.ReplicaDivisionPreference = ReplicaDivisionPreferenceWeighted
	}
}
