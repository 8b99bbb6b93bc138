package skew_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

var unversioned = scheme.Codecs.WithoutConversion()

const nodeName = "simulated"

// startNodes makes a node, and is the scheduler and the kubelet of it until the test ends: each pod is there, is ready at once, and ends
// when it is deleted.
func startNodes(t *testing.T, c *fleettest.Cluster) {
	t.Helper()
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("250"),
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	if err := c.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	fleettest.UpdateStatus(t, c, node, func(n *corev1.Node) {
		n.Status.Capacity, n.Status.Allocatable = capacity, capacity
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Simulated", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
	})
	kube, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	k := &kubelet{kube: kube, addresses: map[types.UID]string{}, failed: make(chan error, 1)}
	factory := informers.NewSharedInformerFactory(kube, 0)
	handle := func(o any) {
		if err := client.IgnoreNotFound(k.sync(ctx, o.(*corev1.Pod))); err != nil && ctx.Err() == nil {
			select {
			case k.failed <- err:
			default: // the first one is reported
			}
		}
	}
	_, err = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: handle, UpdateFunc: func(_, o any) { handle(o) },
	})
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
		select {
		case err := <-k.failed:
			t.Errorf("the simulated node: %v", err)
		default:
		}
	})
}

// kubelet is what runs the pods of the node. Its methods are called one after another.
type kubelet struct {
	kube      kubernetes.Interface
	addresses map[types.UID]string
	failed    chan error
}

func (k *kubelet) sync(ctx context.Context, pod *corev1.Pod) error {
	pods := k.kube.CoreV1().Pods(pod.Namespace)
	switch {
	case pod.DeletionTimestamp != nil:
		return pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	case pod.Spec.NodeName == "":
		return pods.Bind(ctx, &corev1.Binding{ObjectMeta: pod.ObjectMeta, Target: corev1.ObjectReference{Kind: "Node", Name: nodeName}}, metav1.CreateOptions{})
	case pod.Status.Phase == corev1.PodPending:
		patch, err := json.Marshal(map[string]any{"status": k.running(pod)})
		if err != nil {
			return err
		}
		_, err = pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	}
	return nil
}

func (k *kubelet) running(pod *corev1.Pod) corev1.PodStatus {
	address := k.addresses[pod.UID]
	if address == "" {
		n := len(k.addresses) + 1
		address = fmt.Sprintf("10.121.%d.%d", n/250, n%250+1)
		k.addresses[pod.UID] = address
	}
	now := metav1.NewTime(time.Now())
	status := corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &now, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}}
	for _, kind := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return status
}
