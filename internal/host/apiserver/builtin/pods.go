package builtin

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

var podsResource = corev1.SchemeGroupVersion.WithResource("pods")

// podKey is one pod that is being deleted.
type podKey struct {
	types.NamespacedName
	uid types.UID
}

// pods ends the deletion of pods. A pod that names a node stays, after it is deleted, until the kubelet of that node reports
// that its containers have ended. On the hub a pod is a template: there is neither a kubelet nor a container.
func (b *builder) pods(context.Context) error {
	const name = "pod-deletion-controller"
	client, objects, err := b.clients(name)
	if err != nil {
		return err
	}
	b.add(name, func(ctx context.Context) {
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[podKey]())
		informer := metadatainformer.NewFilteredMetadataInformer(objects, podsResource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
		leaving := func(obj any) {
			if pod, ok := obj.(*metav1.PartialObjectMetadata); ok && pod.DeletionTimestamp != nil {
				queue.Add(podKey{types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, pod.UID})
			}
		}
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: leaving, UpdateFunc: func(_, obj any) { leaving(obj) }}); err != nil {
			klog.FromContext(ctx).Error(err, "Watching pods")
			return
		}
		var running sync.WaitGroup
		running.Go(func() { informer.RunWithContext(ctx) })
		running.Go(func() {
			for {
				key, ended := queue.Get()
				if ended {
					return
				}
				only := metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &key.uid}}
				err := client.CoreV1().Pods(key.Namespace).Delete(ctx, key.Name, only)
				if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
					klog.FromContext(ctx).Error(err, "Ending the deletion of a pod", "pod", key.NamespacedName)
					queue.AddRateLimited(key)
				} else {
					queue.Forget(key)
				}
				queue.Done(key)
			}
		})
		<-ctx.Done()
		queue.ShutDown()
		running.Wait()
	})
	return nil
}
