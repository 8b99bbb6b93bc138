package endpointslices

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// DefaultGrace is long enough for a restart of the control plane and short enough for a cluster that is lost.
const DefaultGrace = 5 * time.Minute

// Clusters reads which clusters there are and whose endpoints count as ready.
type Clusters struct {
	Reader client.Reader
	Clock  clock.PassiveClock
	// Grace is how long the endpoints of a cluster that is not ready stay as they were last seen. After that they are marked as not
	// ready.
	Grace func() time.Duration
}

// Registered lists the clusters that are not being deleted, sorted by name. They are shared with the cache.
func (c Clusters) Registered(ctx context.Context) ([]*clusterv1alpha1.Cluster, error) {
	var list clusterv1alpha1.ClusterList
	if err := c.Reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing clusters: %w", err)
	}
	var clusters []*clusterv1alpha1.Cluster
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			clusters = append(clusters, &list.Items[i])
		}
	}
	slices.SortFunc(clusters, func(a, b *clusterv1alpha1.Cluster) int { return strings.Compare(a.Name, b.Name) })
	return clusters, nil
}

// Names lists the names of clusters.
func Names(clusters []*clusterv1alpha1.Cluster) []string {
	names := make([]string, len(clusters))
	for i, c := range clusters {
		names[i] = c.Name
	}
	return names
}

// Excess has the clusters that have too much of something, with what their condition says.
func Excess(clusters []*clusterv1alpha1.Cluster) map[string]string {
	excess := map[string]string{}
	for _, c := range clusters {
		if why := excessOf(c); why != "" {
			excess[c.Name] = why
		}
	}
	return excess
}

func excessOf(c *clusterv1alpha1.Cluster) string {
	readable := meta.FindStatusCondition(c.Status.Conditions, clusterv1alpha1.ClusterConditionResourcesReadable)
	if readable == nil || readable.Status != metav1.ConditionFalse || readable.Reason != clusterv1alpha1.ResourcesTooManyReason {
		return ""
	}
	return readable.Message
}

// Expired returns whether one of some clusters has not been ready for longer than the grace, and otherwise, if it is not ready, what
// is left of the grace. A cluster without a condition is new; that it is not ready is not known.
func (c Clusters) Expired(clusters []*clusterv1alpha1.Cluster, name string) (expired bool, left time.Duration) {
	i := slices.IndexFunc(clusters, func(cluster *clusterv1alpha1.Cluster) bool { return cluster.Name == name })
	if i < 0 {
		return false, 0
	}
	ready := meta.FindStatusCondition(clusters[i].Status.Conditions, clusterv1alpha1.ClusterConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return false, 0
	}
	left = c.Grace() - c.Clock.Since(ready.LastTransitionTime.Time)
	return left <= 0, max(left, 0)
}

// CheckOwner returns an error if an endpoint of a cluster has an address that is known to be another's: that of its API server.
func CheckOwner(clusters []*clusterv1alpha1.Cluster, name string, slice *discoveryv1.EndpointSlice) error {
	theirs, own := map[netip.Addr]string{}, netip.Addr{}
	for _, cluster := range clusters {
		location, err := url.Parse(cluster.Spec.APIEndpoint)
		if err != nil {
			continue
		}
		switch address, err := netip.ParseAddr(location.Hostname()); {
		case err != nil: // a name, or none
		case cluster.Name == name:
			own = address.Unmap()
		default:
			theirs[address.Unmap()] = cluster.Name
		}
	}
	delete(theirs, own) // Several may be reached at one address, such as that of a proxy.
	for i := range slice.Endpoints {
		for _, text := range slice.Endpoints[i].Addresses {
			if address, err := netip.ParseAddr(text); err == nil && theirs[address] != "" {
				return fmt.Errorf("EndpointSlice %s/%s of cluster %s has the address of the API server of cluster %s", slice.Namespace, slice.Name, name, theirs[address])
			}
		}
	}
	return nil
}
