package profile_test

import (
	"fmt"
	"testing"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision/profile"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest/bounded"
)

// TestSpreadConstraintsAreComparedInBudget: the longest list of constraints that a policy may have, which nothing or nearly nothing meets, over many
// clusters.
func TestSpreadConstraintsAreComparedInBudget(t *testing.T) {
	for name, tc := range map[string]struct {
		racks, least, most int
		replicas           int32
	}{
		"groups of one cluster":     {200, 100, 100, 0},
		"no group has the replicas": {50, 1, 25, 1_000_000},
		"any number of groups":      {200, 1, 0, 1_000_000},
	} {
		t.Run(name, func(t *testing.T) {
			p := placement(dynamic, spread(byCluster, 1, 150))
			for range 999 {
				spreadByLabel("rack", tc.least, tc.most)(p)
			}
			var clusters []*clusterv1alpha1.Cluster
			for i := range 200 {
				clusters = append(clusters, member(fmt.Sprint("m", i), available(9), labelled("rack", fmt.Sprint(i%tc.racks))))
			}
			snapshot := fleet(clusters...)
			bounded.Run(t, func() { _ = profile.Schedule(deployment(tc.replicas, p), snapshot) })
		})
	}
}
