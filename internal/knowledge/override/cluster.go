package override

import (
	"slices"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/affinity"
)

// SelectsCluster is true if the affinity of a rule selects cluster. What is selected by name is decided without the rest, so that a
// wrong selector is an error only for the clusters that it is about.
func SelectsCluster(target *policyv1alpha1.ClusterAffinity, cluster *clusterv1alpha1.Cluster) (bool, error) {
	if target != nil && (slices.Contains(target.ExcludeClusters, cluster.Name) ||
		len(target.ClusterNames) > 0 && !slices.Contains(target.ClusterNames, cluster.Name)) {
		return false, nil
	}
	selector, err := affinity.Compile("targetCluster", target)
	if err != nil {
		return false, err
	}
	described := affinity.Of(cluster)
	return selector.Mismatch(&described) == affinity.None, nil
}
