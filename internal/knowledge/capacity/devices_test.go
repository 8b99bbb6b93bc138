package capacity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

func counting(allocatable, allocated map[corev1.ResourceName]string) *clusterv1alpha1.Cluster {
	parse := func(from map[corev1.ResourceName]string) corev1.ResourceList {
		list := corev1.ResourceList{}
		for name, q := range from {
			list[name] = resource.MustParse(q)
		}
		return list
	}
	c := &clusterv1alpha1.Cluster{}
	c.Status.ResourceSummary = &clusterv1alpha1.ResourceSummary{Allocatable: parse(allocatable), Allocated: parse(allocated)}
	return c
}

func TestFreeDevices(t *testing.T) {
	gpu := clusterv1alpha1.DeviceResource("gpu")
	known := counting(map[corev1.ResourceName]string{"pods": "10", clusterv1alpha1.DeviceClassesResource: "1", gpu: "4"},
		map[corev1.ResourceName]string{gpu: "1"})
	taken := Usage{}.Plus(DemandOf(corev1.ResourceList{gpu: resource.MustParse("1")}), 2)
	old := Usage{}.Plus(Demand{}.With(Devices{Fixed: map[Class]int64{{Name: "gpu", Old: true}: 2}}), 1)
	both := counting(map[corev1.ResourceName]string{
		"pods": "10", clusterv1alpha1.DeviceClassesResource: "1", gpu: "4",
		clusterv1alpha1.ResourceClassesResource: "1", clusterv1alpha1.ResourceClassResource("fpga"): "1",
	}, nil)
	for name, c := range map[string]struct {
		cluster *clusterv1alpha1.Cluster
		class   Class
		taken   Usage
		want    Stock
	}{
		"those not reserved":                              {known, Class{Name: "gpu"}, Usage{}, Stock{true, true, true, 3}},
		"less what is reserved":                           {known, Class{Name: "gpu"}, taken, Stock{true, true, true, 1}},
		"less what is reserved under another version":     {known, Class{Name: "gpu"}, old, Stock{true, true, true, 1}},
		"a class that is not there":                       {known, Class{Name: "fpga"}, Usage{}, Stock{true, false, true, 0}},
		"an old claim where the version is not known":     {known, Class{"gpu", true}, Usage{}, Stock{true, true, true, 3}},
		"an old class, whose devices only the driver has": {both, Class{"fpga", true}, old, Stock{true, true, false, 0}},
		"an old class that is not there":                  {both, Class{"gpu", true}, Usage{}, Stock{true, false, false, 0}},
		"a class of today beside the old ones":            {both, Class{Name: "gpu"}, Usage{}, Stock{true, true, true, 4}},
		"a cluster that does not count":                   {counting(map[corev1.ResourceName]string{"pods": "10"}, nil), Class{Name: "gpu"}, Usage{}, Stock{}},
		"a cluster without a summary":                     {&clusterv1alpha1.Cluster{}, Class{Name: "gpu"}, Usage{}, Stock{}},
	} {
		headroom := HeadroomOf(c.cluster)
		if diff := cmp.Diff(c.want, headroom.Devices(c.class, &c.taken)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

func TestDevicesBoundHowManyReplicasFit(t *testing.T) {
	gpu := clusterv1alpha1.DeviceResource("gpu")
	needs := DeviceNeeds{
		Replica: Devices{Fixed: map[Class]int64{{Name: "gpu"}: 2}},
		Cluster: Devices{Fixed: map[Class]int64{{Name: "gpu"}: 1, {Name: "net"}: 1}},
	}
	demand := DemandOf(corev1.ResourceList{"cpu": resource.MustParse("1")}).With(needs.Replica)
	counted := HeadroomOf(counting(map[corev1.ResourceName]string{"pods": "10", "cpu": "9", clusterv1alpha1.DeviceClassesResource: "1", gpu: "5"}, nil))
	if got := counted.Fit(&demand, &Usage{}); got != 2 {
		t.Errorf("%d replicas fit by devices, want 2", got)
	}
	without := HeadroomOf(counting(map[corev1.ResourceName]string{"pods": "10", "cpu": "9", clusterv1alpha1.DeviceClassesResource: "0"}, nil))
	if got := without.Fit(&demand, &Usage{}); got != 0 {
		t.Errorf("%d replicas fit without the class, want 0", got)
	}
	uncounted := HeadroomOf(counting(map[corev1.ResourceName]string{"pods": "10", "cpu": "9"}, nil))
	if got := uncounted.Fit(&demand, &Usage{}); got != 9 {
		t.Errorf("%d replicas fit where devices are not counted, want 9, by CPU", got)
	}
	old := Demand{}.With(Devices{Fixed: map[Class]int64{{Name: "gpu", Old: true}: 2}})
	if got := counted.Fit(&old, &Usage{}); got != 2 {
		t.Errorf("%d replicas with an old claim fit, want 2: it becomes one of today there", got)
	}
	driven := HeadroomOf(counting(map[corev1.ResourceName]string{
		"pods": "10", clusterv1alpha1.ResourceClassesResource: "1", clusterv1alpha1.ResourceClassResource("gpu"): "1",
	}, nil))
	if got := driven.Fit(&old, &Usage{}); got != 10 {
		t.Errorf("%d replicas with an old claim fit where only its driver has the devices, want 10, by pods", got)
	}
	want := map[Class]int64{{Name: "gpu"}: 3, {Name: "net"}: 1}
	if diff := cmp.Diff(want, needs.Together().Fixed); diff != "" {
		t.Error(diff)
	}
}

// TestChoicesBoundHowManyReplicasFit: a replica takes one big device or two small ones, beside what it takes in any case.
func TestChoicesBoundHowManyReplicasFit(t *testing.T) {
	big, small, gone := Class{Name: "big"}, Class{Name: "small"}, Class{Name: "gone"}
	headroom := HeadroomOf(counting(map[corev1.ResourceName]string{
		"pods": "100", clusterv1alpha1.DeviceClassesResource: "2", big.resource(): "3", small.resource(): "5",
	}, nil))
	either := []Option{{big, 1}, {small, 2}}
	for name, c := range map[string]struct {
		devices Devices
		taken   int64 // units of the same
		want    int32
	}{
		"one choice adds up":                  {Devices{Choices: [][]Option{either}}, 0, 5},
		"less what others reserved of it":     {Devices{Choices: [][]Option{either}}, 2, 3},
		"what is fixed comes first":           {Devices{Fixed: map[Class]int64{big: 1}, Choices: [][]Option{either}}, 0, 2},
		"two choices share":                   {Devices{Choices: [][]Option{either, either}}, 0, 2},
		"a class that is not there spoils it": {Devices{Choices: [][]Option{{{big, 1}, {gone, 1}}}}, 0, 0},
		"who only looks takes none":           {Devices{Choices: [][]Option{{{big, 0}}}}, 0, 100},
	} {
		demand := Demand{}.With(c.devices)
		taken := Usage{}.Plus(demand, c.taken)
		taken.pods = 0
		if got := headroom.Fit(&demand, &taken); got != c.want {
			t.Errorf("%s: %d fit, want %d", name, got, c.want)
		}
	}
}
