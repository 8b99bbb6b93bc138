package placement_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/flagship-k8s/flagship/api/apps/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// scale sets another number of replicas.
func scale(t *testing.T, fleet *fleettest.Fleet, web *appsv1.Deployment, replicas int32) {
	t.Helper()
	fleettest.Update(t, fleet.Hub, web, func(d *appsv1.Deployment) { d.Spec.Replicas = &replicas })
}

// Every way to divide replicas, growing and shrinking, with the answers worked out by hand: each next replica goes to the
// largest weight/(2·n+1).
func TestDivisionsByHand(t *testing.T) {
	fleet, ns := start(t)
	type step struct {
		replicas int32
		want     []int32 // by cluster; -1 for one that is no target
	}
	static := func(all *policyv1alpha1.ClusterAffinity, clusters []string) policyv1alpha1.Placement {
		p := fleettest.Divided(fleettest.Weight{Cluster: clusters[0], Weight: 1}, fleettest.Weight{Cluster: clusters[1], Weight: 2}, fleettest.Weight{Cluster: clusters[2], Weight: 3})
		p.ClusterAffinity = all
		return p
	}
	dynamic := func(all *policyv1alpha1.ClusterAffinity, _ []string) policyv1alpha1.Placement {
		return byAvailable(policyv1alpha1.ReplicaDivisionPreferenceWeighted, all)
	}
	aggregated := func(all *policyv1alpha1.ClusterAffinity, _ []string) policyv1alpha1.Placement {
		return byAvailable(policyv1alpha1.ReplicaDivisionPreferenceAggregated, all)
	}
	for name, tc := range map[string]struct {
		placement func(all *policyv1alpha1.ClusterAffinity, clusters []string) policyv1alpha1.Placement
		steps     []step
	}{
		"duplicated": {
			func(all *policyv1alpha1.ClusterAffinity, _ []string) policyv1alpha1.Placement {
				return policyv1alpha1.Placement{ClusterAffinity: all}
			},
			// Capacity does not count.
			[]step{{7, []int32{7, 7, 7}}, {3, []int32{3, 3, 3}}, {20, []int32{20, 20, 20}}},
		},
		"static": {
			static,
			// Weights 1, 2 and 3: 13/6 of each are 2.17, 4.33 and 6.5, and 6 are exactly one weight each.
			[]step{{13, []int32{2, 4, 7}}, {6, []int32{1, 2, 3}}, {24, []int32{4, 8, 12}}},
		},
		"dynamic": {
			dynamic,
			// Capacity for 8, 4 and 2. Then 2 more by what is left, 4, 2 and 1; then 4 by what is there, 5, 3 and 1.
			[]step{{7, []int32{4, 2, 1}}, {9, []int32{5, 3, 1}}, {4, []int32{2, 1, 1}}, {0, []int32{0, 0, 0}}},
		},
		"aggregated": {
			aggregated,
			// The first holds 5. Of 5 more it takes 2 and the second 3, by what is left there, 3 and 4. The first alone holds 6.
			[]step{{5, []int32{5, -1, -1}}, {10, []int32{7, 3, -1}}, {6, []int32{6, -1, -1}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			clusters, all := island(t, fleet, 8, 4, 2)
			web := fleettest.Deployment(ns, name, tc.steps[0].replicas)
			fleettest.Create(t, fleet.Hub, web, fleettest.Policy(ns, name, tc.placement(all, clusters), web))
			for i, s := range tc.steps {
				if i > 0 {
					scale(t, fleet, web, s.replicas)
				}
				want := map[string]int32{}
				for n, replicas := range s.want {
					if replicas >= 0 {
						want[clusters[n]] = replicas
					}
				}
				b := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", name), divided(want))
				if c := meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.Scheduled); c.ObservedGeneration != b.Generation {
					t.Errorf("with %d replicas generation %d is Scheduled as of %d", s.replicas, b.Generation, c.ObservedGeneration)
				}
			}
		})
	}
}

