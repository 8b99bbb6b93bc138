package builtin

import (
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// Requirements tells what one pod of the spec needs to run: the resources it
// requests, and the nodes it accepts. It is nil for a pod that runs anywhere and
// requests nothing. The result shares memory with spec.
func Requirements(spec *corev1.PodSpec) *workv1alpha2.ReplicaRequirements {
	claim := nodeClaim(spec)
	requests := requests(spec)
	if claim == nil && len(requests) == 0 {
		return nil
	}
	return &workv1alpha2.ReplicaRequirements{
		NodeClaim:         claim,
		ResourceRequest:   requests,
		PriorityClassName: spec.PriorityClassName,
	}
}

func nodeClaim(spec *corev1.PodSpec) *workv1alpha2.NodeClaim {
	claim := workv1alpha2.NodeClaim{NodeSelector: spec.NodeSelector, Tolerations: spec.Tolerations}
	if spec.Affinity != nil && spec.Affinity.NodeAffinity != nil {
		claim.HardNodeAffinity = spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	if claim.HardNodeAffinity == nil && len(claim.NodeSelector) == 0 && len(claim.Tolerations) == 0 {
		return nil
	}
	return &claim
}

// requests is what the scheduler of a member will count for one pod: containers
// and sidecars together or the largest init container, whichever is more, plus
// the overhead. In a pod, but not in a pod template, the API server has already
// let limits stand in for missing requests; here they always do.
func requests(spec *corev1.PodSpec) corev1.ResourceList {
	pod := corev1.Pod{Spec: corev1.PodSpec{
		Containers:     limitsAsRequests(spec.Containers),
		InitContainers: limitsAsRequests(spec.InitContainers),
		Overhead:       spec.Overhead,
		Resources:      spec.Resources,
	}}
	return resource.PodRequests(&pod, resource.PodResourcesOptions{})
}

func limitsAsRequests(containers []corev1.Container) []corev1.Container {
	result := make([]corev1.Container, len(containers))
	for i := range containers {
		result[i] = corev1.Container{
			Name:          containers[i].Name,
			RestartPolicy: containers[i].RestartPolicy,
			Resources:     containers[i].Resources,
		}
		for name, limit := range containers[i].Resources.Limits {
			if _, ok := containers[i].Resources.Requests[name]; ok {
				continue
			}
			result[i].Resources.Requests = withQuantity(result[i].Resources.Requests, name, limit)
		}
	}
	return result
}

// withQuantity returns a copy of list with one more entry: the list read from
// the object stays as it is.
func withQuantity(list corev1.ResourceList, name corev1.ResourceName, quantity apiresource.Quantity) corev1.ResourceList {
	copied := make(corev1.ResourceList, len(list)+1)
	for n, q := range list {
		copied[n] = q
	}
	copied[name] = quantity
	return copied
}
