package clusterstatus

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// LeaseDeps is what SetupLeases needs. All fields are required.
type LeaseDeps struct {
	// Serves returns whether this process observes a Cluster itself; the Leases of all others are watched here. It is a method of the Fleet,
	// and a function so that tests need no connections.
	Serves func(*clusterv1alpha1.Cluster) bool
	Events events.Recorder
	Clock  clock.PassiveClock
	// Periods is called at every reconcile: what it returns may change.
	Periods func() LeasePeriods
}

// LeasePeriods are how often Leases are read, and when that changes the conditions of Clusters.
type LeasePeriods struct {
	// Period is how often the Lease of a cluster is reconciled.
	Period time.Duration
	// Grace is how long an agent may give no sign of life before nothing is known of its cluster. StartupGrace is the same
	// for a cluster that has never been reported on.
	Grace, StartupGrace time.Duration
}

// SetupLeases adds the loop that watches over agents. An agent writes the status of its Cluster itself, and shows by a
// Lease of the Cluster's name that it is alive; when that is not renewed, this loop sets the conditions to Unknown. The taints
// that follow from readiness are written here, too.
func SetupLeases(mgr ctrl.Manager, deps LeaseDeps) error {
	m := newLeaseMonitor(mgr.GetClient(), deps)
	watched := predicate.NewPredicateFuncs(func(o client.Object) bool {
		cluster, ok := o.(*clusterv1alpha1.Cluster)
		return ok && !deps.Serves(cluster)
	})
	err := ctrl.NewControllerManagedBy(mgr).Named("leases").For(&clusterv1alpha1.Cluster{}, builder.WithPredicates(watched)).Complete(controlloop.Track(mgr, m))
	if err != nil {
		return fmt.Errorf("building the controller of leases: %w", err)
	}
	return nil
}

// leaseMonitor finds agents that do not renew their Lease.
type leaseMonitor struct {
	LeaseDeps
	hub client.Client // reads from the cache

	mu     sync.Mutex
	pulses map[string]pulse
}

// pulse is what was seen last of an agent. Times are compared with the clock of this process only: an agent's may be wrong.
type pulse struct {
	uid     types.UID
	renewed metav1.MicroTime // from the Lease
	ready   metav1.Condition // from the Cluster
	at      time.Time        // when either changed last
}

func newLeaseMonitor(hub client.Client, deps LeaseDeps) *leaseMonitor {
	return &leaseMonitor{LeaseDeps: deps, hub: hub, pulses: map[string]pulse{}}
}

// Reconcile implements reconcile.Reconciler.
func (m *leaseMonitor) Reconcile(ctx context.Context, q reconcile.Request) (reconcile.Result, error) {
	cluster := &clusterv1alpha1.Cluster{}
	err := m.hub.Get(ctx, q.NamespacedName, cluster, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) || err == nil && m.Serves(cluster) {
		m.forget(q.Name)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the cluster: %w", err)
	}
	silent, err := m.silence(ctx, cluster)
	if err == nil {
		err = m.declare(ctx, cluster, silent)
	}
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: m.Periods().Period}, nil // a conflict means that the agent lives
}

// silence is how long ago this process last observed a renewal of the agent's Lease or a change of its report.
func (m *leaseMonitor) silence(ctx context.Context, cluster *clusterv1alpha1.Cluster) (time.Duration, error) {
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: clusterv1alpha1.ClusterNamespace, Name: cluster.Name}
	if err := m.hub.Get(ctx, key, lease); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("reading the lease: %w", err)
	}
	seen := pulse{uid: cluster.UID, at: m.Clock.Now()}
	if lease.Spec.RenewTime != nil {
		seen.renewed = *lease.Spec.RenewTime
	}
	if ready := readinessOf(cluster); ready != nil {
		seen.ready = *ready
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before, known := m.pulses[cluster.Name]
	quiet := known && before.uid == seen.uid && before.renewed.Equal(&seen.renewed) &&
		(equality.Semantic.DeepEqual(before.ready, seen.ready) || seen.ready.Status == metav1.ConditionUnknown) // that was us
	if quiet {
		seen.at = before.at
	}
	m.pulses[cluster.Name] = seen
	return m.Clock.Since(seen.at), nil
}

func (m *leaseMonitor) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pulses, name)
}

// declare writes the conditions that follow from the Lease of an agent and from its own report.
func (m *leaseMonitor) declare(ctx context.Context, cluster *clusterv1alpha1.Cluster, silent time.Duration) error {
	ready, periods := readinessOf(cluster), m.Periods()
	unknown := metav1.Condition{}
	switch {
	case ready == nil && silent >= periods.StartupGrace:
		unknown = clusterv1alpha1.ReadinessUnknown(clusterv1alpha1.ClusterStatusNeverUpdatedReason,
			fmt.Sprintf("The agent has never reported, for more than %s", periods.StartupGrace))
	case ready != nil && ready.Status != metav1.ConditionUnknown && silent >= periods.Grace:
		unknown = clusterv1alpha1.ReadinessUnknown(clusterv1alpha1.ClusterStatusUnknownReason,
			fmt.Sprintf("The agent has not renewed its lease for more than %s", periods.Grace))
	}
	if unknown.Type != "" {
		want := cluster.DeepCopy()
		meta.SetStatusCondition(&want.Status.Conditions, unknown)
		if _, err := hubclient.PatchStatusLocked(ctx, m.hub, cluster, want); err != nil {
			return err
		}
		log.FromContext(ctx).Info("Nothing is known of a cluster", "cluster", cluster.Name, "reason", unknown.Message)
		cluster, ready = want, readinessOf(want)
	}
	if ready == nil {
		ready = &metav1.Condition{Status: metav1.ConditionFalse, Reason: clusterv1alpha1.ClusterStatusNeverUpdatedReason} // within the grace
	}
	return tainter{m.hub, m.Events}.taint(ctx, cluster, *ready)
}

func readinessOf(cluster *clusterv1alpha1.Cluster) *metav1.Condition {
	return meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
}
