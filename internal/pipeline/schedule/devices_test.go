package schedule_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/capacity"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule"
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

func gpuDevices(n int64) capacity.Devices {
	return capacity.Devices{Fixed: map[capacity.Class]int64{{Name: "gpu"}: n}}
}

func TestAClusterLeftOutForItsDevicesIsConsideredAgain(t *testing.T) {
	h := newHub(t, member("m1", gpus(4, 4)), member("m2", gpus(4, 1)), bindingOf("train", 1, placement(duplicated)))
	h.controller = schedule.New(schedule.Deps{
		Client: h.client,
		Clock:  h.clock, Events: events.RecorderFunc(func(events.Event) {}),
		Conversion: claiming{needs: &capacity.DeviceNeeds{Replica: gpuDevices(1)}},
	})
	if again := h.reconcile("train"); again == 0 {
		t.Error("it is not scheduled again")
	}
	if diff := cmp.Diff(targets("m2", 1), h.binding("train").Spec.Clusters); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	w, q := schedule.NewRequeuer(h.controller), newQueue(t)
	if _, err := w.Compare(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	h.changeCluster("m1", gpus(4, 3))
	if more, err := w.Compare(t.Context(), q); err != nil || !more {
		t.Errorf("a free device enqueues nothing: %v", err)
	}
	if again := h.reconcile("train"); again != 0 {
		t.Errorf("it is everywhere, and scheduled again after %s", again)
	}
	if diff := cmp.Diff(targets("m1", 1, "m2", 1), h.binding("train").Spec.Clusters); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestAnObjectIsPlacedAnewWhenItsClaimsCome: what it claims was not known when it was placed, and until it is nothing of it
// can run.
func TestAnObjectIsPlacedAnewWhenItsClaimsCome(t *testing.T) {
	for name, c := range map[string]struct {
		strategy func(*policyv1alpha1.Placement)
		health   workv1alpha2.ResourceHealth
		before   []workv1alpha2.TargetCluster
		after    []workv1alpha2.TargetCluster
	}{
		"everywhere":                    {duplicated, "", targets("m1", 4, "m2", 4), targets("m2", 4)},
		"divided by available replicas": {aggregated, "", targets("m1", 4), targets("m2", 4)},
		"what runs stays":               {aggregated, workv1alpha2.ResourceHealthy, targets("m1", 4), targets("m1", 4)},
		"what is unwell does not":       {aggregated, workv1alpha2.ResourceUnhealthy, targets("m1", 4), targets("m2", 4)},
	} {
		t.Run(name, func(t *testing.T) {
			large := func(c *clusterv1alpha1.Cluster) {
				c.Status.ResourceSummary.Allocatable["cpu"] = resource.MustParse("500")
			}
			h := newHub(t, member("m1", large, noDevices), member("m2", gpus(9, 0)), bindingOf("train", 4, placement(c.strategy)))
			needs := capacity.DeviceNeeds{Missing: true}
			h.controller = schedule.New(schedule.Deps{
				Client: h.client,
				Clock:  h.clock, Events: events.RecorderFunc(func(events.Event) {}),
				Conversion: claiming{needs: &needs},
			})
			h.reconcile("train")
			first := h.binding("train")
			if diff := cmp.Diff(c.before, first.Spec.Clusters); diff != "" || first.Annotations[workv1alpha2.AwaitsClaimsAnnotation] != "true" {
				t.Fatalf("annotations %v, -want +got\n%s", first.Annotations, diff)
			}
			if c.health != "" {
				first.Status.AggregatedStatus = []workv1alpha2.AggregatedStatusItem{{ClusterName: "m1", Health: c.health}}
				if err := h.client.Status().Update(t.Context(), first); err != nil {
					t.Fatal(err)
				}
			}
			needs = capacity.DeviceNeeds{Replica: gpuDevices(1)}
			h.reconcile("train")
			second := h.binding("train")
			if diff := cmp.Diff(c.after, second.Spec.Clusters); diff != "" || second.Annotations[workv1alpha2.AwaitsClaimsAnnotation] != "" {
				t.Errorf("annotations %v, -want +got\n%s", second.Annotations, diff)
			}
			// A claim that goes while the object runs is no reason to look for another place when it returns.
			needs = capacity.DeviceNeeds{Missing: true}
			h.reconcile("train")
			if got := h.binding("train").Annotations[workv1alpha2.AwaitsClaimsAnnotation]; got != "" {
				t.Errorf("it awaits claims although it was placed with them: %q", got)
			}
		})
	}
}

// claiming has every object claim devices.
type claiming struct {
	conversion.Unchanged
	needs *capacity.DeviceNeeds
}

func (c claiming) Devices(context.Context, workv1alpha2.Binding) (capacity.DeviceNeeds, error) {
	return *c.needs, nil
}