// Written weights divide among all clusters, whatever the spread constraints are, until an annotation of the policy has these hold.
func TestStaticWeightsAndSpreadConstraints(t *testing.T) {
	fleet, ns := start(t)
	place := fleettest.Divided(fleettest.Weight{Cluster: "east-1", Weight: 1}, fleettest.Weight{Cluster: "east-2", Weight: 3})
	place.ClusterAffinity = &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"east-1", "east-2"}}
	place.SpreadConstraints = []policyv1alpha1.SpreadConstraint{spread("cluster", 1, 1)}
	web := fleettest.Deployment(ns, "web", 4)
	policy := fleettest.Policy(ns, "web", place, web)
	fleettest.Create(t, fleet.Hub, web, policy)
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "web"), divided(map[string]int32{"east-1": 1, "east-2": 3}))

	annotate := func(value string) {
		fleettest.Update(t, fleet.Hub, policy, func(p *policyv1alpha1.PropagationPolicy) {
			p.Annotations = map[string]string{policyv1alpha1.SpreadStaticWeightsAnnotation: value}
		})
	}
	annotate("true")
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "web"), divided(map[string]int32{"east-2": 4}))
	annotate("false")
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "web"), divided(map[string]int32{"east-1": 1, "east-2": 3}))
}

// What a tier cannot hold goes to the next, and what is taken back is taken from the last one first.
func TestOverflowTiers(t *testing.T) {
	fleet, ns := start(t)
	clusters, _ := island(t, fleet, 3, 2, 100)
	term := policyv1alpha1.ClusterAffinityTerm{AffinityName: "own", ClusterAffinity: *fleettest.To(clusters[0]).ClusterAffinity}
	for i, name := range []string{"rented", "cloud"} {
		term.OverflowAffinities = append(term.OverflowAffinities, policyv1alpha1.OverflowAffinityTerm{
			AffinityName: name, ClusterAffinity: *fleettest.To(clusters[i+1]).ClusterAffinity})
	}
	place := byAvailable(policyv1alpha1.ReplicaDivisionPreferenceAggregated, nil)
	place.ClusterAffinities = []policyv1alpha1.ClusterAffinityTerm{term}
	web := fleettest.Deployment(ns, "web", 2)
	fleettest.Create(t, fleet.Hub, web, fleettest.Policy(ns, "web", place, web))
	for i, step := range []struct {
		replicas int32
		want     map[string]int32
	}{
		{2, map[string]int32{clusters[0]: 2}},
		{4, map[string]int32{clusters[0]: 3, clusters[1]: 1}},
		{9, map[string]int32{clusters[0]: 3, clusters[1]: 2, clusters[2]: 4}},
		{6, map[string]int32{clusters[0]: 3, clusters[1]: 2, clusters[2]: 1}},
		{3, map[string]int32{clusters[0]: 3}},
	} {
		if i > 0 {
			scale(t, fleet, web, step.replicas)
		}
		fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "web"), divided(step.want))
	}
}

// All or nothing, unless the policy allows a part. The rest follows when there is capacity.
func TestPartialPlacement(t *testing.T) {
	fleet, ns := start(t)
	clusters, all := island(t, fleet, 3, 2)
	place := byAvailable(policyv1alpha1.ReplicaDivisionPreferenceWeighted, all)
	whole, part := fleettest.Deployment(ns, "whole", 8), fleettest.Deployment(ns, "part", 8)
	fleettest.Create(t, fleet.Hub, whole, fleettest.Policy(ns, "whole", place, whole))
	short := "Clusters available replicas 5 are not enough to schedule. 3 of 8 replicas found no place; available for more: " +
		clusters[0] + " for 3, " + clusters[1] + " for 2"
	b := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "whole"), refused(workv1alpha2.BindingReasonUnschedulable, short))
	if len(b.Spec.Clusters) > 0 {
		t.Errorf("it went to %v, want nowhere: not all of it fits", b.Spec.Clusters)
	}

	policy := fleettest.Policy(ns, "part", place, part)
	policy.Annotations = map[string]string{policyv1alpha1.PartialPlacementAnnotation: "true"}
	fleettest.Create(t, fleet.Hub, part, policy)
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "part"), func(b *workv1alpha2.ResourceBinding) error {
		if err := received(map[string]int32{clusters[0]: 3, clusters[1]: 2})(b); err != nil {
			return err
		}
		return refused(workv1alpha2.BindingReasonUnschedulable, "5 of 8 replicas are placed. "+short)(b)
	})
	hold(t, fleet, clusters[0], 6)
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "part"), divided(map[string]int32{clusters[0]: 6, clusters[1]: 2}))
}

