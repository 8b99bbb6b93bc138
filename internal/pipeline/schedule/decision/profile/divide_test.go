package profile_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
)

func TestDuplicated(t *testing.T) {
	runAll(t, map[string]scenario{
		"Everywhere": {
			reason: "every cluster gets all replicas, whatever is available",
			fleet:  eachAvailable(1, 0, 50), request: deployment(7, placement(duplicated)),
			want: targets("m1", 7, "m2", 7, "m3", 7),
		},
		"NoStrategy": {
			reason: "without replicaScheduling a workload is duplicated",
			fleet:  eachAvailable(1, 1), request: deployment(2, placement()), want: targets("m1", 2, "m2", 2),
		},
		"NoPlacement": {
			reason: "without a placement it goes everywhere",
			fleet:  eachAvailable(1, 1), request: deployment(2, nil), want: targets("m1", 2, "m2", 2),
		},
		"ScaledToZero": {
			reason: "a duplicated workload of zero replicas is still everywhere",
			fleet:  eachAvailable(1, 1), request: deployment(0, placement(duplicated)), want: targets("m1", 0, "m2", 0),
		},
		"ConfigMap": {
			reason: "what has no replicas goes everywhere without a number, also under Divided",
			fleet:  eachAvailable(1, 1), request: configMap(placement(dynamic)), want: targets("m1", 0, "m2", 0),
		},
		"ConfigMapStatic": {
			reason: "weights say how to divide replicas; what has none is not kept from a cluster by them",
			fleet:  eachAvailable(1, 1), request: configMap(placement(static("m1", 1))), want: targets("m1", 0, "m2", 0),
		},
	})
}

