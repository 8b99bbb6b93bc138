package placement_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/flagship-k8s/flagship/api/apps/v1alpha1"
	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// Groups of clusters are tried in their order, and one is used when it holds all. What went to a later group returns when
// the first holds it: by itself if its policy says so, else when a WorkloadRebalancer requests it.
func TestAffinityGroupsByCapacity(t *testing.T) {
	fleet, ns := start(t)
	clusters, _ := island(t, fleet, 2, 3, 100)
	place := byAvailable(policyv1alpha1.ReplicaDivisionPreferenceWeighted, nil)
	for i, name := range []string{"first", "second", "third"} {
		place.ClusterAffinities = append(place.ClusterAffinities, policyv1alpha1.ClusterAffinityTerm{
			AffinityName: name, ClusterAffinity: *fleettest.To(clusters[i]).ClusterAffinity})
	}
	back, requested := fleettest.Deployment(ns, "back", 5), fleettest.Deployment(ns, "requested", 5)
	returning := fleettest.Policy(ns, "back", place, back)
	returning.Annotations = map[string]string{policyv1alpha1.FailbackAnnotation: "true"}
	fleettest.Create(t, fleet.Hub, back, requested, returning, fleettest.Policy(ns, "requested", place, requested))
	in := func(group string, cluster int) func(*workv1alpha2.ResourceBinding) error {
		return func(b *workv1alpha2.ResourceBinding) error {
			if got := b.Status.SchedulerObservedAffinityName; got != group {
				return fmt.Errorf("its group is %q, want %q", got, group)
			}
			return divided(map[string]int32{clusters[cluster]: 5})(b)
		}
	}
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "back"), in("third", 2))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "requested"), in("third", 2))

	hold(t, fleet, clusters[0], 50)
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "back"), in("first", 0))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "requested"), in("third", 2))
	fleettest.Create(t, fleet.Hub, &appsv1alpha1.WorkloadRebalancer{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: appsv1alpha1.WorkloadRebalancerSpec{
		Workloads: []appsv1alpha1.ObjectReference{{APIVersion: "apps/v1", Kind: "Deployment", Namespace: ns, Name: "requested"}}}})
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "requested"), in("first", 0))
}

// A group with overflow tiers holds what all its tiers hold together, and is returned to when that is enough.
func TestBackToAGroupWithOverflowTiers(t *testing.T) {
	fleet, ns := start(t)
	clusters, _ := island(t, fleet, 3, 2, 100)
	only := func(i int) policyv1alpha1.ClusterAffinity { return *fleettest.To(clusters[i]).ClusterAffinity }
	place := byAvailable(policyv1alpha1.ReplicaDivisionPreferenceAggregated, nil)
	place.ClusterAffinities = []policyv1alpha1.ClusterAffinityTerm{
		{AffinityName: "home", ClusterAffinity: only(0), OverflowAffinities: []policyv1alpha1.OverflowAffinityTerm{{AffinityName: "rented", ClusterAffinity: only(1)}}},
		{AffinityName: "away", ClusterAffinity: only(2)},
	}
	web := fleettest.Deployment(ns, "web", 8)
	policy := fleettest.Policy(ns, "web", place, web)
	policy.Annotations = map[string]string{policyv1alpha1.FailbackAnnotation: "true"}
	fleettest.Create(t, fleet.Hub, web, policy)
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "web"), divided(map[string]int32{clusters[2]: 8}))
	hold(t, fleet, clusters[1], 6)
	b := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "web"), divided(map[string]int32{clusters[0]: 3, clusters[1]: 5}))
	if got := b.Status.SchedulerObservedAffinityName; got != "home" {
		t.Errorf("its group is %q, want home", got)
	}
}

// Objects of one group go where the first of them is, and those of another keep apart, as the values of a label say.
func TestWorkloadAffinity(t *testing.T) {
	fleet, ns := start(t)
	one := onPaper()
	grouped := func(name, team string, place policyv1alpha1.Placement, affinity policyv1alpha1.WorkloadAffinity) *workv1alpha2.ResourceBinding {
		web := fleettest.Deployment(ns, name, 1)
		web.Labels["team"] = team
		place.WorkloadAffinity = &affinity
		place.SpreadConstraints = []policyv1alpha1.SpreadConstraint{spread("cluster", 1, 1)}
		fleettest.Create(t, fleet.Hub, web, fleettest.Policy(ns, name, place, web))
		return binding(ns, "Deployment", name)
	}
	together := policyv1alpha1.WorkloadAffinity{Affinity: &policyv1alpha1.WorkloadAffinityTerm{GroupByLabelKey: "team"}}
	apart := policyv1alpha1.WorkloadAffinity{AntiAffinity: &policyv1alpha1.WorkloadAntiAffinityTerm{GroupByLabelKey: "team"}}
	anywhere := policyv1alpha1.Placement{ClusterAffinity: one}

	fleettest.ExpectEventually(t, fleet.Hub, grouped("leader", "red", fleettest.To("west-2"), together), placed("west-2"))
	fleettest.ExpectEventually(t, fleet.Hub, grouped("follower", "red", anywhere, together), placed("west-2"))
	fleettest.ExpectEventually(t, fleet.Hub, grouped("stranger", "blue", fleettest.To("east-3"), together), placed("east-3"))

	two := fleettest.To("east-2", "west-3")
	king := fleettest.ExpectEventually(t, fleet.Hub, grouped("king", "green", two, apart), scheduled)
	other := map[string]string{"east-2": "west-3", "west-3": "east-2"}[king.Spec.Clusters[0].Name]
	fleettest.ExpectEventually(t, fleet.Hub, grouped("second", "green", two, apart), placed(other))
	fleettest.ExpectEventually(t, fleet.Hub, grouped("pretender", "green", two, apart), func(b *workv1alpha2.ResourceBinding) error {
		return contradicted(b, workv1alpha2.BindingReasonNoClusterFit, "2 have an object of anti-affinity group team=green")
	})
	// One of them makes place.
	withdraw(t, fleet, fleettest.Deployment(ns, "king", 1), king.Spec.Clusters[0].Name)
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "pretender"), placed(king.Spec.Clusters[0].Name))
}

// What no cluster is selected for any more goes, unless the policy lets it stay.
func TestUnselectedObjectsGoUnlessKept(t *testing.T) {
	fleet, ns := start(t)
	change(t, fleet, "west-1", func(c *clusterv1alpha1.Cluster) { c.Labels["shade"] = "dark" })
	in := func(shade string) policyv1alpha1.Placement {
		return byAvailable(policyv1alpha1.ReplicaDivisionPreferenceWeighted, &policyv1alpha1.ClusterAffinity{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"shade": shade}}})
	}
	web, settings := fleettest.Deployment(ns, "web", 4), fleettest.ConfigMap(ns, "settings", nil)
	policy := fleettest.Policy(ns, "all", in("dark"), web, settings)
	policy.Annotations = map[string]string{policyv1alpha1.KeepUnselectedAnnotation: "true"}
	fleettest.Create(t, fleet.Hub, web, settings, policy)
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "web"), divided(map[string]int32{"west-1": 4}))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), placed("west-1"))

	expectKept := func() {
		t.Helper()
		for kind, name := range map[string]string{"Deployment": "web", "ConfigMap": "settings"} {
			b := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, kind, name), func(b *workv1alpha2.ResourceBinding) error {
				if b.Status.SchedulerObservedGeneration != b.Generation {
					return fmt.Errorf("generation %d is not observed", b.Generation)
				}
				return contradicted(b, workv1alpha2.BindingReasonNoClusterFit, "do not match clusterAffinity.labelSelector")
			})
			want := map[string]int32{"west-1": b.Spec.Replicas}
			if err := received(want)(b); err != nil {
				t.Errorf("%s: %v, as before", kind, err)
			}
		}
	}
	// The cluster loses its label.
	change(t, fleet, "west-1", func(c *clusterv1alpha1.Cluster) { delete(c.Labels, "shade") })
	expectKept()
	// A user mistypes a policy.
	change(t, fleet, "west-1", func(c *clusterv1alpha1.Cluster) { c.Labels["shade"] = "dark" })
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "web"), divided(map[string]int32{"west-1": 4}))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), placed("west-1"))
	fleettest.Update(t, fleet.Hub, policy, func(p *policyv1alpha1.PropagationPolicy) { p.Spec.Placement = in("drak") })
	expectKept()
	// Without the annotation the selector is an order.
	fleettest.Update(t, fleet.Hub, policy, func(p *policyv1alpha1.PropagationPolicy) { p.Annotations = nil })
	expectGone := func() {
		t.Helper()
		for _, kind := range []string{"Deployment", "ConfigMap"} {
			name := map[string]string{"Deployment": "web", "ConfigMap": "settings"}[kind]
			b := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, kind, name), func(b *workv1alpha2.ResourceBinding) error {
				if len(b.Spec.Clusters) > 0 {
					return fmt.Errorf("clusters are %v", b.Spec.Clusters)
				}
				return nil
			})
			if err := contradicted(b, workv1alpha2.BindingReasonNoClusterFit, "do not match clusterAffinity.labelSelector"); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
			expectRemoved(t, fleet, "west-1", kind, ns, name)
		}
	}
	expectGone()
	fleettest.Update(t, fleet.Hub, policy, func(p *policyv1alpha1.PropagationPolicy) { p.Spec.Placement = in("dark") })
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "web"), divided(map[string]int32{"west-1": 4}))
	change(t, fleet, "west-1", func(c *clusterv1alpha1.Cluster) { delete(c.Labels, "shade") })
	expectGone()
}
