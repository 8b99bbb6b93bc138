package profile_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/capacity"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
)

// gpus has a cluster count devices: so many of class gpu in all, so many of them held.
func gpus(all, held int64) func(*clusterv1alpha1.Cluster) {
	return func(c *clusterv1alpha1.Cluster) {
		noDevices(c)
		sums := c.Status.ResourceSummary
		sums.Allocatable[clusterv1alpha1.DeviceClassesResource] = resource.MustParse("1")
		sums.Allocatable[clusterv1alpha1.DeviceResource("gpu")] = *resource.NewQuantity(all, resource.DecimalSI)
		sums.Allocated = corev1.ResourceList{clusterv1alpha1.DeviceResource("gpu"): *resource.NewQuantity(held, resource.DecimalSI)}
	}
}

// noDevices has a cluster say that it has no class of devices.
func noDevices(c *clusterv1alpha1.Cluster) {
	c.Status.ResourceSummary.Allocatable[clusterv1alpha1.DeviceClassesResource] = resource.MustParse("0")
}

func claims(replica, cluster int64) func(*decision.Request) {
	return func(r *decision.Request) {
		if replica > 0 {
			r.Devices.Replica = gpuDevices(replica)
		}
		if cluster >= 0 {
			r.Devices.Cluster = gpuDevices(cluster)
		}
	}
}

func gpuDevices(n int64) capacity.Devices {
	return capacity.Devices{Fixed: map[capacity.Class]int64{{Name: "gpu"}: n}}
}

// chooses has a request claim so many devices of class gpu or, if there are none, one of class fpga.
func chooses(n int64) func(*decision.Request) {
	return func(r *decision.Request) {
		r.Devices.Replica = capacity.Devices{Choices: [][]capacity.Option{{
			{Class: capacity.Class{Name: "gpu"}, Count: n}, {Class: capacity.Class{Name: "fpga"}, Count: 1},
		}}}
	}
}

// fpgas has a cluster count devices of another class as well.
func fpgas(free int64) func(*clusterv1alpha1.Cluster) {
	return func(c *clusterv1alpha1.Cluster) {
		c.Status.ResourceSummary.Allocatable[clusterv1alpha1.DeviceResource("fpga")] = *resource.NewQuantity(free, resource.DecimalSI)
	}
}

// resourceClass has a cluster serve v1alpha2, with one class.
func resourceClass(name string) func(*clusterv1alpha1.Cluster) {
	return func(c *clusterv1alpha1.Cluster) {
		sums := c.Status.ResourceSummary
		sums.Allocatable[clusterv1alpha1.ResourceClassesResource] = resource.MustParse("1")
		sums.Allocatable[clusterv1alpha1.ResourceClassResource(name)] = resource.MustParse("1")
	}
}

// claimsOld has a request claim a device by a claim of v1alpha2.
func claimsOld(r *decision.Request) {
	r.Devices.Replica = capacity.Devices{Fixed: map[capacity.Class]int64{{Name: "gpu", Old: true}: 1}}
}

