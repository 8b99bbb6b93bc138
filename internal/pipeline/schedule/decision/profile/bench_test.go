package profile_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/capacity"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision/profile"
)

// benchFleet has n clusters in 10 regions and 30 zones; one in ten is tainted, capacity differs.
func benchFleet(n int) *decision.Snapshot { return decision.NewSnapshot(benchClusters(n)) }

func benchClusters(n int) []*clusterv1alpha1.Cluster {
	clusters := make([]*clusterv1alpha1.Cluster, n)
	for i := range clusters {
		c := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{
			Name:   fmt.Sprintf("member-%05d", i),
			Labels: map[string]string{"env": "prod", "tier": fmt.Sprint(i % 3), "team": fmt.Sprint(i % 17)},
		}}
		c.Spec.Provider = fmt.Sprintf("provider-%d", i%4)
		c.Spec.Region = fmt.Sprintf("region-%d", i%10)
		c.Spec.Zones = []string{fmt.Sprintf("zone-%d", i%30)}
		if i%10 == 3 {
			c.Spec.Taints = []corev1.Taint{{Key: "maintenance", Value: "now", Effect: corev1.TaintEffectNoSchedule}}
		}
		c.Status.Conditions = []metav1.Condition{{Type: clusterv1alpha1.ClusterConditionCompleteAPIEnablements, Status: metav1.ConditionTrue}}
		c.Status.APIEnablements = []clusterv1alpha1.APIEnablement{{GroupVersion: "apps/v1", Resources: []clusterv1alpha1.APIResource{{Name: "deployments", Kind: "Deployment"}}}}
		c.Status.ResourceSummary = &clusterv1alpha1.ResourceSummary{
			Allocatable: corev1.ResourceList{
				corev1.ResourceCPU: *resource.NewQuantity(int64(8+i*7919%97), resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("256Gi"),
				corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"), corev1.ResourcePods: resource.MustParse("330"),
			},
			Allocated: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3"), corev1.ResourceMemory: resource.MustParse("12Gi"), corev1.ResourcePods: resource.MustParse("17")},
		}
		clusters[i] = c
	}
	return clusters
}

func benchPlacements() map[string]*policyv1alpha1.Placement {
	affinity := &policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}}
	byCluster := policyv1alpha1.SpreadConstraint{SpreadByField: policyv1alpha1.SpreadByFieldCluster, MinGroups: 3, MaxGroups: 20}
	byRegion := policyv1alpha1.SpreadConstraint{SpreadByField: policyv1alpha1.SpreadByFieldRegion, MinGroups: 2, MaxGroups: 3}
	divided := func(preference policyv1alpha1.ReplicaDivisionPreference, weights *policyv1alpha1.ClusterPreferences) *policyv1alpha1.ReplicaSchedulingStrategy {
		return &policyv1alpha1.ReplicaSchedulingStrategy{
			ReplicaSchedulingType:     policyv1alpha1.ReplicaSchedulingTypeDivided,
			ReplicaDivisionPreference: preference, WeightPreference: weights,
		}
	}
	modes := map[string]*policyv1alpha1.ReplicaSchedulingStrategy{
		"Duplicated": {ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDuplicated},
		"Static": divided(policyv1alpha1.ReplicaDivisionPreferenceWeighted, &policyv1alpha1.ClusterPreferences{StaticWeightList: []policyv1alpha1.StaticClusterWeight{
			{TargetCluster: policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "0"}}}, Weight: 2},
			{TargetCluster: policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "1"}}}, Weight: 1},
		}}),
		"Dynamic":    divided(policyv1alpha1.ReplicaDivisionPreferenceWeighted, &policyv1alpha1.ClusterPreferences{DynamicWeight: policyv1alpha1.DynamicWeightByAvailableReplicas}),
		"Aggregated": divided(policyv1alpha1.ReplicaDivisionPreferenceAggregated, nil),
	}
	out := map[string]*policyv1alpha1.Placement{}
	for name, mode := range modes {
		out[name+"/everywhere"] = &policyv1alpha1.Placement{ClusterAffinity: affinity, ReplicaScheduling: mode}
		out[name+"/clusters"] = &policyv1alpha1.Placement{ClusterAffinity: affinity, ReplicaScheduling: mode, SpreadConstraints: []policyv1alpha1.SpreadConstraint{byCluster}}
		out[name+"/regions"] = &policyv1alpha1.Placement{ClusterAffinity: affinity, ReplicaScheduling: mode, SpreadConstraints: []policyv1alpha1.SpreadConstraint{byRegion, byCluster}}
	}
	return out
}

