package placement_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appsv1alpha1 "github.com/flagship-k8s/flagship/api/apps/v1alpha1"
	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

func TestSpread(t *testing.T) {
	fleet, ns := start(t)
	zone := func(name string) string {
		return map[string]string{"east-1": "a", "east-2": "a", "east-3": "b", "west-1": "b", "west-2": "c", "west-3": "c"}[name]
	}
	groups := map[string]func(string) string{
		"cluster":  func(name string) string { return name },
		"region":   func(name string) string { return name[:4] },
		"zone":     zone,
		"provider": func(name string) string { return provider(zone(name)) },
		"rack":     func(name string) string { return name[5:] },
	}
	racks := func(least, most int) policyv1alpha1.SpreadConstraint {
		return policyv1alpha1.SpreadConstraint{SpreadByLabel: "rack", MinGroups: least, MaxGroups: most}
	}
	for name, tc := range map[string]struct {
		constraints []policyv1alpha1.SpreadConstraint
		want        map[string]int // groups
	}{
		"one-region":  {[]policyv1alpha1.SpreadConstraint{spread("region", 1, 1), spread("cluster", 3, 3)}, map[string]int{"cluster": 3, "region": 1}},
		"two-regions": {[]policyv1alpha1.SpreadConstraint{spread("region", 2, 2), spread("cluster", 2, 2)}, map[string]int{"cluster": 2, "region": 2}},
		"three-zones": {[]policyv1alpha1.SpreadConstraint{spread("zone", 3, 3), spread("cluster", 3, 3)}, map[string]int{"cluster": 3, "zone": 3}},
		"two-regions-two-zones": {[]policyv1alpha1.SpreadConstraint{spread("region", 2, 2), spread("zone", 2, 2), spread("cluster", 2, 2)},
			map[string]int{"cluster": 2, "region": 2, "zone": 2}},
		"one-provider":  {[]policyv1alpha1.SpreadConstraint{spread("provider", 1, 1), spread("cluster", 4, 4)}, map[string]int{"cluster": 4, "provider": 1}},
		"two-providers": {[]policyv1alpha1.SpreadConstraint{spread("provider", 2, 2), spread("cluster", 2, 2)}, map[string]int{"cluster": 2, "provider": 2}},
		"one-rack":      {[]policyv1alpha1.SpreadConstraint{racks(1, 1), spread("cluster", 2, 2)}, map[string]int{"cluster": 2, "rack": 1}},
		"three-racks":   {[]policyv1alpha1.SpreadConstraint{racks(3, 3), spread("cluster", 3, 3)}, map[string]int{"cluster": 3, "rack": 3}},
		"two-providers-in-two-racks-of-one-region": {
			[]policyv1alpha1.SpreadConstraint{spread("region", 1, 1), spread("provider", 2, 2), racks(2, 2), spread("cluster", 2, 2)},
			map[string]int{"cluster": 2, "region": 1, "provider": 2, "rack": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			web := fleettest.Deployment(ns, name, 6)
			place := byAvailable(policyv1alpha1.ReplicaDivisionPreferenceWeighted, onPaper())
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
				if sum != 6 {
					return fmt.Errorf("%d replicas in %v, want 6", sum, b.Spec.Clusters)
				}
				for property, want := range tc.want {
					seen := map[string]bool{}
					for _, c := range b.Spec.Clusters {
						seen[groups[property](c.Name)] = true
					}
					if len(seen) != want {
						return fmt.Errorf("it is in %v, which are of %d by %s, want %d", b.Spec.Clusters, len(seen), property, want)
					}
				}
				return nil
			})
		})
	}
}

// Which of three regions are chosen, and which of their clusters, worked out by hand. They have capacity for 10 and 10, for 15,
// and for 6, 6 and 6.
func TestRegionsByHand(t *testing.T) {
	fleet, ns := start(t)
	capacities := [][]int64{{10, 10}, {15}, {6, 6, 6}}
	var regions, all []string
	for r, clusters := range capacities {
		region := fmt.Sprintf("atoll-%c", 'a'+r)
		regions = append(regions, region)
		for i, capacity := range clusters {
			name := fmt.Sprintf("%s-%d", region, i+1)
			joinWith(t, fleet, name, region, "z", capacity)
			all = append(all, name)
		}
	}
	leaveAfter(t, fleet, all...)
	settled(t, fleet)
	atolls := &policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "region", Operator: metav1.LabelSelectorOpIn, Values: regions}}}}
	for _, tc := range []struct {
		name        string
		replicas    int32
		placement   policyv1alpha1.Placement
		constraints []policyv1alpha1.SpreadConstraint
		want        map[string]int32
	}{
		{
			// Each region can take its half of 24: all score the same, and a and c have the most clusters. One of each is
			// chosen, then those of the others with the most capacity: 26 by 10, 10 and 6.
			"two-regions", 24, byAvailable(policyv1alpha1.ReplicaDivisionPreferenceWeighted, atolls),
			[]policyv1alpha1.SpreadConstraint{spread("region", 2, 2), spread("cluster", 3, 3)},
			map[string]int32{"atoll-a-1": 9, "atoll-a-2": 9, "atoll-c-1": 6},
		},
		{
			// b cannot take 18. a and c can, and c has the most clusters.
			"one-region", 18, byAvailable(policyv1alpha1.ReplicaDivisionPreferenceAggregated, atolls),
			[]policyv1alpha1.SpreadConstraint{spread("region", 1, 1), spread("cluster", 1, 3)},
			map[string]int32{"atoll-c-1": 6, "atoll-c-2": 6, "atoll-c-3": 6},
		},
		{
			// Two clusters of a, one of b and none of c can take all 8.
			"copies", 8, policyv1alpha1.Placement{ClusterAffinity: atolls},
			[]policyv1alpha1.SpreadConstraint{spread("region", 1, 1), spread("cluster", 1, 3)},
			map[string]int32{"atoll-a-1": 8, "atoll-a-2": 8},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			web := fleettest.Deployment(ns, tc.name, tc.replicas)
			tc.placement.SpreadConstraints = tc.constraints
			policy := fleettest.Policy(ns, tc.name, tc.placement, web)
			fleettest.Create(t, fleet.Hub, web, policy)
			fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", tc.name), divided(tc.want))
			// For the next all capacity is free again.
			withdraw(t, fleet, web, slices.Collect(maps.Keys(tc.want))...)
		})
	}
}

func TestWhatDoesNotFitHasAReason(t *testing.T) {
	fleet, ns := start(t)
	onlyPaper(t, fleet)
	for _, name := range []string{"east-1", "east-2", "west-1"} {
		change(t, fleet, name, taint("maintenance"))
	}
	settled(t, fleet)
	settings := fleettest.ConfigMap(ns, "settings", nil)
	place := policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{
		LabelSelector: onPaper().LabelSelector, ClusterNames: []string{"east-1", "east-2", "east-3", "west-1", "west-2"}, ExcludeClusters: []string{"east-3", "west-2"}}}
	fleettest.Create(t, fleet.Hub, settings, fleettest.Policy(ns, "settings", place, settings))
	const why = "0/6 clusters fit: 3 have taint maintenance=yes:NoSchedule, 2 excluded by clusterAffinity.exclude, 1 is not in clusterAffinity.clusterNames " +
		"(in this order: east-1, east-2, west-1; east-3, west-2; west-3)"
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), refused("NoClusterFit", why))
	expectEvent(t, fleet, ns, "settings", "ScheduleBindingFailed: "+why)

	// One is repaired, and the object goes there by itself.
	change(t, fleet, "west-1", func(c *clusterv1alpha1.Cluster) { c.Spec.Taints = nil })
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), placed("west-1"))
	// What is there stays when the taint returns: it keeps new objects away, no more.
	change(t, fleet, "west-1", taint("maintenance"))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), placed("west-1"))
}

