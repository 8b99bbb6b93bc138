package taintpolicies

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// Deps is what Setup needs. All fields are required.
type Deps struct {
	// Client is that of package hubclient.
	Client client.Client
	Events events.Recorder
	Clock  clock.PassiveClock
}

// Setup adds the loop. It reconciles one Cluster at a time.
func Setup(mgr ctrl.Manager, deps Deps) error {
	if deps.Client == nil || deps.Events == nil || deps.Clock == nil {
		return errors.New("taintpolicies needs all of Deps")
	}
	return hubclient.ReconcileClusters(mgr, "taint-policies", deps.Client, &policyv1alpha1.ClusterTaintPolicy{}, &tainter{deps})
}

// tainter makes the taints of one Cluster what the policies require.
type tainter struct{ Deps }

// Reconcile implements reconcile.Reconciler.
func (t *tainter) Reconcile(ctx context.Context, q reconcile.Request) (reconcile.Result, error) {
	cluster := &clusterv1alpha1.Cluster{}
	if err := t.Client.Get(ctx, q.NamespacedName, cluster); err != nil || cluster.DeletionTimestamp != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var policies policyv1alpha1.ClusterTaintPolicyList
	if err := t.Client.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing ClusterTaintPolicies: %w", err)
	}
	taints, unreadable := desired(cluster, policies.Items, metav1.NewTime(t.Clock.Now()))
	if unreadable != nil {
		unreadable = reconcile.TerminalError(unreadable) // until the policy changes
	}
	if equality.Semantic.DeepEqual(taints, cluster.Spec.Taints) {
		return reconcile.Result{}, unreadable
	}
	reference := events.Reference(clusterv1alpha1.SchemeGroupVersion.WithKind("Cluster"), cluster)
	before := cluster.DeepCopy()
	cluster.Spec.Taints = taints
	_, err := hubclient.PatchLocked(ctx, t.Client, before, cluster)
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: backoff.Conflict}, nil
	case err != nil:
		t.Events.Publish(events.Warning(reference, events.TaintClusterFailed, err.Error()))
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	t.Events.Publish(events.Normal(reference, events.TaintClusterSucceed, "ClusterTaintPolicies made the taints "+describe(cluster.Spec.Taints)))
	return reconcile.Result{}, unreadable
}

func describe(taints []corev1.Taint) string {
	texts := make([]string, len(taints))
	for i := range taints {
		texts[i] = taints[i].ToString()
	}
	return "[" + strings.Join(texts, ", ") + "]"
}
