package simcluster

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// storageClass is the default class of a simulated cluster. Its volumes hold nothing.
	storageClass = "simulated"
	provisioner  = "flagship.io/simulated"
	// Annotations that name the provisioner of a volume, which creates and deletes it, to the volume binder.
	annProvisionedBy = "pv.kubernetes.io/provisioned-by"
)

// volumes makes a volume for every claim of the default storage class, and removes it once the claim let go of it. The
// volume binder does the rest.
type volumes struct {
	client kubernetes.Interface
	claims cache.Indexer
	made   cache.Indexer
	queue  workqueue.TypedRateLimitingInterface[volumeTask]
}

// volumeTask names a claim (namespace/name) or a volume.
type volumeTask struct {
	claim, volume string
}

// startVolumes installs the storage class and has the group serve its claims until the context is done.
func startVolumes(ctx context.Context, group *errgroup.Group, client kubernetes.Interface) error {
	if err := ensureStorageClass(ctx, client); err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	claims := factory.Core().V1().PersistentVolumeClaims().Informer()
	made := factory.Core().V1().PersistentVolumes().Informer()
	v := &volumes{
		client: client, claims: claims.GetIndexer(), made: made.GetIndexer(),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[volumeTask](50*time.Millisecond, time.Minute)),
	}
	err := v.enqueueOnChange(claims, func(key string) volumeTask { return volumeTask{claim: key} })
	if err == nil {
		err = v.enqueueOnChange(made, func(key string) volumeTask { return volumeTask{volume: key} })
	}
	if err != nil {
		return fmt.Errorf("watching volumes: %w", err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	group.Go(func() error {
		defer factory.Shutdown()
		defer context.AfterFunc(ctx, v.queue.ShutDown)()
		v.work(ctx)
		return nil
	})
	return nil
}

func ensureStorageClass(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name:        storageClass,
			Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner:       provisioner,
		ReclaimPolicy:     ptr.To(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingImmediate),
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the storage class: %w", err)
	}
	return nil
}

func (v *volumes) enqueueOnChange(informer cache.SharedIndexInformer, task func(key string) volumeTask) error {
	add := func(object any) {
		if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
			v.queue.Add(task(key))
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    add,
		UpdateFunc: func(_, object any) { add(object) },
	})
	return err
}

func (v *volumes) work(ctx context.Context) {
	for {
		task, shutdown := v.queue.Get()
		if shutdown {
			return
		}
		if err := v.do(ctx, task); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Simulating a volume failed, trying again", "claim", task.claim, "volume", task.volume)
			v.queue.AddRateLimited(task)
		} else {
			v.queue.Forget(task)
		}
		v.queue.Done(task)
	}
}

func (v *volumes) do(ctx context.Context, task volumeTask) error {
	if task.claim != "" {
		object, exists, err := v.claims.GetByKey(task.claim)
		if err != nil || !exists {
			return err
		}
		return v.provision(ctx, object.(*corev1.PersistentVolumeClaim))
	}
	object, exists, err := v.made.GetByKey(task.volume)
	if err != nil || !exists {
		return err
	}
	return v.reclaim(ctx, object.(*corev1.PersistentVolume))
}

// provision makes the volume of a claim that waits for one.
func (v *volumes) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if claim.DeletionTimestamp != nil || claim.Spec.VolumeName != "" || ptr.Deref(claim.Spec.StorageClassName, "") != storageClass {
		return nil
	}
	name := "simulated-" + string(claim.UID)
	_, err := v.client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{annProvisionedBy: provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName:              storageClass,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    claim.Spec.VolumeMode,
			Capacity:                      claim.Spec.Resources.Requests,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/simulated/" + name},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating volume %s: %w", name, err)
	}
	return nil
}

// reclaim removes a volume of ours that its claim has let go of.
func (v *volumes) reclaim(ctx context.Context, volume *corev1.PersistentVolume) error {
	if volume.Status.Phase != corev1.VolumeReleased || volume.DeletionTimestamp != nil ||
		volume.Annotations[annProvisionedBy] != provisioner || volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return nil
	}
	err := v.client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting volume %s: %w", volume.Name, err)
	}
	return nil
}