// benchRequests are those of n bindings of one policy: other templates, numbers and sizes.
func benchRequests(n int, placement *policyv1alpha1.Placement) []decision.Request {
	out := make([]decision.Request, n)
	for i := range out {
		out[i] = decision.Request{
			Resource: workv1alpha2.ObjectReference{
				APIVersion: "apps/v1", Kind: "Deployment", Name: fmt.Sprintf("app-%d", i), UID: types.UID(fmt.Sprintf("uid-%d", i)),
			},
			Placement: placement, Replicas: int32(20 + i%160), SpreadStatic: true,
			Requirements: &workv1alpha2.ReplicaRequirements{ResourceRequest: corev1.ResourceList{
				corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(100*(1+i%8)), resource.DecimalSI),
				corev1.ResourceMemory: *resource.NewQuantity(int64(1+i%4)<<30, resource.BinarySI),
			}},
		}
	}
	return out
}

func decideAll(b *testing.B, requests []decision.Request, fleet *decision.Snapshot, before func(i int, req *decision.Request)) {
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		req := requests[i%len(requests)]
		if before != nil {
			before(i, &req)
		}
		if d := profile.Schedule(req, fleet); d.Failure != nil {
			b.Fatal(d.Failure.Message)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
}

// BenchmarkSchedule measures pure decisions, for each way to divide and each
// way to spread, for 10,000 bindings on fleets of 1,000 and 5,000 clusters.
func BenchmarkSchedule(b *testing.B) {
	for _, n := range []int{1000, 5000} {
		fleet := benchFleet(n)
		for name, placement := range benchPlacements() {
			requests := benchRequests(10_000, placement)
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) { decideAll(b, requests, fleet, nil) })
		}
	}
}

// BenchmarkNodes measures decisions about 1,000 clusters that report their nodes: ten each, in two sets with two buckets.
func BenchmarkNodes(b *testing.B) {
	change := decision.Change{Nodes: map[string]*capacity.Nodes{}}
	for _, c := range benchClusters(1000) {
		bucket := func(count int32, cpu string) fleetv1alpha1.Bucket {
			return fleetv1alpha1.Bucket{Count: count, Free: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("90"),
				corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
			}}
		}
		change.Present = append(change.Present, c)
		change.Nodes[c.Name] = capacity.NodesOf(&fleetv1alpha1.ClusterCapacity{Nodes: []fleetv1alpha1.NodeSet{
			{Labels: map[string]string{"pool": "a"}, Buckets: []fleetv1alpha1.Bucket{bucket(5, "4"), bucket(2, "8")}},
			{Labels: map[string]string{"pool": "b"}, Buckets: []fleetv1alpha1.Bucket{bucket(2, "4"), bucket(1, "2")}},
		}})
	}
	fleet := (&decision.Snapshot{}).With(change)
	placements := benchPlacements()
	for name, claim := range map[string]*workv1alpha2.NodeClaim{"any": nil, "selected": {NodeSelector: map[string]string{"pool": "a"}}} {
		for _, strategy := range []string{"Dynamic/everywhere", "Aggregated/everywhere"} {
			requests := benchRequests(10_000, placements[strategy])
			for i := range requests {
				needs := *requests[i].Requirements
				needs.NodeClaim = claim
				requests[i].Requirements = &needs
			}
			b.Run(name+"/"+strategy, func(b *testing.B) { decideAll(b, requests, fleet, nil) })
		}
	}
}

// BenchmarkFirstOfItsPlacement measures decisions each of which has a placement
// of its own, so that the filters are asked anew about every cluster.
func BenchmarkFirstOfItsPlacement(b *testing.B) {
	fleet := benchFleet(1000)
	for name, placement := range benchPlacements() {
		requests := benchRequests(10_000, placement)
		b.Run(name, func(b *testing.B) {
			decideAll(b, requests, fleet, func(i int, req *decision.Request) {
				own := *req.Placement
				own.ClusterTolerations = []corev1.Toleration{{Key: fmt.Sprintf("own-%d", i), Operator: corev1.TolerationOpExists}}
				req.Placement = &own
			})
		})
	}
}
