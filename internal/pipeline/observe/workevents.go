package observe

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/workstatus"
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
			w.repeatApply(before, after)
			if changesTheView(before, after) {
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
		UpdateFunc: func(before, after any) { w.clusterChanged(ctx, before, after) },
	})
	if err != nil {
		return fmt.Errorf("watching Clusters: %w", err)
	}
	defer func() { _ = clusters.RemoveEventHandler(clusterHandle) }() // the cache ends with us
	if w.changes != nil {
		w.changes.Subscribe(func(kinds interpret.Kinds) { w.reinterpret(ctx, kinds) })
	}
	var sweeping sync.WaitGroup
	sweeping.Go(func() { w.sweep.run(ctx) })
	defer sweeping.Wait()
	return w.queues.Start(ctx)
}

// reinterpret looks at the Works with objects of kinds that mean something else now.
func (w *Works) reinterpret(ctx context.Context, kinds interpret.Kinds) {
	works := &workv1alpha1.WorkList{}
	if err := w.client.List(ctx, works, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Listing Works")
		return
	}
	for i := range works.Items {
		if works.Items[i].Carries(kinds) {
			w.workChanged(&works.Items[i])
		}
	}
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

// changesTheView tells whether a Work has to be looked at because of a change to itself: other content, or somebody
// declared its member lost, or took away what we said, whom we may be able to contradict.
func changesTheView(before, after any) bool {
	old, ok := before.(*workv1alpha1.Work)
	current, alsoOK := after.(*workv1alpha1.Work)
	if !ok || !alsoOK {
		return true
	}
	return old.Generation != current.Generation || old.UID != current.UID || !saidLost(old) && saidLost(current) ||
		ours(old) > ours(current)
}

// repeatApply puts back what apply said of a Work as it is, if somebody took it away: apply does not look at a Work for
// its status, and without its word nothing is said here.
func (w *Works) repeatApply(before, after any) {
	old, ok := before.(*workv1alpha1.Work)
	current, alsoOK := after.(*workv1alpha1.Work)
	if !ok || !alsoOK || old.UID != current.UID || old.Generation != current.Generation {
		return
	}
	cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(current.Namespace)
	if _, here := w.fleet.Get(cluster); !here {
		return // an agent says what it likes
	}
	var taken []metav1.Condition
	for _, kind := range []string{workv1alpha1.WorkApplied, workv1alpha1.WorkDispatching} {
		if c := meta.FindStatusCondition(old.Status.Conditions, kind); c != nil && meta.FindStatusCondition(current.Status.Conditions, kind) == nil {
			taken = append(taken, *c)
		}
	}
	if len(taken) == 0 {
		return
	}
	w.report.Repeat(client.ObjectKeyFromObject(current), workstatus.Apply, about(current, func(_ *workv1alpha1.Work, status *workv1alpha1.WorkStatus) {
		for _, c := range taken {
			if meta.FindStatusCondition(status.Conditions, c.Type) == nil {
				status.Conditions = append(status.Conditions, c)
			}
		}
	}))
}

// ours counts what a Work says that comes from here: our conditions, and the manifests that have a status. For the same
// manifests it never becomes less by a write of ours.
func ours(work *workv1alpha1.Work) int {
	n := min(len(work.Status.ManifestStatuses), len(work.Spec.Workload.Manifests))
	for _, kind := range []string{workv1alpha1.WorkProgressing, workv1alpha1.WorkAvailable, workv1alpha1.WorkDegraded} {
		if meta.FindStatusCondition(work.Status.Conditions, kind) != nil {
			n++
		}
	}
	return n
}

// clusterChanged looks at all Works of a cluster that was lost or found, or that another process observed until now.
func (w *Works) clusterChanged(ctx context.Context, before, after any) {
	old, ok := before.(*clusterv1alpha1.Cluster)
	current, alsoOK := after.(*clusterv1alpha1.Cluster)
	if !ok || !alsoOK || isLost(old) == isLost(current) && w.fleet.Serves(old) == w.fleet.Serves(current) {
		return
	}
	works := &workv1alpha1.WorkList{}
	if err := w.client.List(ctx, works, client.InNamespace(workv1alpha1.ExecutionNamespace(current.Name)), client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Listing the Works of a cluster", "cluster", current.Name)
		return
	}
	keys := make([]types.NamespacedName, len(works.Items))
	for i := range works.Items {
		keys[i] = client.ObjectKeyFromObject(&works.Items[i])
	}
	w.sweep.add(current.Name, keys...)
}
