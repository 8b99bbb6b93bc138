package agent

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/flagship-k8s/flagship/api"
	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

const (
	// stopTimeout bounds an orderly end.
	stopTimeout = 8 * time.Second
	// disabled as an address serves nothing.
	disabled = "0"
)

// newManager builds the cache of what the agent may read, and what its loops run in.
func newManager(o Options) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordinationv1.AddToScheme, api.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	unique, stop := true, stopTimeout
	mgr, err := ctrl.NewManager(o.Hub, ctrl.Options{
		Scheme: scheme,
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&clusterv1alpha1.Cluster{}: {Field: fields.OneTermEqualSelector("metadata.name", o.Cluster)},
				&workv1alpha1.Work{}:       {Namespaces: map[string]cache.Config{workv1alpha1.ExecutionNamespace(o.Cluster): {}}},
			},
		},
		Metrics:                metricsserver.Options{BindAddress: orDisabled(o.MetricsAddress)},
		HealthProbeBindAddress: orDisabled(o.HealthAddress),
		// Replicas of an agent elect in the member: the control plane has one Lease for each cluster, that of its heartbeat.
		LeaderElection:                o.LeaderElection,
		LeaderElectionConfig:          o.Member,
		LeaderElectionID:              "flagship-agent-" + o.Cluster,
		LeaderElectionNamespace:       clusterv1alpha1.ClusterNamespace,
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       &stop,
		// Several agents may live in one process; upstream's list of controller names is process-wide.
		Controller: config.Controller{SkipNameValidation: &unique},
	})
	if err != nil {
		return nil, fmt.Errorf("building the manager: %w", err)
	}
	return mgr, nil
}

func orDisabled(address string) string {
	if address == "" {
		return disabled
	}
	return address
}

// ownCluster reads the Cluster of the agent. The agent ends at once for a reason that another try cannot cure.
func ownCluster(ctx context.Context, hub client.Reader, name string) (*clusterv1alpha1.Cluster, error) {
	cluster := &clusterv1alpha1.Cluster{}
	err := hub.Get(ctx, client.ObjectKey{Name: name}, cluster)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, fmt.Errorf("the control plane does not accept this agent for cluster %s: %w\n"+
			"register it again: flagship token create %[1]s on the control plane, then flagship register", name, err)
	case err != nil:
		return nil, fmt.Errorf("reading Cluster %s: %w", name, err)
	case cluster.Spec.SyncMode != clusterv1alpha1.Pull:
		return nil, fmt.Errorf("cluster %s is in %s mode: the control plane serves it itself", name, cluster.Spec.SyncMode)
	}
	return cluster, nil
}
