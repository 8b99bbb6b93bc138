package usage

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// Annotations of a pod that set what each of its containers uses. They are those of kwok.
const (
	annotationCPU    = "kwok.x-k8s.io/usage-cpu"
	annotationMemory = "kwok.x-k8s.io/usage-memory"
)

// containersOf is what the containers of a pod use: what its annotations say, else half of their requests, else a little.
func containersOf(pod *corev1.Pod) []v1beta1.ContainerMetrics {
	out := make([]v1beta1.ContainerMetrics, 0, len(pod.Spec.Containers))
	for _, c := range pod.Spec.Containers {
		cpu := resource.NewMilliQuantity(max(1, c.Resources.Requests.Cpu().MilliValue()/2), resource.DecimalSI)
		memory := resource.NewQuantity(max(1<<20, c.Resources.Requests.Memory().Value()/2), resource.BinarySI)
		out = append(out, v1beta1.ContainerMetrics{Name: c.Name, Usage: corev1.ResourceList{
			corev1.ResourceCPU:    annotated(pod, annotationCPU, *cpu),
			corev1.ResourceMemory: annotated(pod, annotationMemory, *memory),
		}})
	}
	return out
}

func annotated(pod *corev1.Pod, annotation string, otherwise resource.Quantity) resource.Quantity {
	if q, err := resource.ParseQuantity(pod.Annotations[annotation]); err == nil && q.Sign() >= 0 {
		return q
	}
	return otherwise
}

// sumOf is what pods use together.
func sumOf(pods []*corev1.Pod) corev1.ResourceList {
	cpu, memory := resource.NewMilliQuantity(0, resource.DecimalSI), resource.NewQuantity(0, resource.BinarySI)
	for _, pod := range pods {
		for _, c := range containersOf(pod) {
			cpu.Add(c.Usage[corev1.ResourceCPU])
			memory.Add(c.Usage[corev1.ResourceMemory])
		}
	}
	return corev1.ResourceList{corev1.ResourceCPU: *cpu, corev1.ResourceMemory: *memory}
}

// isRunning returns whether a pod uses anything.
func isRunning(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning }
