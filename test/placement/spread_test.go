package placement_test

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/fleettest"
)

func TestSpread(t *testing.T) {
	fleet, ns := start(t)
	region := func(name string) string { return name[:4] }
	zone := func(name string) string {
		return map[string]string{"east-1": "a", "east-2": "a", "east-3": "b", "west-1": "b", "west-2": "c", "west-3": "c"}[name]
	}
	distinct := func(targets []workv1alpha2.TargetCluster, of func(string) string) int {
		seen := map[string]bool{}
		for _, c := range targets {
			seen[of(c.Name)] = true
		}
		return len(seen)
	}
	for name, tc := range map[string]struct {
		constraints              []policyv1alpha1.SpreadConstraint
		clusters, regions, zones int
	}{
		"one-region":            {[]policyv1alpha1.SpreadConstraint{spread("region", 1, 1), spread("cluster", 3, 3)}, 3, 1, 0},
		"two-regions":           {[]policyv1alpha1.SpreadConstraint{spread("region", 2, 2), spread("cluster", 2, 2)}, 2, 2, 0},
		"three-zones":           {[]policyv1alpha1.SpreadConstraint{spread("zone", 3, 3), spread("cluster", 3, 3)}, 3, 0, 3},
		"two-regions-two-zones": {[]policyv1alpha1.SpreadConstraint{spread("region", 2, 2), spread("zone", 2, 2), spread("cluster", 2, 2)}, 2, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			web := fleettest.Deployment(ns, name, 6)
			place := byRoom(policyv1alpha1.ReplicaDivisionPreferenceWeighted, onPaper())
			place.SpreadConstraints = tc.constraints
			fleettest.Create(t, fleet.Hub, web, fleettest.Policy(ns, name, place, web))
			fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", name), func(b *workv1alpha2.ResourceBinding) error {
				if err := scheduled(b); err != nil {
					return err
				}
				var sum int32
				for _, c := range b.Spec.Clusters {
					sum += c.Replicas
				}
				if len(b.Spec.Clusters) != tc.clusters || sum != 6 || tc.regions > 0 && distinct(b.Spec.Clusters, region) != tc.regions ||
					tc.zones > 0 && distinct(b.Spec.Clusters, zone) != tc.zones {
					return fmt.Errorf("%d replicas in %v, want 6 in %d clusters, %d regions, %d zones", sum, b.Spec.Clusters, tc.clusters, tc.regions, tc.zones)
				}
				return nil
			})
		})
	}
}

func TestWhatDoesNotFitSaysWhy(t *testing.T) {
	fleet, ns := start(t)
	for _, name := range []string{"east-1", "east-2", "west-1"} {
		change(t, fleet, name, taint("maintenance"))
	}
	settings := fleettest.ConfigMap(ns, "settings", nil)
	place := policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{
		LabelSelector: onPaper().LabelSelector, ClusterNames: []string{"east-1", "east-2", "east-3", "west-1", "west-2"}, ExcludeClusters: []string{"east-3", "west-2"}}}
	fleettest.Create(t, fleet.Hub, settings, fleettest.Policy(ns, "settings", place, settings))
	const why = "0/6 clusters fit: 3 have taint maintenance=yes:NoSchedule, 2 excluded by clusterAffinity.exclude, 1 is not in clusterAffinity.clusterNames " +
		"(in this order: east-1, east-2, west-1; east-3, west-2; west-3)"
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), refused("NoClusterFit", why))
	hears(t, fleet, ns, "settings", "ScheduleBindingFailed: "+why)

	// One is repaired, and the object goes there by itself.
	change(t, fleet, "west-1", func(c *clusterv1alpha1.Cluster) { c.Spec.Taints = nil })
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), placed("west-1"))
	// What is there stays when the taint returns: it keeps new objects away, no more.
	change(t, fleet, "west-1", taint("maintenance"))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), placed("west-1"))
}

func TestAffinityGroupsInOrderAndBack(t *testing.T) {
	fleet, ns := start(t)
	gold := policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}}
	groups := policyv1alpha1.Placement{ClusterAffinities: []policyv1alpha1.ClusterAffinityTerm{
		{AffinityName: "gold", ClusterAffinity: gold}, {AffinityName: "west", ClusterAffinity: inRegion("west")},
	}}
	back, stay := fleettest.ConfigMap(ns, "back", nil), fleettest.ConfigMap(ns, "stay", nil)
	returning := fleettest.Policy(ns, "back", groups, back)
	returning.Annotations = map[string]string{policyv1alpha1.FailbackAnnotation: "true"}
	fleettest.Create(t, fleet.Hub, back, stay, returning, fleettest.Policy(ns, "stay", groups, stay))
	for _, name := range []string{"back", "stay"} {
		b := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", name), placed("west-1", "west-2", "west-3"))
		if got := b.Status.SchedulerObservedAffinityName; got != "west" {
			t.Errorf("%s: affinity in use is %q, want west", name, got)
		}
	}
	change(t, fleet, "east-2", func(c *clusterv1alpha1.Cluster) { c.Labels["tier"] = "gold" })
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "back"), placed("east-2"))
	if b := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "stay"), scheduled); slices.Contains(names(b.Spec.Clusters), "east-2") {
		t.Error("what did not ask to return has moved")
	}
}

func TestSuspendedSchedulingRestsAndCatchesUp(t *testing.T) {
	fleet, ns := start(t)
	web, probe := fleettest.Deployment(ns, "web", 3), fleettest.ConfigMap(ns, "probe", nil)
	blue := policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"colour": "blue"}}}}
	change(t, fleet, "east-1", func(c *clusterv1alpha1.Cluster) { c.Labels["colour"] = "blue" })
	fleettest.Create(t, fleet.Hub, web, probe, fleettest.Policy(ns, "all", blue, web, probe))
	b := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "web"), placed("east-1"))
	fleettest.Update(t, fleet.Hub, b, func(b *workv1alpha2.ResourceBinding) {
		yes := true
		b.Spec.Suspension = &workv1alpha2.Suspension{Scheduling: &yes}
	})
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "probe"), placed("east-1"))
	// The template is scaled and the fleet changes; the probe shows when the scheduler has seen both.
	fleettest.Update(t, fleet.Hub, web, func(d *appsv1.Deployment) { *d.Spec.Replicas = 5 })
	b = fleettest.ExpectEventually(t, fleet.Hub, b, func(b *workv1alpha2.ResourceBinding) error {
		if b.Spec.Replicas != 5 {
			return fmt.Errorf("the binding asks for %d replicas", b.Spec.Replicas)
		}
		return nil
	})
	change(t, fleet, "west-1", func(c *clusterv1alpha1.Cluster) { c.Labels["colour"] = "blue" })
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "probe"), placed("east-1", "west-1"))
	b = fleettest.ExpectEventually(t, fleet.Hub, b, fleettest.Exists)
	if len(b.Spec.Clusters) != 1 || b.Spec.Clusters[0].Replicas != 3 {
		t.Fatalf("while suspended it went to %v", b.Spec.Clusters)
	}
	fleettest.Update(t, fleet.Hub, b, func(b *workv1alpha2.ResourceBinding) { b.Spec.Suspension = nil })
	b = fleettest.ExpectEventually(t, fleet.Hub, b, placed("east-1", "west-1"))
	if b.Spec.Clusters[0].Replicas != 5 || b.Spec.Clusters[1].Replicas != 5 {
		t.Errorf("resumed, it has %v, want 5 each", b.Spec.Clusters)
	}
}

func TestAClusterThatLeavesIsDropped(t *testing.T) {
	fleet, ns := start(t)
	join(t, fleet, "leaving", "south", "z")
	join(t, fleet, "staying", "south", "z")
	leaveAfter(t, fleet, "staying")
	web, only := fleettest.Deployment(ns, "web", 4), fleettest.ConfigMap(ns, "only", nil)
	south := inRegion("south")
	fleettest.Create(t, fleet.Hub, web, fleettest.Policy(ns, "web", byRoom(policyv1alpha1.ReplicaDivisionPreferenceWeighted, &south), web),
		only, fleettest.Policy(ns, "only", fleettest.To("leaving"), only))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "web"), placed("leaving", "staying"))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "only"), placed("leaving"))

	leave(t, fleet, "leaving")
	b := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "web"), placed("staying"))
	if b.Spec.Clusters[0].Replicas != 4 {
		t.Errorf("it has %v, want all four replicas in the other", b.Spec.Clusters)
	}
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "only"), func(b *workv1alpha2.ResourceBinding) error {
		if len(b.Spec.Clusters) > 0 {
			return fmt.Errorf("it is still in %v", names(b.Spec.Clusters))
		}
		return nil
	})
}

func TestTolerations(t *testing.T) {
	fleet, ns := start(t)
	for _, name := range []string{"east-1", "east-2", "east-3"} {
		change(t, fleet, name, taint("edge"))
	}
	settings := fleettest.ConfigMap(ns, "settings", nil)
	east := inRegion("east")
	place := policyv1alpha1.Placement{ClusterAffinity: &east, ClusterTolerations: []corev1.Toleration{{Key: "edge", Operator: corev1.TolerationOpEqual, Value: "yes"}}}
	fleettest.Create(t, fleet.Hub, settings, fleettest.Policy(ns, "settings", place, settings))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), placed("east-1", "east-2", "east-3"))
}
