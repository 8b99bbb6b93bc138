package observe

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

// Start implements manager.Runnable: it follows Works and Clusters until ctx ends.
func (w *Works) Start(ctx context.Context) error {
	works, err := w.cache.GetInformer(ctx, &workv1alpha1.Work{})
	if err != nil {
		return fmt.Errorf("watching Works: %w", err)
	}
	workHandle, err := works.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: w.workChanged,
		UpdateFunc: func(before, after any) {
			if needsReconcile(before, after) {
				w.workChanged(after)
			}
		},
		DeleteFunc: w.workChanged,
	})
	if err != nil {
		return fmt.Errorf("watching Works: %w", err)
	}
	defer func() { _ = works.RemoveEventHandler(workHandle) }() // the cache ends with us
	clusters, err := w.cache.GetInformer(ctx, &clusterv1alpha1.Cluster{})
	if err != nil {
		return fmt.Errorf("watching Clusters: %w", err)
	}
	clusterHandle, err := clusters.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		UpdateFunc: w.clusterChanged,
	})
	if err != nil {
		return fmt.Errorf("watching Clusters: %w", err)
	}
	defer func() { _ = clusters.RemoveEventHandler(clusterHandle) }() // the cache ends with us
	if w.changes != nil {
		w.changes.Subscribe(func(kinds interpret.Kinds) {
			w.changedKinds.Add(kinds)
			w.queues.Add(noCluster, types.NamespacedName{})
		})
	}
	var running sync.WaitGroup
	running.Go(func() { w.revisits.run(ctx) })
	defer running.Wait()
	return w.queues.Start(ctx)
}

// noCluster is the queue of what concerns all clusters.
const noCluster = ""

// enqueueChangedKinds queues the Works with objects of kinds whose interpretation changed.
func (w *Works) enqueueChangedKinds(ctx context.Context) error {
	return w.changedKinds.Handle(func(kinds interpret.Kinds) error {
		works := &workv1alpha1.WorkList{}
		if err := w.client.List(ctx, works, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("listing Works: %w", err)
		}
		for i := range works.Items {
			if works.Items[i].Carries(kinds) {
				w.workChanged(&works.Items[i])
			}
		}
		return nil
	})
}

// everyWork is the key of all Works of a cluster.
func everyWork(cluster string) types.NamespacedName {
	return types.NamespacedName{Namespace: workv1alpha1.ExecutionNamespace(cluster)}
}

// revisitAll has all Works of a cluster revisited.
func (w *Works) revisitAll(ctx context.Context, cluster string) error {
	works := &workv1alpha1.WorkList{}
	if err := w.client.List(ctx, works, client.InNamespace(workv1alpha1.ExecutionNamespace(cluster)), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the Works of cluster %s: %w", cluster, err)
	}
	for i := range works.Items {
		w.revisits.add(cluster, client.ObjectKeyFromObject(&works.Items[i]))
	}
	return nil
}

func (w *Works) workChanged(obj any) {
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	work, ok := obj.(*workv1alpha1.Work)
	if !ok {
		return
	}
	if cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace); ok {
		w.queues.Add(cluster, client.ObjectKeyFromObject(work))
	}
}

// needsReconcile returns whether a Work has another content.
func needsReconcile(before, after any) bool {
	old, ok := before.(*workv1alpha1.Work)
	current, alsoOK := after.(*workv1alpha1.Work)
	return !ok || !alsoOK || old.Generation != current.Generation || old.UID != current.UID
}

// statusChanged reconciles a Work whose status others changed, so that it is reported again.
func (w *Works) statusChanged(work types.NamespacedName) {
	cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace)
	if _, connected := w.fleet.Get(cluster); connected {
		w.queues.Add(cluster, work)
	}
}

// clusterChanged has all Works of a cluster revisited that was lost or found, or that another process observed until now.
func (w *Works) clusterChanged(before, after any) {
	old, ok := before.(*clusterv1alpha1.Cluster)
	current, alsoOK := after.(*clusterv1alpha1.Cluster)
	if ok && alsoOK && (isLost(old) != isLost(current) || w.fleet.Serves(old) != w.fleet.Serves(current)) {
		w.queues.Add(current.Name, everyWork(current.Name))
	}
}