func TestStaticWeights(t *testing.T) {
	uid := func(uid string) func(*decision.Request) {
		return func(r *decision.Request) { r.Resource.UID = types.UID(uid) }
	}
	runAll(t, map[string]scenario{
		"TwoToOne": {
			reason: "quotients 2, 1, 2/3, 2/5, 1/3: m1 m2 m1 m1 m2",
			fleet:  eachAvailable(100, 100), request: deployment(5, placement(static("m1", 2, "m2", 1))), want: targets("m1", 3, "m2", 2),
		},
		"RetainedReplicas": {
			reason: "where clusters keep their replicas, a share of none removes no copy, but a weight of none does",
			fleet:  eachAvailable(9, 9, 9), request: deployment(2, placement(static("m1", 9, "m2", 1)), now("m1", 5, "m2", 1, "m3", 1),
				func(r *decision.Request) { r.Retained = true }),
			want: targets("m1", 2, "m2", 0),
		},
		"IgnoresCapacity": {
			reason: "fixed weights are followed into a full cluster",
			fleet:  eachAvailable(0, 0), request: deployment(3, placement(static("m1", 2, "m2", 1))), want: targets("m1", 2, "m2", 1),
		},
		"NoRuleNoReplicas": {
			reason: "a cluster that no rule selects receives nothing",
			fleet:  eachAvailable(9, 9, 9), request: deployment(4, placement(static("m1", 1, "m3", 1))), want: targets("m1", 2, "m3", 2),
		},
		"LargestRuleWins": {
			reason: "m1 is selected by weights 1 and 3: 3:1 over 4",
			fleet:  eachAvailable(9, 9), request: deployment(4, placement(static("m1", 1, "m1", 3, "m2", 1))), want: targets("m1", 3, "m2", 1),
		},
		"NoRuleMatches": {
			reason: "if no rule selects any cluster all weigh alike; the remainder goes by name",
			fleet:  eachAvailable(9, 9, 9), request: deployment(5, placement(static("gone", 4))), want: targets("m1", 2, "m2", 2, "m3", 1),
		},
		"NoWeights": {
			reason: "Divided without weightPreference is equal weights",
			fleet:  eachAvailable(9, 9, 9), request: deployment(4, placement(static())), want: targets("m1", 2, "m2", 1, "m3", 1),
		},
		"RemainderByOddUID": {
			reason: "an odd hash of the uid gives remainders from the end of the alphabet",
			fleet:  eachAvailable(9, 9, 9), request: deployment(5, placement(static()), uid("b")), want: targets("m1", 1, "m2", 2, "m3", 2),
		},
		"RemainderByEvenUID": {
			reason: "an even one from the start",
			fleet:  eachAvailable(9, 9, 9), request: deployment(5, placement(static()), uid("a")), want: targets("m1", 2, "m2", 2, "m3", 1),
		},
		"ZeroShare": {
			reason: "1000:1 over 2 leaves m2 nothing, and then it is no target",
			fleet:  eachAvailable(9, 9), request: deployment(2, placement(static("m1", 1000, "m2", 1))), want: targets("m1", 2),
		},
		"FromZeroEachTime": {
			reason: "weights are followed whatever is where",
			fleet:  eachAvailable(9, 9), request: deployment(4, placement(static("m1", 1, "m2", 1)), now("m1", 4)), want: targets("m1", 2, "m2", 2),
		},
		"ScaledToZero": {
			reason: "scaling to zero leaves the copies where they are, with none",
			fleet:  eachAvailable(9, 9), request: deployment(0, placement(static("m1", 1, "m2", 1)), now("m1", 2, "m2", 2)), want: targets("m1", 0, "m2", 0),
		},
		"SpreadIsIgnored": {
			reason: "written weights divide among all clusters, as Karmada documents: 1:3:5 over 9",
			fleet:  eachAvailable(9, 9, 9), request: deployment(9, placement(static("m1", 1, "m2", 3, "m3", 5), spread(byCluster, 1, 2))),
			want: targets("m1", 1, "m2", 3, "m3", 5),
		},
		"SpreadThatCannotBeMetIsIgnored": {
			reason: "a constraint that is ignored excludes no cluster and fails nothing",
			fleet:  eachAvailable(9, 9), request: deployment(4, placement(static("m1", 1, "m2", 1), spread(byCluster, 5, 5), spread(byRegion, 2, 2))),
			want: targets("m1", 2, "m2", 2),
		},
		"SpreadOfEqualWeightsIsHonoured": {
			reason: "without written weights spread constraints count",
			fleet:  eachAvailable(9, 9, 9), request: deployment(4, placement(static(), spread(byCluster, 2, 2))), want: targets("m1", 2, "m2", 2),
		},
		"SpreadIsHonouredOnRequest": {
			reason: "with the annotation spread constraints count: the two heaviest, 5:3 over 8",
			fleet:  eachAvailable(9, 9, 9), request: deployment(8, placement(static("m1", 1, "m2", 3, "m3", 5), spread(byCluster, 1, 2)), spreadStatic),
			want: targets("m2", 3, "m3", 5),
		},
		"SpreadCountsWeightedOnly": {
			reason: "a cluster without weight does not take up one of the two places",
			fleet:  eachAvailable(9, 9, 9), request: deployment(4, placement(static("m2", 1, "m3", 1), spread(byCluster, 2, 2)), spreadStatic),
			want: targets("m2", 2, "m3", 2),
		},
	})
}