// Twelve clusters, and why each of them is none, in one sentence.
func TestReasonsAreGrouped(t *testing.T) {
	fleet, ns := start(t)
	onlyPaper(t, fleet)
	const group = "apps.example.io"
	define(t, fleet, group, "Widget")
	clusters, _ := island(t, fleet, 1, 1, 1, 1, 1, 1)
	serve(t, fleet, group, "Widget", clusters[1:]...)
	for _, name := range clusters[1:4] {
		change(t, fleet, name, func(c *clusterv1alpha1.Cluster) {
			c.Spec.Taints = []corev1.Taint{{Key: "env", Value: "test", Effect: corev1.TaintEffectNoSchedule}}
		})
	}
	settled(t, fleet)
	widget := custom(group, "Widget", ns, "widget")
	place := policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ExcludeClusters: clusters[4:]}}
	fleettest.Create(t, fleet.Hub, widget, fleettest.Policy(ns, "widget", place, widget))
	why := "0/12 clusters fit: 7 lack apps.example.io/v1 Widget, 3 have taint env=test:NoSchedule, 2 excluded by clusterAffinity.exclude " +
		"(in this order: east-1, east-2, east-3, " + clusters[0] + ", west-1 and 2 more; " + strings.Join(clusters[1:4], ", ") + "; " + strings.Join(clusters[4:], ", ") + ")"
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Widget", "widget"), refused("NoClusterFit", why))
	expectEvent(t, fleet, ns, "widget", "ScheduleBindingFailed: "+why)
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
	// The template is scaled, a WorkloadRebalancer requests a fresh decision, and the fleet changes so that everything has to
	// move; the probe shows when the scheduler has seen it.
	fleettest.Update(t, fleet.Hub, web, func(d *appsv1.Deployment) { *d.Spec.Replicas = 5 })
	b = fleettest.ExpectEventually(t, fleet.Hub, b, func(b *workv1alpha2.ResourceBinding) error {
		if b.Spec.Replicas != 5 {
			return fmt.Errorf("the binding requires %d replicas", b.Spec.Replicas)
		}
		return nil
	})
	rebalance := &appsv1alpha1.WorkloadRebalancer{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: appsv1alpha1.WorkloadRebalancerSpec{
		Workloads: []appsv1alpha1.ObjectReference{{APIVersion: "apps/v1", Kind: "Deployment", Namespace: ns, Name: "web"}}}}
	fleettest.Create(t, fleet.Hub, rebalance)
	b = fleettest.ExpectEventually(t, fleet.Hub, b, func(b *workv1alpha2.ResourceBinding) error {
		if b.Spec.RescheduleTriggeredAt == nil {
			return errors.New("no fresh decision is requested")
		}
		return nil
	})
	change(t, fleet, "west-1", func(c *clusterv1alpha1.Cluster) { c.Labels["colour"] = "blue" })
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "probe"), placed("east-1", "west-1"))
	change(t, fleet, "east-1", func(c *clusterv1alpha1.Cluster) { delete(c.Labels, "colour") })
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "probe"), placed("west-1"))
	b = fleettest.ExpectEventually(t, fleet.Hub, b, received(map[string]int32{"east-1": 3}))
	fleettest.Update(t, fleet.Hub, b, func(b *workv1alpha2.ResourceBinding) { b.Spec.Suspension = nil })
	fleettest.ExpectEventually(t, fleet.Hub, b, func(b *workv1alpha2.ResourceBinding) error {
		if b.Status.LastScheduledTime.Before(b.Spec.RescheduleTriggeredAt) {
			return errors.New("the request for a fresh decision has no answer")
		}
		return divided(map[string]int32{"west-1": 5})(b)
	})
}

