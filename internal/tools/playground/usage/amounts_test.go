package usage

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	listersv1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

func TestUsage(t *testing.T) {
	pod := func(annotations map[string]string, requests ...string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
		for i := 0; i < len(requests); i += 2 {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(requests[i]), corev1.ResourceMemory: resource.MustParse(requests[i+1]),
			}}})
		}
		return p
	}
	cases := map[string]struct {
		pod         *corev1.Pod
		cpu, memory string
	}{
		"HalfOfTheRequests": {pod(nil, "200m", "64Mi", "1", "1Gi"), "600m", "544Mi"},
		"NoRequests":        {pod(nil, "0", "0"), "1m", "1Mi"},
		"Annotated":         {pod(map[string]string{annotationCPU: "70m", annotationMemory: "5Mi"}, "200m", "64Mi", "1", "1Gi"), "140m", "10Mi"},
		"WrongAnnotation":   {pod(map[string]string{annotationCPU: "much", annotationMemory: "-1"}, "200m", "64Mi"), "100m", "32Mi"},
		"NoContainers":      {pod(nil), "0", "0"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			sum := sumOf([]*corev1.Pod{tc.pod})
			if got := fmt.Sprint(sum.Cpu(), sum.Memory()); got != tc.cpu+" "+tc.memory {
				t.Errorf("it uses %s, want %s %s", got, tc.cpu, tc.memory)
			}
		})
	}
}

// kubectl top and karmadactl top print the error as it is.
func TestWhatIsNotThereIsAPodOrANode(t *testing.T) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	pods := podREST{pods: listersv1.NewPodLister(indexer)}
	if _, err := pods.Get(request.WithNamespace(t.Context(), "shop"), "web", nil); !apierrors.IsNotFound(err) || err.Error() != `pods "web" not found` {
		t.Errorf("a missing pod: %v", err)
	}
	nodes := nodeREST{nodes: listersv1.NewNodeLister(indexer)}
	if _, err := nodes.Get(t.Context(), "node", nil); !apierrors.IsNotFound(err) || err.Error() != `nodes "node" not found` {
		t.Errorf("a missing node: %v", err)
	}
}
