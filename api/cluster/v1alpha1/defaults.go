package v1alpha1

import (
	"cmp"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// SetDefaults completes a new Cluster: what Normalize does, and the default
// resource models if it has none. An existing Cluster is only normalized, so that
// a user can clear its models.
func SetDefaults(cluster *Cluster) {
	if len(cluster.Spec.ResourceModels) == 0 {
		cluster.Spec.ResourceModels = DefaultResourceModels()
	}
	Normalize(cluster)
}

// Normalize brings a Cluster that is about to be written into its one form: the
// deprecated zone moves into zones, and resource models are ordered by grade, start
// at nothing and are open at the end.
func Normalize(cluster *Cluster) {
	spec := &cluster.Spec
	if spec.Zone != "" && len(spec.Zones) == 0 {
		spec.Zones, spec.Zone = []string{spec.Zone}, ""
	}
	normalizeModels(spec.ResourceModels)
}

func normalizeModels(models []ResourceModel) {
	if len(models) == 0 {
		return
	}
	slices.SortStableFunc(models, func(a, b ResourceModel) int { return cmp.Compare(a.Grade, b.Grade) })
	for i := range models {
		slices.SortStableFunc(models[i].Ranges, func(a, b ResourceModelRange) int { return cmp.Compare(a.Name, b.Name) })
	}
	first, last := models[0].Ranges, models[len(models)-1].Ranges
	for i := range first {
		// Kept if equal, so that the user's way of writing zero survives.
		if !first[i].Min.IsZero() {
			first[i].Min = *resource.NewQuantity(0, resource.DecimalSI)
		}
	}
	for i := range last {
		last[i].Max = unboundedQuantity()
	}
}

// DefaultResourceModels returns the sizes of nodes by which free capacity is
// described unless a Cluster brings its own: nine grades, up to more than 128 CPUs
// and 1 TiB of memory.
func DefaultResourceModels() []ResourceModel {
	const gibibyte = 1 << 30
	cpus := []int64{0, 1, 2, 4, 8, 16, 32, 64, 128}
	memoryGiB := []int64{0, 4, 16, 32, 64, 128, 256, 512, 1024}

	models := make([]ResourceModel, len(cpus))
	for grade := range models {
		cpuMax, memoryMax := unboundedQuantity(), unboundedQuantity()
		if next := grade + 1; next < len(models) {
			cpuMax = *resource.NewQuantity(cpus[next], resource.DecimalSI)
			memoryMax = *resource.NewQuantity(memoryGiB[next]*gibibyte, resource.BinarySI)
		}
		models[grade] = ResourceModel{
			Grade: uint(grade),
			Ranges: []ResourceModelRange{
				{Name: corev1.ResourceCPU, Min: *resource.NewQuantity(cpus[grade], resource.DecimalSI), Max: cpuMax},
				{Name: corev1.ResourceMemory, Min: *resource.NewQuantity(memoryGiB[grade]*gibibyte, resource.BinarySI), Max: memoryMax},
			},
		}
	}
	return models
}

// unboundedQuantity stands for "no upper bound".
func unboundedQuantity() resource.Quantity {
	return *resource.NewQuantity(math.MaxInt64, resource.DecimalSI)
}
