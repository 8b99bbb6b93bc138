package builtin

import (
	"maps"
	"math"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// Requirements is what one pod of the spec needs to run: the resources it requests, and the nodes it accepts. It is nil for a pod
// that runs anywhere and requests nothing. The result shares memory with spec.
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

// requests is what the scheduler of a member will count for one pod: containers and sidecars together or the largest init
// container, whichever is more, plus the overhead. In a pod, but not in a pod template, the API server has replaced missing
// requests by limits; here they always are.
func requests(spec *corev1.PodSpec) corev1.ResourceList {
	pod := corev1.Pod{Spec: corev1.PodSpec{
		Containers:     limitsAsRequests(spec.Containers),
		InitContainers: limitsAsRequests(spec.InitContainers),
		Overhead:       bounded(spec.Overhead),
	}}
	if spec.Resources != nil {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: bounded(spec.Resources.Requests), Limits: bounded(spec.Resources.Limits)}
	}
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
		result[i].Resources.Requests = bounded(result[i].Resources.Requests)
	}
	return result
}

// bounded replaces quantities such as 1e2147483647, whose sum takes minutes and gigabytes, by the highest that can be counted.
func bounded(list corev1.ResourceList) corev1.ResourceList {
	for name, quantity := range list {
		if quantity.AsDec().Scale() < -100 {
			list = withQuantity(list, name, *apiresource.NewQuantity(math.MaxInt64, quantity.Format))
		}
	}
	return list
}

// withQuantity returns a copy of list with an entry set: the list read from the object stays as it is.
func withQuantity(list corev1.ResourceList, name corev1.ResourceName, quantity apiresource.Quantity) corev1.ResourceList {
	copied := make(corev1.ResourceList, len(list)+1)
	maps.Copy(copied, list)
	copied[name] = quantity
	return copied
}
