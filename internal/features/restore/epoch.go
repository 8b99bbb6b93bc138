package restore

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
)

// epochs are the two counts.
type epochs struct {
	own, theirs int32
	// counted is whether there is an own one. After a restore there is none.
	counted bool
}

// epochs reads the own count and that in the member. A count about another Cluster of the same name is none. A member that
// does not let its Lease be read has none: it is not protected.
func (g *Guard) epochs(ctx context.Context, conn *member.Conn, cluster types.UID) (epochs, error) {
	var counts epochs
	lease := &coordinationv1.Lease{}
	err := g.Live.Get(ctx, ownKey(conn.Name()), lease)
	if client.IgnoreNotFound(err) != nil {
		return counts, fmt.Errorf("reading the count of cluster %s: %w", conn.Name(), err)
	}
	if err == nil {
		counts.own, counts.counted = epochIn(lease, cluster)
	}
	leases, name, err := leasesOf(conn)
	if err != nil {
		return counts, err
	}
	lease, err = leases.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return counts, nil
	case err != nil:
		return counts, fmt.Errorf("reading the count in cluster %s: %w", conn.Name(), err)
	}
	counts.theirs, _ = epochIn(lease, cluster)
	return counts, nil
}

func ownKey(cluster string) client.ObjectKey {
	return client.ObjectKey{Namespace: clusterv1alpha1.SystemNamespace, Name: clusterv1alpha1.EpochLease(cluster)}
}

func epochIn(lease *coordinationv1.Lease, cluster types.UID) (epoch int32, counted bool) {
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != string(cluster) || lease.Spec.LeaseTransitions == nil {
		return 0, false
	}
	return *lease.Spec.LeaseTransitions, true
}

func leasesOf(conn *member.Conn) (coordinationclient.LeaseInterface, string, error) {
	c, err := kubernetes.NewForConfigAndClient(conn.RESTConfig(), conn.HTTPClient())
	if err != nil {
		return nil, "", fmt.Errorf("building a client for cluster %s: %w", conn.Name(), err)
	}
	return c.CoordinationV1().Leases(clusterv1alpha1.ClusterNamespace), "flagship-" + conn.ControlPlane().ID, nil
}

// writeEpoch writes the count, first here and then in the member: a member is never ahead of the storage that wrote to it.
func (g *Guard) writeEpoch(ctx context.Context, conn *member.Conn, cluster *clusterv1alpha1.Cluster, epoch int32) error {
	spec := ownCount(cluster, epoch, g.Clock.Now())
	if err := g.writeOwn(ctx, cluster, spec); err != nil {
		return err
	}
	return writeThere(ctx, conn, spec)
}

// ownCount is what a Lease has that counts.
func ownCount(cluster *clusterv1alpha1.Cluster, epoch int32, now time.Time) coordinationv1.LeaseSpec {
	return coordinationv1.LeaseSpec{
		HolderIdentity: new(string(cluster.UID)), LeaseTransitions: &epoch, RenewTime: &metav1.MicroTime{Time: now},
	}
}

// writeOwn writes the count here.
func (g *Guard) writeOwn(ctx context.Context, cluster *clusterv1alpha1.Cluster, spec coordinationv1.LeaseSpec) error {
	key := ownKey(cluster.Name)
	own := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{clusterv1alpha1.SystemLabel: clusterv1alpha1.SystemLabelValue},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cluster, clusterv1alpha1.SchemeGroupVersion.WithKind("Cluster"))},
	}, Spec: spec}
	present := &coordinationv1.Lease{}
	err := g.Live.Get(ctx, key, present)
	switch {
	case apierrors.IsNotFound(err):
		err = g.Client.Create(ctx, own)
	case err == nil:
		own.ResourceVersion = present.ResourceVersion
		err = g.Client.Update(ctx, own)
	}
	if err != nil {
		return fmt.Errorf("writing the count of cluster %s: %w", cluster.Name, err)
	}
	return nil
}

func writeThere(ctx context.Context, conn *member.Conn, spec coordinationv1.LeaseSpec) error {
	leases, name, err := leasesOf(conn)
	if err != nil {
		return err
	}
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{clusterv1alpha1.SystemLabel: clusterv1alpha1.SystemLabelValue},
		}, Spec: spec}, metav1.CreateOptions{FieldManager: ownership.FieldManager})
	case err == nil:
		lease.Spec = spec
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{FieldManager: ownership.FieldManager})
	}
	var unavailable *member.UnavailableError
	switch {
	case err == nil, apierrors.IsForbidden(err), apierrors.IsNotFound(err): // not allowed, or no namespace for it: not protected
		return nil
	case errors.As(err, &unavailable):
		return err
	default:
		return fmt.Errorf("writing the count to cluster %s: %w", conn.Name(), err)
	}
}