func TestDynamicWeights(t *testing.T) {
	runAll(t, map[string]scenario{
		"First": {
			reason: "by available replicas 10:5:1 over 8: quotients 10, 5, 3.3, 2, 1.7, 1.4, 1.1, then 1 and 1, where fewer replicas win",
			fleet:  eachAvailable(10, 5, 1), request: deployment(8, placement(dynamic)), want: targets("m1", 5, "m2", 2, "m3", 1),
		},
		"ScaleUp": {
			reason: "what runs stays; the 2 more go by what is left, 4:8:0: one each",
			fleet:  eachAvailable(4, 8, 0), request: deployment(10, placement(dynamic), now("m1", 5, "m2", 2, "m3", 1)),
			want: targets("m1", 6, "m2", 3, "m3", 1),
		},
		"ScaleDown": {
			reason: "5 of 6:3:1: quotients 6, 3, 2, 1.2, then m2 and m3 at 1, where fewer replicas win",
			fleet:  eachAvailable(0, 0, 0), request: deployment(5, placement(dynamic), now("m1", 6, "m2", 3, "m3", 1)),
			want: targets("m1", 3, "m2", 1, "m3", 1),
		},
		"Steady": {
			reason: "as many as wanted: nothing moves, however uneven",
			fleet:  eachAvailable(1, 90), request: deployment(9, placement(dynamic), now("m1", 9)), want: targets("m1", 9),
		},
		"Fresh": {
			reason: "afresh, own replicas count as available, 1+9:90 over 9: quotients 90, 30, 18, 12.9, 10 (m1, fewer replicas), 10, 8.2, 6.9, 6",
			fleet:  eachAvailable(1, 90), request: deployment(9, placement(dynamic), now("m1", 9), fresh), want: targets("m1", 1, "m2", 8),
		},
		"LostCluster": {
			reason:  "what was in a cluster that no longer fits is divided anew, 3 by 6:3; the rest stays",
			fleet:   fleet(member("m1", available(6)), member("m2", available(3)), member("m3", available(50))),
			request: deployment(9, placement(dynamic, affinity(named("m1", "m2"))), now("m1", 3, "m2", 3, "m3", 3)),
			want:    targets("m1", 5, "m2", 4),
		},
		"TooLittle": {
			reason: "8 do not fit into 3+2",
			fleet:  eachAvailable(3, 2), request: deployment(8, placement(dynamic)),
			failure: workv1alpha2.BindingReasonUnschedulable,
			message: "Clusters available replicas 5 are not enough to schedule. 3 of 8 replicas found no place; available for more: m1 for 3, m2 for 2",
		},
		"Partial": {
			reason: "the same, with what fits placed on request",
			fleet:  eachAvailable(3, 2), request: deployment(8, placement(dynamic), partial), want: targets("m1", 3, "m2", 2),
		},
		"PartialGrows": {
			reason: "what is there stays, and one more fits",
			fleet:  eachAvailable(1, 0), request: deployment(8, placement(dynamic), partial, now("m1", 3, "m2", 2)), want: targets("m1", 4, "m2", 2),
		},
		"PartialNothing": {
			reason: "placing nothing is not placing a part",
			fleet:  eachAvailable(0, 0), request: deployment(8, placement(dynamic), partial), failure: workv1alpha2.BindingReasonUnschedulable,
		},
		"ScaledToZero": {
			reason: "copies stay, with no replicas",
			fleet:  eachAvailable(3, 2), request: deployment(0, placement(dynamic), now("m1", 3, "m2", 2)), want: targets("m1", 0, "m2", 0),
		},
		"FromZero": {
			reason: "and come back where capacity is available, 3:2 over 5",
			fleet:  eachAvailable(3, 2), request: deployment(5, placement(dynamic), now("m1", 0, "m2", 0)), want: targets("m1", 3, "m2", 2),
		},
		"ManyResources": {
			reason: "the scarcest counts: 10 cpu but 8Gi of memory for 4Gi each",
			fleet: fleet(member("m1", func(c *clusterv1alpha1.Cluster) {
				c.Status.ResourceSummary.Allocatable[corev1.ResourceCPU] = resource.MustParse("10")
				c.Status.ResourceSummary.Allocatable[corev1.ResourceMemory] = resource.MustParse("8Gi")
			})),
			request: deployment(3, placement(dynamic), func(r *decision.Request) {
				r.Requirements = &workv1alpha2.ReplicaRequirements{ResourceRequest: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("4Gi"),
				}}
			}),
			failure: workv1alpha2.BindingReasonUnschedulable,
		},
	})
}

