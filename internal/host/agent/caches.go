package agent

import (
	"cmp"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/flagship-k8s/flagship/api"
	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

const (
	// stopTimeout bounds an orderly end.
	stopTimeout = 8 * time.Second
	// disabled as an address serves nothing.
	disabled = "0"
)

// newManager builds the cache of what the agent may read, and what its loops run in.
func newManager(o Options, watchFailed toolscache.WatchErrorHandlerWithContext) (ctrl.Manager, error) {
	return controlloop.NewManager(o.Hub, ctrl.Options{
		Cache: cache.Options{
			DefaultTransform:         cache.TransformStripManagedFields(),
			DefaultWatchErrorHandler: watchFailed,
			ByObject: map[client.Object]cache.ByObject{
				&clusterv1alpha1.Cluster{}:       {Field: fields.OneTermEqualSelector("metadata.name", o.Cluster)},
				&fleetv1alpha1.ClusterCapacity{}: {Field: fields.OneTermEqualSelector("metadata.name", o.Cluster)},
				&workv1alpha1.Work{}:             {Namespaces: map[string]cache.Config{workv1alpha1.ExecutionNamespace(o.Cluster): {}}},
			},
		},
		Metrics:                metricsserver.Options{BindAddress: cmp.Or(o.MetricsAddress, disabled)},
		HealthProbeBindAddress: cmp.Or(o.HealthAddress, disabled),
		PprofBindAddress:       cmp.Or(o.ProfilingAddress, disabled),
		// Replicas of an agent elect in the member: the control plane has one Lease for each cluster, that of its heartbeat.
		LeaderElection:          o.LeaderElection,
		LeaderElectionConfig:    o.Member,
		LeaderElectionID:        "flagship-agent-" + o.Cluster,
		LeaderElectionNamespace: clusterv1alpha1.ClusterNamespace,
	}, stopTimeout, corev1.AddToScheme, coordinationv1.AddToScheme, api.AddToScheme)
}
