package endpointslices

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// DefaultGrace is long enough for a control plane that is restarted and short enough for a cluster that burns.
const DefaultGrace = 5 * time.Minute

// Clusters knows which clusters there are and which are away.
type Clusters struct {
	Reader client.Reader
	Clock  clock.PassiveClock
	// grace is how long the endpoints of a cluster that is not ready count as they were seen last.
	Grace time.Duration
}

// Registered lists the clusters that are to stay, sorted.
func (r Clusters) Registered(ctx context.Context) ([]string, error) {
	var list clusterv1alpha1.ClusterList
	if err := r.Reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing clusters: %w", err)
	}
	var names []string
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			names = append(names, list.Items[i].Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Pulled names those of some clusters to which the control plane has no connection, being in pull mode.
func (r Clusters) Pulled(ctx context.Context, clusters []string) map[string]bool {
	found := map[string]bool{}
	for _, name := range clusters {
		cluster := &clusterv1alpha1.Cluster{}
		if r.Reader.Get(ctx, client.ObjectKey{Name: name}, cluster, client.UnsafeDisableDeepCopy) == nil && cluster.Spec.SyncMode == clusterv1alpha1.Pull {
			found[name] = true
		}
	}
	return found
}

// Expired says whether a cluster has not been ready for longer than the grace, and else, for one that is not ready, how
// much of it is left. A cluster about which nobody has said anything yet is new, not away.
func (r Clusters) Expired(ctx context.Context, name string) (expired bool, left time.Duration) {
	cluster := &clusterv1alpha1.Cluster{}
	if r.Reader.Get(ctx, client.ObjectKey{Name: name}, cluster, client.UnsafeDisableDeepCopy) != nil {
		return false, 0
	}
	ready := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return false, 0
	}
	left = r.Grace - r.Clock.Since(ready.LastTransitionTime.Time)
	return left <= 0, max(left, 0)
}

// Away says about each cluster that has been away for too long what it is, and when the next one will have been.
func (r Clusters) Away(ctx context.Context, clusters []string) (why map[string]string, next time.Duration) {
	why = map[string]string{}
	for _, name := range clusters {
		expired, left := r.Expired(ctx, name)
		if expired {
			why[name] = fmt.Sprintf("cluster %s has not been ready for more than %s", name, r.Grace)
		}
		if left > 0 && (next == 0 || left < next) {
			next = left
		}
	}
	return why, next
}
