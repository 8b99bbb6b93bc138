package capacity

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// Short returns how much more of each resource a cluster must have in all for one more unit of d, when taken is reserved for others.
// It is empty if the totals suffice: then [Headroom.Fit] is bounded by single nodes or by devices.
func (r *Headroom) Short(d *Demand, taken *Usage) corev1.ResourceList {
	short := corev1.ResourceList{}
	if missing := d.pods() - (r.pods - taken.pods); missing > 0 {
		short[corev1.ResourcePods] = *resource.NewQuantity(missing, resource.DecimalSI)
	}
	for _, item := range d.items {
		if clusterv1alpha1.CountsDevices(item.name) {
			continue
		}
		left, _ := r.left.Of(item.name)
		reserved, _ := taken.items.Of(item.name)
		if missing := item.value - (left - reserved); missing > 0 {
			short[item.name] = quantity(item.name, missing)
		}
	}
	return short
}

// quantity is the inverse of count.
func quantity(name corev1.ResourceName, n int64) resource.Quantity {
	switch name {
	case corev1.ResourceCPU:
		return *resource.NewMilliQuantity(n, resource.DecimalSI)
	case corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return *resource.NewQuantity(n, resource.BinarySI)
	default:
		return *resource.NewQuantity(n, resource.DecimalSI)
	}
}
