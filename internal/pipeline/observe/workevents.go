package observe

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

// Start implements manager.Runnable: it follows Works and Clusters until ctx ends.
func (w *Works) Start(ctx context.Context) error {
	_, stopWorks, err := hubclient.Follow(ctx, w.cache, func(before, after *workv1alpha1.Work, _ bool) {
		if before == nil || after == nil || before.Generation != after.Generation || before.UID != after.UID {
			w.workChanged(cmp.Or(after, before))
		}
	})
	if err != nil {
		return err
	}
	defer stopWorks()
	_, stopClusters, err := hubclient.Follow(ctx, w.cache, w.clusterChanged)
	if err != nil {
		return err
	}
	defer stopClusters()
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
		works, err := hubclient.ListWorks(ctx, w.client)
		for _, work := range works {
			if work.Carries(kinds) {
				w.workChanged(work)
			}
		}
		return err
	})
}

// everyWork is the key of all Works of a cluster.
func everyWork(cluster string) types.NamespacedName {
	return types.NamespacedName{Namespace: workv1alpha1.ExecutionNamespace(cluster)}
}

// revisitAll has all Works of a cluster revisited.
func (w *Works) revisitAll(ctx context.Context, cluster string) error {
	works, err := hubclient.ListWorks(ctx, w.client, client.InNamespace(workv1alpha1.ExecutionNamespace(cluster)))
	// In the same order for every cluster, so that of many clusters that are lost at once the Works of a binding come one after the other:
	// its status is written a few times then, and not once for each cluster.
	slices.SortFunc(works, func(a, b *workv1alpha1.Work) int { return strings.Compare(a.Name, b.Name) })
	for _, work := range works {
		w.revisits.add(cluster, client.ObjectKeyFromObject(work))
	}
	return err
}

func (w *Works) workChanged(work *workv1alpha1.Work) {
	if cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace); ok {
		w.queues.AddFor(cluster, workv1alpha2.TenantOf(work), client.ObjectKeyFromObject(work))
	}
}

// statusChanged reconciles a Work whose status others changed, so that it is reported again.
func (w *Works) statusChanged(work types.NamespacedName) {
	cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace)
	if _, connected := w.fleet.Get(cluster); connected {
		w.queues.Add(cluster, work)
	}
}

// clusterChanged has all Works of a cluster revisited that was lost or found, or that another process observed until now.
func (w *Works) clusterChanged(before, after *clusterv1alpha1.Cluster, _ bool) {
	if before != nil && after != nil && (isLost(before) != isLost(after) || w.fleet.Serves(before) != w.fleet.Serves(after)) {
		w.queues.Add(after.Name, everyWork(after.Name))
	}
}
