package dradriver

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	resourcev1alpha2 "k8s.io/api/resource/v1alpha2"
	"k8s.io/dynamic-resource-allocation/controller"
)

const driverName = "gpu.example.com"

// driver allocates a device for every claim.
type driver struct{}

func (driver) GetClassParameters(context.Context, *resourcev1alpha2.ResourceClass) (any, error) {
	return nil, nil
}

func (driver) GetClaimParameters(context.Context, *resourcev1alpha2.ResourceClaim, *resourcev1alpha2.ResourceClass, any) (any, error) {
	return nil, nil
}

func (driver) Allocate(_ context.Context, claims []*controller.ClaimAllocation, _ string) {
	for _, claim := range claims {
		claim.Allocation = &resourcev1alpha2.AllocationResult{
			Shareable:       true,
			ResourceHandles: []resourcev1alpha2.ResourceHandle{{DriverName: driverName, Data: "device of " + claim.Claim.Name}},
			AvailableOnNodes: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "gpu", Operator: corev1.NodeSelectorOpExists}},
			}}},
		}
	}
}

func (driver) Deallocate(context.Context, *resourcev1alpha2.ResourceClaim) error { return nil }

func (driver) UnsuitableNodes(context.Context, *corev1.Pod, []*controller.ClaimAllocation, []string) error {
	return errors.New("no pod is scheduled here")
}
