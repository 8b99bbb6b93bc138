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
	// other is whether the count in the member was written by another control plane with a copy of this storage, though it is no higher.
	other bool
}

// ahead returns whether the member was written to by a later state of the control plane than this one.
func (e epochs) ahead() bool { return e.theirs > e.own || e.other }

// epochs reads the own count and that in the member, and returns what the member has. A count about another Cluster of the same name is
// none. A member that does not let its Lease be read has none: it is not protected. The own one is read last, since it is written first: it
// is never behind what a process with the same storage wrote to the member.
func (g *Guard) epochs(ctx context.Context, conn *member.Conn, cluster types.UID) (epochs, coordinationv1.LeaseSpec, error) {
	var counts epochs
	there, err := readThere(ctx, conn)
	if err != nil {
		return counts, there, err
	}
	var known bool
	counts.theirs, known = epochIn(there, cluster)
	lease := &coordinationv1.Lease{}
	err = g.Live.Get(ctx, ownKey(conn.Name()), lease)
	if client.IgnoreNotFound(err) != nil {
		return counts, there, fmt.Errorf("reading the count of cluster %s: %w", conn.Name(), err)
	}
	if err == nil {
		counts.own, counts.counted = epochIn(lease.Spec, cluster)
	}
	counts.other = known && counts.counted && counts.theirs == counts.own && !there.RenewTime.Equal(lease.Spec.RenewTime)
	return counts, there, nil
}

// readThere reads the count in a member. It is empty if there is none, or if it may not be read.
func readThere(ctx context.Context, conn *member.Conn) (coordinationv1.LeaseSpec, error) {
	leases, name, err := leasesOf(conn)
	if err != nil {
		return coordinationv1.LeaseSpec{}, err
	}
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return coordinationv1.LeaseSpec{}, nil
	case err != nil:
		return coordinationv1.LeaseSpec{}, fmt.Errorf("reading the count in cluster %s: %w", conn.Name(), err)
	}
	return lease.Spec, nil
}

func ownKey(cluster string) client.ObjectKey {
	return client.ObjectKey{Namespace: clusterv1alpha1.SystemNamespace, Name: clusterv1alpha1.EpochLease(cluster)}
}

func epochIn(lease coordinationv1.LeaseSpec, cluster types.UID) (epoch int32, counted bool) {
	if lease.HolderIdentity == nil || *lease.HolderIdentity != string(cluster) || lease.LeaseTransitions == nil {
		return 0, false
	}
	return *lease.LeaseTransitions, true
}

func leasesOf(conn *member.Conn) (coordinationclient.LeaseInterface, string, error) {
	c, err := kubernetes.NewForConfigAndClient(conn.RESTConfig(), conn.HTTPClient())
	if err != nil {
		return nil, "", fmt.Errorf("building a client for cluster %s: %w", conn.Name(), err)
	}
	return c.CoordinationV1().Leases(clusterv1alpha1.ClusterNamespace), "flagship-" + conn.ControlPlane().ID, nil
}

// writeEpoch writes the count, first here and then in the member: a member is never ahead of the storage that wrote to it. It returns what the
// member has then.
func (g *Guard) writeEpoch(ctx context.Context, conn *member.Conn, cluster *clusterv1alpha1.Cluster, epoch int32) (coordinationv1.LeaseSpec, error) {
	spec := ownCount(cluster, epoch, g.Clock.Now())
	if err := g.writeOwn(ctx, cluster, spec); err != nil {
		return coordinationv1.LeaseSpec{}, err
	}
	return writeThere(ctx, conn, cluster.UID, spec)
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
		if epoch, counted := epochIn(present.Spec, cluster.UID); counted && epoch >= *spec.LeaseTransitions {
			return errOvertaken
		}
		own.ResourceVersion = present.ResourceVersion
		err = g.Client.Update(ctx, own)
	}
	if err != nil {
		return fmt.Errorf("writing the count of cluster %s: %w", cluster.Name, err)
	}
	return nil
}

// errOvertaken means that the count was raised in the meantime, by another control plane with a copy of this storage or by another server with
// this one. The next attempt compares the counts anew.
var errOvertaken = errors.New("the count of writes to the cluster was raised by another control plane with the same id, or another server")

// writeThere returns what the member has then: nothing if it may not have a count.
func writeThere(ctx context.Context, conn *member.Conn, cluster types.UID, spec coordinationv1.LeaseSpec) (coordinationv1.LeaseSpec, error) {
	leases, name, err := leasesOf(conn)
	if err != nil {
		return coordinationv1.LeaseSpec{}, err
	}
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		lease, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{clusterv1alpha1.SystemLabel: clusterv1alpha1.SystemLabelValue},
		}, Spec: spec}, metav1.CreateOptions{FieldManager: ownership.FieldManager})
	case err == nil:
		if theirs, _ := epochIn(lease.Spec, cluster); theirs >= *spec.LeaseTransitions {
			return coordinationv1.LeaseSpec{}, errOvertaken
		}
		lease.Spec = spec
		lease, err = leases.Update(ctx, lease, metav1.UpdateOptions{FieldManager: ownership.FieldManager})
	}
	var unavailable *member.UnavailableError
	switch {
	case err == nil:
		return lease.Spec, nil
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err): // not allowed, or no namespace for it: not protected
		return coordinationv1.LeaseSpec{}, nil
	case errors.As(err, &unavailable):
		return coordinationv1.LeaseSpec{}, err
	default:
		return coordinationv1.LeaseSpec{}, fmt.Errorf("writing the count to cluster %s: %w", conn.Name(), err)
	}
}
