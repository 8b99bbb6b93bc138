package clusterstatus

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
)

// maxNodes and maxPods bound what is read of a member, so that one which lists without end costs its own status only. They are above
// what Kubernetes supports for a cluster.
const maxNodes, maxPods = 20_000, 300_000

// errTooMany means that a member has more objects than are read.
var errTooMany = errors.New("the cluster has too many")

// bounded reduces every object that a list or watch shows to what is needed of it, before all of a list is collected, and
// ends lists and watches with more objects than most. full is called then.
func bounded(source memberwatch.Source, resource string, most int64, reduce func(runtime.Object), full func(error)) memberwatch.Source {
	refuse := func() error {
		err := fmt.Errorf("%w %s: more than %d", errTooMany, resource, most)
		full(err)
		return err
	}
	var listed atomic.Int64 // on the pages of one list
	return memberwatch.Source{
		Lists: source.Lists,
		List: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if o.Continue == "" {
				listed.Store(0)
			}
			list, err := source.List(ctx, o)
			if err != nil {
				return nil, err
			}
			err = meta.EachListItem(list, func(item runtime.Object) error {
				reduce(item)
				listed.Add(1)
				return nil
			})
			if err == nil && listed.Load() > most {
				err = refuse()
			}
			return list, err
		},
		Watch: func(ctx context.Context, o metav1.ListOptions) (memberwatch.Stream, error) {
			events, err := source.Watch(ctx, o)
			if err != nil {
				return nil, err
			}
			shown := int64(0)
			return memberwatch.Filtered(events, func(e watch.Event) (watch.Event, bool) {
				switch e.Type {
				case watch.Added:
					shown++
				case watch.Deleted:
					shown--
				case watch.Modified:
				default:
					return e, true
				}
				if shown > most {
					status := apierrors.NewInternalError(refuse()).Status()
					return watch.Event{Type: watch.Error, Object: &status}, true
				}
				reduce(e.Object)
				return e, true
			}), nil
		},
	}
}

// reducePod leaves of a pod what it takes, and where; of one without a node also whose it is, and why.
func reducePod(object runtime.Object) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	waits := pod.Spec.NodeName == ""
	full := pod.ObjectMeta
	pod.ObjectMeta = reducedMeta(&full)
	if waits {
		pod.UID, pod.Labels, pod.OwnerReferences = full.UID, full.Labels, full.OwnerReferences
	} else {
		pod.Status.Conditions = nil
	}
	pod.Spec = corev1.PodSpec{
		NodeName: pod.Spec.NodeName, Overhead: pod.Spec.Overhead, Resources: pod.Spec.Resources,
		Containers: reducedContainers(pod.Spec.Containers), InitContainers: reducedContainers(pod.Spec.InitContainers),
	}
	pod.Status = corev1.PodStatus{Phase: pod.Status.Phase, Conditions: pod.Status.Conditions}
}

func reducedContainers(containers []corev1.Container) []corev1.Container {
	out := make([]corev1.Container, len(containers))
	for i := range containers {
		out[i] = corev1.Container{Resources: containers[i].Resources, RestartPolicy: containers[i].RestartPolicy}
	}
	return out
}

// reduceNode leaves of a node what it offers, and to which pods.
func reduceNode(object runtime.Object) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return
	}
	labels := node.Labels
	node.ObjectMeta = reducedMeta(&node.ObjectMeta)
	node.Labels = labels
	node.Spec = corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable, Taints: node.Spec.Taints}
	node.Status = corev1.NodeStatus{Allocatable: node.Status.Allocatable, Conditions: node.Status.Conditions}
}

func reducedMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, ResourceVersion: m.ResourceVersion}
}