func TestDevices(t *testing.T) {
	mixed := fleet(member("a", gpus(4, 3)), member("b", gpus(4, 4)), member("c", noDevices), member("d"))
	everywhere := placement(duplicated)
	runAll(t, map[string]scenario{
		"One":     {reason: "where one is free, and where devices are not counted", fleet: mixed, request: configMap(everywhere, claims(0, 1)), want: targets("a", 0, "d", 0)},
		"Two":     {reason: "own and shared ones add up", fleet: mixed, request: deployment(1, everywhere, claims(1, 1)), want: targets("d", 1)},
		"None":    {reason: "one that takes none needs the class all the same", fleet: mixed, request: configMap(everywhere, claims(0, 0)), want: targets("a", 0, "b", 0, "d", 0)},
		"Held":    {reason: "a cluster that has the object keeps it", fleet: mixed, request: configMap(everywhere, claims(0, 1), now("b", 0, "c", 0)), want: targets("a", 0, "b", 0, "c", 0, "d", 0)},
		"Nothing": {reason: "who claims nothing does not care", fleet: mixed, request: configMap(everywhere), want: targets("a", 0, "b", 0, "c", 0, "d", 0)},
		"Reasons": {
			reason: "why not is said of each", fleet: fleet(member("b", gpus(4, 4)), member("c", noDevices)), request: configMap(everywhere, claims(0, 1)),
			failure: workv1alpha2.BindingReasonNoClusterFit,
			message: "0/2 clusters fit: 1 has no device class gpu, 1 has no free device of class gpu (in this order: c; b)",
		},
		"ReasonsForMore": {
			reason: "and how many it takes", fleet: fleet(member("a", gpus(4, 3)), member("b", gpus(4, 4))), request: configMap(everywhere, claims(0, 2)),
			failure: workv1alpha2.BindingReasonNoClusterFit,
			message: "0/2 clusters fit: 2 have fewer than 2 free devices of class gpu (a, b)",
		},
		"Divided": {
			reason: "replicas go where devices are", fleet: fleet(member("a", gpus(2, 0)), member("b", gpus(9, 5))),
			request: deployment(6, placement(dynamic), claims(1, -1)), want: targets("a", 2, "b", 4),
		},
		"Aggregated": {
			reason: "into as few clusters as hold them", fleet: fleet(member("a", gpus(2, 0)), member("b", gpus(9, 5)), member("c", gpus(3, 0))),
			request: deployment(4, placement(aggregated), claims(1, -1)), want: targets("b", 4),
		},
		"TooMany": {
			reason: "and not more than there are", fleet: fleet(member("a", gpus(2, 0))),
			request: deployment(3, placement(dynamic), claims(1, -1)), failure: workv1alpha2.BindingReasonUnschedulable,
		},
		"Choice": {
			reason: "the first option or the second, but all classes", request: configMap(everywhere, chooses(2)), want: targets("a", 0, "b", 0, "e", 0),
			fleet: fleet(member("a", gpus(4, 2), fpgas(0)), member("b", gpus(4, 3), fpgas(1)), member("c", gpus(4, 3), fpgas(0)), member("d", gpus(4, 2)), member("e")),
		},
		"NoChoice": {
			reason: "of a choice every option is named", request: configMap(everywhere, chooses(1)), failure: workv1alpha2.BindingReasonNoClusterFit,
			fleet:   fleet(member("a", noDevices), member("b", gpus(4, 4), fpgas(0))),
			message: "0/2 clusters fit: 1 has no device class gpu, 1 has no free device of class gpu or fpga (in this order: a; b)",
		},
		"ChoiceDivided": {
			reason: "options add up", fleet: fleet(member("a", gpus(4, 2), fpgas(1)), member("b", gpus(9, 6), fpgas(0))),
			request: deployment(6, placement(dynamic), chooses(1)), want: targets("a", 3, "b", 3),
		},
		"ChoiceScore": {
			reason: "a cluster is as good as its best option", fleet: fleet(member("a", gpus(4, 3), fpgas(0)), member("b", gpus(4, 2), fpgas(0))),
			request: configMap(placement(duplicated, spread("cluster", 1, 1)), chooses(1)), want: targets("b", 0),
		},
		"OldClass": {
			reason:  "where v1alpha2 is served its classes count, and only the driver counts devices",
			fleet:   fleet(member("a", resourceClass("gpu")), member("b", gpus(4, 0), resourceClass("fpga")), member("c", gpus(4, 3)), member("d", gpus(4, 4))),
			request: configMap(everywhere, claimsOld), want: targets("a", 0, "c", 0),
		},
		"NoOldClass": {
			reason: "and are missed", fleet: fleet(member("a", resourceClass("fpga"))), request: configMap(everywhere, claimsOld),
			failure: workv1alpha2.BindingReasonNoClusterFit, message: "0/1 clusters fit: 1 has no device class gpu (a)",
		},
		"Score": {
			reason: "of two that do, the one with more free devices", fleet: fleet(member("a", gpus(4, 3)), member("b", gpus(4, 1))),
			request: configMap(placement(duplicated, spread("cluster", 1, 1)), claims(0, 1)), want: targets("b", 0),
		},
	})
}

func TestAKindThatCanBeTranslatedNeedNotBeServed(t *testing.T) {
	asMap := func(r *decision.Request) {
		r.Becomes = []schema.GroupVersionKind{{Group: "apps", Version: "v1", Kind: "Widget"}, {Version: "v1", Kind: "ConfigMap"}}
	}
	runAll(t, map[string]scenario{
		"Translated": {reason: "one of the kinds it can become will do", fleet: fleet(member("a"), member("b", apisUnknown)), request: configMap(placement(duplicated), widget, asMap), want: targets("a", 0)},
		"Not":        {reason: "without any it cannot go", fleet: fleet(member("a")), request: configMap(placement(duplicated), widget), failure: workv1alpha2.BindingReasonNoClusterFit},
	})
}

// TestAClusterLeftOutForItsDevicesIsConsideredAgain: an object that goes everywhere waits for those where it cannot be yet.
