package affinity

import (
	"fmt"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// Selects returns whether any affinity of a placement selects a cluster: the affinities that are tried in order, and those for replicas
// that do not fit, count alike. It fails if an affinity is invalid.
func Selects(placement *policyv1alpha1.Placement, cluster *clusterv1alpha1.Cluster) (bool, error) {
	var all []*policyv1alpha1.ClusterAffinity
	for i := range placement.ClusterAffinities {
		term := &placement.ClusterAffinities[i]
		all = append(all, &term.ClusterAffinity)
		for j := range term.OverflowAffinities {
			all = append(all, &term.OverflowAffinities[j].ClusterAffinity)
		}
	}
	if len(all) == 0 {
		all = append(all, placement.ClusterAffinity) // nil selects every cluster
	}
	of := Of(cluster)
	for _, a := range all {
		selector, err := Compile("clusterAffinity", a)
		if err != nil {
			return false, fmt.Errorf("reading the placement: %w", err)
		}
		if selector.Mismatch(&of) == None {
			return true, nil
		}
	}
	return false, nil
}
