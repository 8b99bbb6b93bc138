package clusterstatus

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// tainter writes the condition taints of Clusters.
type tainter struct {
	hub    client.Client
	events events.Recorder
}

// taint makes the condition taints follow the Ready condition.
func (o tainter) taint(ctx context.Context, cluster *clusterv1alpha1.Cluster, ready metav1.Condition) error {
	taints := conditionTaints(cluster.Spec.Taints, ready.Status)
	if equality.Semantic.DeepEqual(cluster.Spec.Taints, taints) || cluster.DeletionTimestamp != nil {
		return nil
	}
	before, cluster := cluster, cluster.DeepCopy() // it may be that of the cache
	cluster.Spec.Taints = taints
	reference := events.Reference(clusterv1alpha1.SchemeGroupVersion.WithKind("Cluster"), cluster)
	if _, err := hubclient.PatchLocked(ctx, o.hub, before, cluster); err != nil {
		if !apierrors.IsConflict(err) {
			o.events.Publish(events.Warning(reference, events.TaintClusterFailed, err.Error()))
		}
		return fmt.Errorf("tainting the cluster: %w", err)
	}
	o.events.Publish(events.Normal(reference, events.TaintClusterSucceed, "Ready is "+string(ready.Status)+": condition taints updated"))
	log.FromContext(ctx).Info("Cluster changed readiness", "cluster", cluster.Name, "ready", ready.Status, "reason", ready.Reason)
	return nil
}

// conditionTaints returns taints with those that a Ready condition of the given status calls for, and without those it
// does not. Taints of others stay where they are.
func conditionTaints(taints []corev1.Taint, ready metav1.ConditionStatus) []corev1.Taint {
	want := ""
	switch ready {
	case metav1.ConditionTrue:
	case metav1.ConditionUnknown:
		want = clusterv1alpha1.TaintClusterUnreachable
	default:
		want = clusterv1alpha1.TaintClusterNotReady
	}
	ours := func(t corev1.Taint) bool { return clusterv1alpha1.IsConditionTaint(t.Key, t.Effect) }
	out := slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool { return ours(t) && t.Key != want })
	if want != "" && !slices.ContainsFunc(out, ours) {
		out = append(out, corev1.Taint{Key: want, Effect: corev1.TaintEffectNoSchedule})
	}
	return out
}
