package override

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// Keys that a field selector may name.
const (
	fieldProvider = "provider"
	fieldRegion   = "region"
	fieldZone     = "zone"
)

// SelectsCluster is true if affinity selects cluster. No affinity selects every cluster; otherwise a cluster has to meet all that
// is given: not excluded, labels, fields, and one of the names.
func SelectsCluster(affinity *policyv1alpha1.ClusterAffinity, cluster *clusterv1alpha1.Cluster) (bool, error) {
	if affinity == nil {
		return true, nil
	}
	if slices.Contains(affinity.ExcludeClusters, cluster.Name) {
		return false, nil
	}
	if len(affinity.ClusterNames) > 0 && !slices.Contains(affinity.ClusterNames, cluster.Name) {
		return false, nil
	}
	if affinity.LabelSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(affinity.LabelSelector)
		if err != nil {
			return false, fmt.Errorf("reading the cluster label selector: %w", err)
		}
		if !selector.Matches(labels.Set(cluster.Labels)) {
			return false, nil
		}
	}
	if affinity.FieldSelector == nil {
		return true, nil
	}
	for _, requirement := range affinity.FieldSelector.MatchExpressions {
		met, err := meetsField(requirement, cluster)
		if err != nil || !met {
			return false, err
		}
	}
	return true, nil
}

// meetsField checks one requirement. A cluster in several zones is In a set with any of them, and NotIn it only with none of
// them, as it is for the scheduler.
func meetsField(requirement corev1.NodeSelectorRequirement, cluster *clusterv1alpha1.Cluster) (bool, error) {
	var values []string
	switch requirement.Key {
	case fieldProvider:
		values = []string{cluster.Spec.Provider}
	case fieldRegion:
		values = []string{cluster.Spec.Region}
	case fieldZone:
		values = zonesOf(cluster)
	default:
		return false, fmt.Errorf("field selector key %q is none of provider, region, zone", requirement.Key)
	}
	wanted := func(value string) bool { return slices.Contains(requirement.Values, value) }
	switch requirement.Operator {
	case corev1.NodeSelectorOpIn:
		return slices.ContainsFunc(values, wanted), nil
	case corev1.NodeSelectorOpNotIn:
		return !slices.ContainsFunc(values, wanted), nil
	default:
		return false, fmt.Errorf("field selector operator %q is neither In nor NotIn", requirement.Operator)
	}
}

func zonesOf(cluster *clusterv1alpha1.Cluster) []string {
	if len(cluster.Spec.Zones) > 0 {
		return cluster.Spec.Zones
	}
	//lint:ignore SA1019 A cluster that was never admitted anew may only have the old field.
	if zone := cluster.Spec.Zone; zone != "" {
		return []string{zone}
	}
	return nil
}
