package observe

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/workstatus"
)

// isLost returns whether the member has been out of reach for longer than the failure threshold, which the controller that reports
// the Cluster applies.
func isLost(cluster *clusterv1alpha1.Cluster) bool {
	ready := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
	return ready != nil && (ready.Status == metav1.ConditionUnknown || ready.Reason == clusterv1alpha1.ClusterNotReachableReason)
}

// revisit handles one Work of a cluster that was lost or found. While the cluster is lost, it reports that the state of the objects is unknown.
// Of a Work that another process observes, it restores what was reported before: that process reports only what has changed since. All
// others are reconciled.
func (w *Works) revisit(ctx context.Context, name string, key types.NamespacedName) error {
	cluster, work := &clusterv1alpha1.Cluster{}, &workv1alpha1.Work{}
	if err := w.client.Get(ctx, types.NamespacedName{Name: name}, cluster, client.UnsafeDisableDeepCopy); err != nil {
		return client.IgnoreNotFound(err)
	}
	if err := w.client.Get(ctx, key, work); err != nil {
		return client.IgnoreNotFound(err)
	}
	switch {
	case work.DeletionTimestamp != nil:
	case isLost(cluster):
		w.report.Update(work, workstatus.Observe, unreachable(work.Generation, name))
	case w.restores(cluster, work):
		w.report.Update(work, workstatus.Observe, reachableAgain)
	case w.fleet.Serves(cluster):
		w.queues.Add(name, key)
	}
	return nil
}

// restores returns whether what was reported last of a Work is valid again: another process observes it, and reaches the member.
func (w *Works) restores(cluster *clusterv1alpha1.Cluster, work *workv1alpha1.Work) bool {
	return !isLost(cluster) && !w.fleet.Serves(cluster) && lossIn(work.Status.Conditions) != nil
}

// lossIn is the condition that reports that the member cannot be seen, nil if none does.
func lossIn(conditions []metav1.Condition) *metav1.Condition {
	c := meta.FindStatusCondition(conditions, workv1alpha1.WorkAvailable)
	if c == nil || c.Reason != workv1alpha1.ClusterUnreachableReason {
		return nil
	}
	return c
}

// isUnreachable returns whether a Work reports already that its member cannot be seen.
func isUnreachable(work *workv1alpha1.Work) bool {
	loss := lossIn(work.Status.Conditions)
	return loss != nil && loss.ObservedGeneration == work.Generation && !slices.ContainsFunc(work.Status.ManifestStatuses, isKnown)
}

func isKnown(s workv1alpha1.ManifestStatus) bool {
	return s.Health == workv1alpha1.ResourceHealthy || s.Health == workv1alpha1.ResourceUnhealthy
}

// unreachable is the workstatus.Mutation about a Work whose member cannot be seen: what it had is kept, and its health is unknown.
func unreachable(generation int64, cluster string) workstatus.Mutation {
	return func(_ *workv1alpha1.Work, status *workv1alpha1.WorkStatus) {
		status.ManifestStatuses = slices.Clone(status.ManifestStatuses)
		for i := range status.ManifestStatuses {
			if m := &status.ManifestStatuses[i]; isKnown(*m) {
				m.Health, m.LastHealth = workv1alpha1.ResourceUnknown, m.Health
			} else {
				m.Health = workv1alpha1.ResourceUnknown
			}
		}
		message := fmt.Sprintf("Cluster %s cannot be reached; what is reported is what was seen last", cluster)
		meta.SetStatusCondition(&status.Conditions, workv1alpha1.AvailabilityUnknown(generation, message))
	}
}

// reachableAgain is the workstatus.Mutation about a Work whose member is observed by another process that is in touch again: it
// undoes unreachable. That process does not withdraw what it observed, and may not report it again.
func reachableAgain(_ *workv1alpha1.Work, status *workv1alpha1.WorkStatus) {
	if lossIn(status.Conditions) == nil {
		return // it has reported already
	}
	status.ManifestStatuses = slices.Clone(status.ManifestStatuses)
	for i := range status.ManifestStatuses {
		m := &status.ManifestStatuses[i]
		if m.LastHealth != "" && !isKnown(*m) {
			m.Health = m.LastHealth
		}
		m.LastHealth = ""
	}
	// Whether the objects still exist is reported by the process that observes them.
	meta.RemoveStatusCondition(&status.Conditions, workv1alpha1.WorkAvailable)
}
