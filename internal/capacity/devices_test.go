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
	type answer struct {
		Free          int64
		Exists, Known bool
	}
	for name, c := range map[string]struct {
		cluster *clusterv1alpha1.Cluster
		class   string
		taken   Usage
		want    answer
	}{
		"those nobody holds":            {known, "gpu", Usage{}, answer{3, true, true}},
		"less what is promised":         {known, "gpu", taken, answer{1, true, true}},
		"a class that is not there":     {known, "fpga", Usage{}, answer{0, false, true}},
		"a cluster that does not count": {counting(map[corev1.ResourceName]string{"pods": "10"}, nil), "gpu", Usage{}, answer{}},
		"a cluster without a summary":   {&clusterv1alpha1.Cluster{}, "gpu", Usage{}, answer{}},
	} {
		room := RoomOf(c.cluster)
		var got answer
		got.Free, got.Exists, got.Known = room.Devices(c.class, &c.taken)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

func TestDevicesBoundHowManyReplicasFit(t *testing.T) {
	gpu := clusterv1alpha1.DeviceResource("gpu")
	needs := DeviceNeeds{Replica: Devices{"gpu": 2}, Cluster: Devices{"gpu": 1, "net": 1}}
	demand := DemandOf(needs.Requests(corev1.ResourceList{"cpu": resource.MustParse("1")}))
	counted := RoomOf(counting(map[corev1.ResourceName]string{"pods": "10", "cpu": "9", clusterv1alpha1.DeviceClassesResource: "1", gpu: "5"}, nil))
	if got := counted.Fit(&demand, &Usage{}); got != 2 {
		t.Errorf("%d replicas fit by devices, want 2", got)
	}
	without := RoomOf(counting(map[corev1.ResourceName]string{"pods": "10", "cpu": "9", clusterv1alpha1.DeviceClassesResource: "0"}, nil))
	if got := without.Fit(&demand, &Usage{}); got != 0 {
		t.Errorf("%d replicas fit without the class, want 0", got)
	}
	uncounted := RoomOf(counting(map[corev1.ResourceName]string{"pods": "10", "cpu": "9"}, nil))
	if got := uncounted.Fit(&demand, &Usage{}); got != 9 {
		t.Errorf("%d replicas fit where devices are not counted, want 9, by CPU", got)
	}
	if diff := cmp.Diff(Devices{"gpu": 3, "net": 1}, needs.Together()); diff != "" {
		t.Error(diff)
	}
}