// What was reserved for an object that goes before it runs, or that needs less, is there for those that wait.
func TestWhatIsGivenBackIsGivenToThoseWhoWait(t *testing.T) {
	fleet, ns := start(t)
	clusters, all := island(t, fleet, 5)
	place := byAvailable(policyv1alpha1.ReplicaDivisionPreferenceWeighted, all)
	first, second, third := fleettest.Deployment(ns, "first", 5), fleettest.Deployment(ns, "second", 5), fleettest.Deployment(ns, "third", 2)
	fleettest.Create(t, fleet.Hub, first, fleettest.Policy(ns, "first", place, first))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "first"), divided(map[string]int32{clusters[0]: 5}))
	waits := func(b *workv1alpha2.ResourceBinding) error {
		return contradicted(b, workv1alpha2.BindingReasonUnschedulable, "Clusters available replicas 0 are not enough")
	}
	fleettest.Create(t, fleet.Hub, second, fleettest.Policy(ns, "second", place, second))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "second"), waits)
	withdraw(t, fleet, first, clusters[0])
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "second"), divided(map[string]int32{clusters[0]: 5}))

	fleettest.Create(t, fleet.Hub, third, fleettest.Policy(ns, "third", place, third))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "third"), waits)
	scale(t, fleet, second, 3)
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "third"), divided(map[string]int32{clusters[0]: 2}))
}

// While the number is right nothing moves, however much capacity other clusters have. In a fresh decision, what runs
// counts as available, and all are divided anew.
func TestSteadyAndFresh(t *testing.T) {
	fleet, ns := start(t)
	clusters, all := island(t, fleet, 8, 4, 2)
	web, heap := fleettest.Deployment(ns, "web", 7), fleettest.Deployment(ns, "heap", 1)
	fleettest.Create(t, fleet.Hub, web, fleettest.Policy(ns, "web", byAvailable(policyv1alpha1.ReplicaDivisionPreferenceWeighted, all), web))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "web"), divided(map[string]int32{clusters[0]: 4, clusters[1]: 2, clusters[2]: 1}))
	hold(t, fleet, clusters[2], 20)
	settled(t, fleet)
	// There is capacity for 4, 2 and 19 more, and the cluster with the most has it.
	fleettest.Create(t, fleet.Hub, heap, fleettest.Policy(ns, "heap", byAvailable(policyv1alpha1.ReplicaDivisionPreferenceAggregated, all), heap))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "heap"), divided(map[string]int32{clusters[2]: 1}))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "web"), divided(map[string]int32{clusters[0]: 4, clusters[1]: 2, clusters[2]: 1}))
	fleettest.Create(t, fleet.Hub, &appsv1alpha1.WorkloadRebalancer{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: appsv1alpha1.WorkloadRebalancerSpec{
		Workloads: []appsv1alpha1.ObjectReference{{APIVersion: "apps/v1", Kind: "Deployment", Namespace: ns, Name: "web"}}}})
	// 7 by 8, 4 and 19: the third receives at 19, 6.33, 3.8 and 2.71, the first at 8 and 2.67, the second at 4.
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "web"), divided(map[string]int32{clusters[0]: 2, clusters[1]: 1, clusters[2]: 4}))
}