func TestAClusterThatLeavesIsDropped(t *testing.T) {
	fleet, ns := start(t)
	join(t, fleet, "leaving", "south", "z")
	join(t, fleet, "staying", "south", "z")
	leaveAfter(t, fleet, "staying")
	settled(t, fleet)
	web, only := fleettest.Deployment(ns, "web", 4), fleettest.ConfigMap(ns, "only", nil)
	south := inRegion("south")
	fleettest.Create(t, fleet.Hub, web, fleettest.Policy(ns, "web", byAvailable(policyv1alpha1.ReplicaDivisionPreferenceWeighted, &south), web),
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

// Suspended scheduling does not hold a cluster back that leaves. What it had is placed elsewhere when scheduling goes on,
// and nothing before.
func TestAClusterMayLeaveWhileSchedulingRests(t *testing.T) {
	fleet, ns := start(t)
	join(t, fleet, "sailing", "harbour", "z")
	join(t, fleet, "anchored", "harbour", "z")
	leaveAfter(t, fleet, "anchored")
	settled(t, fleet)
	harbour := inRegion("harbour")
	place := byAvailable(policyv1alpha1.ReplicaDivisionPreferenceWeighted, &harbour)
	web, settings, probe := fleettest.Deployment(ns, "web", 4), fleettest.ConfigMap(ns, "settings", nil), fleettest.ConfigMap(ns, "probe", nil)
	fleettest.Create(t, fleet.Hub, web, settings, probe, fleettest.Policy(ns, "all", place, web, settings, probe))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "probe"), placed("anchored", "sailing"))
	resting := map[string]func(*workv1alpha2.ResourceBinding) error{
		"Deployment": divided(map[string]int32{"sailing": 2, "anchored": 2}), "ConfigMap": placed("anchored", "sailing"),
	}
	bindings := map[string]*workv1alpha2.ResourceBinding{"Deployment": binding(ns, "Deployment", "web"), "ConfigMap": binding(ns, "ConfigMap", "settings")}
	for kind, both := range resting {
		fleettest.ExpectEventually(t, fleet.Hub, bindings[kind], both)
		fleettest.Update(t, fleet.Hub, bindings[kind], func(b *workv1alpha2.ResourceBinding) {
			b.Spec.Suspension = &workv1alpha2.Suspension{Scheduling: ptr.To(true)}
		})
	}

	leave(t, fleet, "sailing")
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "probe"), placed("anchored"))
	for kind := range resting {
		b := fleettest.ExpectEventually(t, fleet.Hub, bindings[kind], fleettest.Exists)
		if got := names(b.Spec.Clusters); !slices.Equal(got, []string{"anchored", "sailing"}) {
			t.Errorf("%s: it is in %v while scheduling is suspended, want both as before", kind, got)
		}
		fleettest.Update(t, fleet.Hub, b, func(b *workv1alpha2.ResourceBinding) { b.Spec.Suspension = nil })
	}
	fleettest.ExpectEventually(t, fleet.Hub, bindings["Deployment"], divided(map[string]int32{"anchored": 4}))
	fleettest.ExpectEventually(t, fleet.Hub, bindings["ConfigMap"], placed("anchored"))
}

// Clusters are selected by what they are, and by labels besides.
func TestFieldSelectors(t *testing.T) {
	fleet, ns := start(t)
	field := func(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values}
	}
	in, notIn := corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn
	for name, tc := range map[string]struct {
		fields []corev1.NodeSelectorRequirement
		want   []string
	}{
		"provider":    {[]corev1.NodeSelectorRequirement{field("provider", in, "globex", "none")}, []string{"east-3", "west-1"}},
		"region-zone": {[]corev1.NodeSelectorRequirement{field("region", in, "west"), field("zone", in, "c")}, []string{"west-2", "west-3"}},
		"not-zones":   {[]corev1.NodeSelectorRequirement{field("zone", notIn, "a", "c")}, []string{"east-3", "west-1"}},
		"not-region":  {[]corev1.NodeSelectorRequirement{field("region", notIn, "east"), field("provider", notIn, "globex")}, []string{"west-2", "west-3"}},
	} {
		settings := fleettest.ConfigMap(ns, name, nil)
		affinity := onPaper()
		affinity.FieldSelector = &policyv1alpha1.FieldSelector{MatchExpressions: tc.fields}
		fleettest.Create(t, fleet.Hub, settings, fleettest.Policy(ns, name, policyv1alpha1.Placement{ClusterAffinity: affinity}, settings))
		fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", name), placed(tc.want...))
	}
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
