package credential

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// Registration describes a cluster that gets an agent.
type Registration struct {
	// Name is the name of the Cluster. ID is the uid of the cluster's namespace kube-system. Both are required.
	Name, ID string
	// Labels, Provider, Region and Zones describe the Cluster to policies.
	Labels           map[string]string
	Provider, Region string
	Zones            []string
}

// Register creates the Cluster, if it does not exist, and obtains the first certificate of its agent. Both clients have the identity of
// a bootstrap token. It can be repeated, with the same token or a new one, after an attempt that failed.
func Register(ctx context.Context, hub client.Client, kube kubernetes.Interface, r Registration) ([]byte, error) {
	cluster := &clusterv1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: r.Name, Labels: r.Labels},
		Spec:       clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Pull, ID: r.ID, Provider: r.Provider, Region: r.Region, Zones: r.Zones},
	}
	err := hub.Create(ctx, cluster)
	if apierrors.IsAlreadyExists(err) {
		err = hub.Get(ctx, client.ObjectKey{Name: r.Name}, cluster)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("creating Cluster %s: %w", r.Name, err)
	case cluster.Spec.ID != "" && cluster.Spec.ID != r.ID:
		return nil, fmt.Errorf("cluster %s is another cluster: its id is %s, and this one has %s", r.Name, cluster.Spec.ID, r.ID)
	case cluster.DeletionTimestamp != nil:
		return nil, fmt.Errorf("cluster %s is just being removed; wait until it is gone", r.Name)
	case cluster.Spec.SyncMode != clusterv1alpha1.Pull:
		return nil, fmt.Errorf("cluster %s is a member in %s mode: set its spec.syncMode to %s, and register its agent then", r.Name, cluster.Spec.SyncMode, clusterv1alpha1.Pull)
	}
	return Request(ctx, kube, r.Name, cluster.UID)
}
