package schedule_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/capacity"
	"github.com/flagship-k8s/flagship/internal/event"
	"github.com/flagship-k8s/flagship/internal/schedule"
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

func claims(replica, cluster int64) func(*schedule.Request) {
	return func(r *schedule.Request) {
		if replica > 0 {
			r.Devices.Replica = capacity.Devices{"gpu": replica}
		}
		if cluster >= 0 {
			r.Devices.Cluster = capacity.Devices{"gpu": cluster}
		}
	}
}

func TestDevices(t *testing.T) {
	mixed := fleet(member("a", gpus(4, 3)), member("b", gpus(4, 4)), member("c", noDevices), member("d"))
	everywhere := placement(duplicated)
	runAll(t, map[string]scenario{
		"One":     {reason: "where one is free, and where nobody counts", fleet: mixed, request: configMap(everywhere, claims(0, 1)), want: targets("a", 0, "d", 0)},
		"Two":     {reason: "own and shared ones add up", fleet: mixed, request: deployment(1, everywhere, claims(1, 1)), want: targets("d", 1)},
		"None":    {reason: "one that takes none wants the class all the same", fleet: mixed, request: configMap(everywhere, claims(0, 0)), want: targets("a", 0, "b", 0, "d", 0)},
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
		"Score": {
			reason: "of two that do, the one with more free devices", fleet: fleet(member("a", gpus(4, 3)), member("b", gpus(4, 1))),
			request: configMap(placement(duplicated, spread("cluster", 1, 1)), claims(0, 1)), want: targets("b", 0),
		},
	})
}

func TestAKindThatCanBeTranslatedNeedNotBeServed(t *testing.T) {
	asMap := func(r *schedule.Request) {
		r.Becomes = []schema.GroupVersionKind{{Group: "apps", Version: "v1", Kind: "Widget"}, {Version: "v1", Kind: "ConfigMap"}}
	}
	runAll(t, map[string]scenario{
		"Translated": {reason: "one of the kinds it can become will do", fleet: fleet(member("a"), member("b", apisUnknown)), request: configMap(placement(duplicated), widget, asMap), want: targets("a", 0)},
		"Not":        {reason: "without any it cannot go", fleet: fleet(member("a")), request: configMap(placement(duplicated), widget), failure: workv1alpha2.BindingReasonNoClusterFit},
	})
}

// TestAClusterLeftOutForItsDevicesIsNotForgotten: an object that goes everywhere waits for those where it cannot be yet.
func TestAClusterLeftOutForItsDevicesIsNotForgotten(t *testing.T) {
	h := newHub(t, member("m1", gpus(4, 4)), member("m2", gpus(4, 1)), bindingOf("train", 1, placement(duplicated)))
	h.controller = schedule.New(h.client, schedule.Deps{
		Clock: h.clock, Events: event.RecorderFunc(func(event.Event) {}),
		Devices: func(context.Context, workv1alpha2.Binding) (capacity.DeviceNeeds, error) {
			return capacity.DeviceNeeds{Replica: capacity.Devices{"gpu": 1}}, nil
		},
	})
	if again := h.reconcile("train"); again == 0 {
		t.Error("nobody looks at it again")
	}
	if diff := cmp.Diff(targets("m2", 1), h.binding("train").Spec.Clusters); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	w, q := schedule.NewWaker(h.controller), newQueue(t)
	if _, err := w.Look(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	h.changeCluster("m1", gpus(4, 3))
	if roomier, err := w.Look(t.Context(), q); err != nil || !roomier {
		t.Errorf("a free device wakes nobody: %v", err)
	}
	if again := h.reconcile("train"); again != 0 {
		t.Errorf("it is everywhere, and looked at again after %s", again)
	}
	if diff := cmp.Diff(targets("m1", 1, "m2", 1), h.binding("train").Spec.Clusters); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
