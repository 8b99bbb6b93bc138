package capacity

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestShortIsWhatIsMissing: with what Short returns one more unit fits, and without it none does.
func TestShortIsWhatIsMissing(t *testing.T) {
	type amounts = map[corev1.ResourceName]string
	needs := DemandOf(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2500m"), corev1.ResourceMemory: resource.MustParse("2Gi")})
	for name, tc := range map[string]struct {
		allocatable, allocated amounts
		taken                  Usage
		want                   map[corev1.ResourceName]string
	}{
		"everything fits": {amounts{"cpu": "4", "memory": "8Gi", "pods": "10"}, nil, Usage{}, nil},
		"cpu":             {amounts{"cpu": "4", "memory": "8Gi", "pods": "10"}, amounts{"cpu": "2"}, Usage{}, amounts{"cpu": "500m"}},
		"reserved":        {amounts{"cpu": "4", "memory": "8Gi", "pods": "10"}, nil, Usage{}.Plus(needs, 1), amounts{"cpu": "1"}},
		"pods and memory": {amounts{"cpu": "4", "memory": "1Gi", "pods": "1"}, amounts{"pods": "1"}, Usage{}, amounts{"memory": "1Gi", "pods": "1"}},
		"not reported":    {amounts{"pods": "1"}, nil, Usage{}, amounts{"cpu": "2500m", "memory": "2Gi"}},
	} {
		cluster := counting(tc.allocatable, tc.allocated)
		left := HeadroomOf(cluster)
		short := left.Short(&needs, &tc.taken)
		if len(short) != len(tc.want) {
			t.Errorf("%s: short of %v, want %v", name, short, tc.want)
		}
		for resourceName, want := range tc.want {
			if got := short[resourceName]; got.String() != want {
				t.Errorf("%s: short of %s %s, want %s", name, got.String(), resourceName, want)
			}
		}
		if fits := left.Fit(&needs, &tc.taken) > 0; fits != (len(tc.want) == 0) {
			t.Errorf("%s: fits %v though %v is missing", name, fits, tc.want)
		}
		sums := cluster.Status.ResourceSummary.Allocatable
		for resourceName, more := range short {
			sum := sums[resourceName]
			sum.Add(more)
			sums[resourceName] = sum
		}
		if left = HeadroomOf(cluster); left.Fit(&needs, &tc.taken) != 1 && len(short) > 0 {
			t.Errorf("%s: %d fit with what is missing, want 1", name, left.Fit(&needs, &tc.taken))
		}
	}
}