func TestAggregated(t *testing.T) {
	runAll(t, map[string]scenario{
		"One": {
			reason: "8 fit into the one with most available",
			fleet:  eachAvailable(5, 10, 1), request: deployment(8, placement(aggregated)), want: targets("m2", 8),
		},
		"Two": {
			reason: "12 need the two with most available, shared 10:5",
			fleet:  eachAvailable(10, 5, 1), request: deployment(12, placement(aggregated)), want: targets("m1", 8, "m2", 4),
		},
		"ScaleUp": {
			reason: "3 more: m2 first since it holds some, then m1: 2 and 10 are enough; quotients 10, 3.3, then 2 and 2, where fewer replicas win",
			fleet:  eachAvailable(10, 2, 1), request: deployment(6, placement(aggregated), now("m2", 3)), want: targets("m1", 2, "m2", 4),
		},
		"ScaleUpInPlace": {
			reason: "as long as the present cluster holds them, nothing goes elsewhere",
			fleet:  eachAvailable(100, 5), request: deployment(8, placement(aggregated), now("m2", 3)), want: targets("m2", 8),
		},
		"ScaleDown": {
			reason: "the cluster with most replicas keeps them; the others lose theirs",
			fleet:  eachAvailable(0, 0), request: deployment(5, placement(aggregated), now("m1", 4, "m2", 8)), want: targets("m2", 5),
		},
		"Fresh": {
			reason: "afresh, m1 with 10 beats m2 with 2+3",
			fleet:  eachAvailable(10, 2, 1), request: deployment(6, placement(aggregated), now("m2", 3), fresh), want: targets("m1", 6),
		},
	})
}

func TestOverflowTiers(t *testing.T) {
	p := placement(dynamic, term("home", named("m1"), overflow("near", named("m2")), overflow("far", named("m3"))))
	runAll(t, map[string]scenario{
		"Base":  {reason: "what fits at home stays there", fleet: eachAvailable(4, 3, 10), request: deployment(4, p), want: targets("m1", 4)},
		"Spill": {reason: "9 = 4 + 3 + 2", fleet: eachAvailable(4, 3, 10), request: deployment(9, p), want: targets("m1", 4, "m2", 3, "m3", 2)},
		"Shrink": {
			reason: "the far tiers empty first: 5 = 4 + 1",
			fleet:  eachAvailable(0, 0, 8), request: deployment(5, p, now("m1", 4, "m2", 3, "m3", 2)), want: targets("m1", 4, "m2", 1),
		},
		"TooMuch": {reason: "18 > 17", fleet: eachAvailable(4, 3, 10), request: deployment(18, p), failure: workv1alpha2.BindingReasonUnschedulable},
		"NoTiersForConfigMaps": {
			reason: "overflow is about replicas; anything else goes to the base alone",
			fleet:  eachAvailable(4, 3, 10), request: configMap(p), want: targets("m1", 0),
		},
	})
}

func TestComponents(t *testing.T) {
	set := func(r *decision.Request) {
		r.Replicas, r.Requirements = 0, nil
		part := func(name string, n int32, cpu string) workv1alpha2.Component {
			return workv1alpha2.Component{Name: name, Replicas: n, ReplicaRequirements: &workv1alpha2.ComponentReplicaRequirements{
				ResourceRequest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
			}}
		}
		r.Components = []workv1alpha2.Component{part("head", 1, "2"), part("worker", 3, "1")}
	}
	runAll(t, map[string]scenario{
		"WholeSetToEvery": {
			reason: "several components stay together: every chosen cluster has the set, without a number",
			fleet:  eachAvailable(9, 9), request: deployment(0, placement(duplicated), set), want: targets("m1", 0, "m2", 0),
		},
		"OneClusterWithCapacity": {
			reason: "one set needs 5 cpu; only m2 has them",
			fleet:  eachAvailable(4, 5), request: deployment(0, placement(aggregated, spread(byCluster, 1, 1)), set), want: targets("m2", 0),
		},
		"NoClusterWithCapacity": {
			reason: "4 cpu here and 4 there are not 5 in one place",
			fleet:  eachAvailable(4, 4), request: deployment(0, placement(aggregated, spread(byCluster, 1, 1)), set),
			failure: workv1alpha2.BindingReasonUnschedulable,
		},
	})
}
