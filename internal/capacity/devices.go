package capacity

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// Devices are numbers of devices by class. Zero means that the class has to exist.
type Devices map[string]int64

// DeviceNeeds is what an object needs of devices wherever it goes.
type DeviceNeeds struct {
	// Replica is what each replica needs for itself, Cluster what all in a cluster share.
	Replica, Cluster Devices
}

// Together is what a cluster must have for one replica.
func (n DeviceNeeds) Together() Devices {
	if len(n.Replica) == 0 {
		return n.Cluster
	}
	sum := maps.Clone(n.Replica)
	for class, count := range n.Cluster {
		sum[class] += count
	}
	return sum
}

// Requests adds to what a replica requests the devices it needs for itself, under the names by which clusters count them.
// The argument stays as it is.
func (n DeviceNeeds) Requests(list corev1.ResourceList) corev1.ResourceList {
	if len(n.Replica) == 0 {
		return list
	}
	sum := maps.Clone(list)
	if sum == nil {
		sum = corev1.ResourceList{}
	}
	for class, count := range n.Replica {
		name := clusterv1alpha1.DeviceResource(class)
		total := sum[name]
		total.Add(*resource.NewQuantity(count, resource.DecimalSI))
		sum[name] = total
	}
	return sum
}

// Devices says how many devices of a class are free when taken is already promised, and whether there is such a class.
// It is not known for a cluster that does not count devices.
func (r *Room) Devices(class string, taken *Usage) (free int64, exists, known bool) {
	if !r.countsDevices() {
		return 0, false, false
	}
	name := clusterv1alpha1.DeviceResource(class)
	left, exists := r.left.of(name)
	promised, _ := taken.items.of(name)
	return left - promised, exists, true
}

func (r *Room) countsDevices() bool {
	_, known := r.left.of(clusterv1alpha1.DeviceClassesResource)
	return known
}
