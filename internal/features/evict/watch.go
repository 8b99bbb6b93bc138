package evict

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/eviction"
	"github.com/flagship-k8s/flagship/internal/knowledge/fairqueue"
)

type queue = workqueue.TypedRateLimitingInterface[types.NamespacedName]

// clusterChecker has the guard check the fleet, and enqueues the bindings that a change concerns. It runs in a goroutine of its own, since
// a change may concern thousands.
type clusterChecker struct {
	*Reconciler
	loop *controlloop.Loop
	// clusters has one element after a change of some Cluster.
	clusters chan struct{}
	// queue receives the queue of the controller once.
	queue chan queue
}

// clusterEvents notes that some Cluster changed.
func (w *clusterChecker) clusterEvents() handler.TypedFuncs[*clusterv1alpha1.Cluster, types.NamespacedName] {
	changed := func() {
		select {
		case w.clusters <- struct{}{}:
		default:
		}
	}
	return handler.TypedFuncs[*clusterv1alpha1.Cluster, types.NamespacedName]{
		CreateFunc: func(context.Context, event.TypedCreateEvent[*clusterv1alpha1.Cluster], queue) { changed() },
		UpdateFunc: func(context.Context, event.TypedUpdateEvent[*clusterv1alpha1.Cluster], queue) { changed() },
		DeleteFunc: func(context.Context, event.TypedDeleteEvent[*clusterv1alpha1.Cluster], queue) { changed() },
	}
}

// start is a source of the controller.
func (w *clusterChecker) start(_ context.Context, q queue) error {
	w.queue <- q
	return nil
}

// Start runs until ctx ends. The manager waits for it.
func (w *clusterChecker) Start(ctx context.Context) error {
	var q queue
	select {
	case <-ctx.Done():
		return nil
	case q = <-w.queue:
	}
	ticker := w.Clock.NewTicker(period)
	defer ticker.Stop()
	w.guard.tick(w.Clock.Now())
	for failed := false; ; {
		dirty := false
		select {
		case <-ctx.Done():
			return nil
		case <-w.clusters:
			dirty = true
		case <-ticker.C():
			dirty = w.guard.tick(w.Clock.Now()) || failed
		}
		if !dirty {
			continue
		}
		failed = !w.loop.Turn(ctx, "checking the clusters for evictions", func(ctx context.Context) error { return w.check(ctx, q) })
	}
}

// check has the guard decide, enqueues bindings, and reports what is held.
func (w *clusterChecker) check(ctx context.Context, q queue) error {
	var list clusterv1alpha1.ClusterList
	if err := w.Client.List(ctx, &list, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		return fmt.Errorf("listing clusters: %w", err)
	}
	fleet := make([]seen, 0, len(list.Items))
	for i := range list.Items {
		if c := &list.Items[i]; c.DeletionTimestamp == nil {
			fleet = append(fleet, describe(c))
		}
	}
	if changed := w.guard.check(w.Clock.Now(), fleet); len(changed) > 0 {
		bindings, err := hubclient.Bindings(ctx, w.Client)
		if err != nil {
			return fmt.Errorf("finding bindings in clusters that changed: %w", err)
		}
		for _, b := range bindings {
			if names(b, changed) {
				fairqueue.Enqueue(q, handler.LowPriority, client.ObjectKeyFromObject(b))
			}
		}
	}
	held := 0
	for i := range list.Items {
		waits, err := w.reportCluster(ctx, &list.Items[i])
		if err != nil {
			return err
		}
		held += waits
	}
	w.metrics.waiting.Set(float64(held))
	return nil
}

// describe returns what the guard reads of a Cluster.
func describe(c *clusterv1alpha1.Cluster) seen {
	s := seen{
		name: c.Name, zone: c.Spec.Region + "/" + strings.Join(c.Spec.Zones, ","), ready: eviction.Failure(c) == nil, failing: isFailing(c),
		released: clusterv1alpha1.EvictionsReleasedUntil(c),
		held:     meta.IsStatusConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionEvictionHeld),
	}
	var since time.Time
	if ready := meta.FindStatusCondition(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady); ready != nil {
		since = ready.LastTransitionTime.Time
	}
	s.fingerprint = fmt.Sprint(s.ready, since, c.Spec.Taints, c.Annotations[clusterv1alpha1.FencedAnnotation])
	return s
}

// reportCluster keeps the condition EvictionHeld of a Cluster, and returns how many bindings wait.
func (w *clusterChecker) reportCluster(ctx context.Context, cluster *clusterv1alpha1.Cluster) (waits int, err error) {
	h, waits := w.guard.held(cluster.Name)
	before := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionEvictionHeld)
	want := clusterv1alpha1.EvictionNotHeld()
	if h.held && h.reason != "" && waits > 0 {
		want = clusterv1alpha1.EvictionHeld(h.reason, fmt.Sprintf("Objects are to leave the cluster, and stay: %s. The annotation %s releases them",
			h.message, clusterv1alpha1.EvictionsReleasedUntilAnnotation))
	}
	if before == nil && want.Status != "True" || before != nil && before.Status == want.Status && before.Reason == want.Reason {
		return waits, nil
	}
	next := cluster.DeepCopy()
	meta.SetStatusCondition(&next.Status.Conditions, want)
	if _, err := hubclient.PatchStatusLocked(ctx, w.Client, cluster.DeepCopy(), next); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return waits, nil // the next event of the Cluster has it checked again
		}
		return waits, err
	}
	if want.Status == "True" {
		reference := events.Reference(clusterv1alpha1.SchemeGroupVersion.WithKind("Cluster"), cluster)
		w.Events.Publish(events.Warning(reference, events.EvictWorkloadFromClusterFailed, want.Message))
	}
	return waits, nil
}
