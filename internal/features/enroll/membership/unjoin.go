package membership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

const (
	// DefaultUnjoinWait is how long Unjoin waits for everything to be gone.
	DefaultUnjoinWait = time.Minute
	unjoinPause       = 200 * time.Millisecond
)

// UnjoinOptions say who leaves, and how.
type UnjoinOptions struct {
	// Name is the name of the Cluster. Required.
	Name string
	// SyncMode is the mode that the Cluster must have; empty means any.
	SyncMode clusterv1alpha1.ClusterSyncMode
	// Wait is how long to wait until the Cluster, its Works and their objects are gone. Default DefaultUnjoinWait.
	Wait time.Duration
	// Force lets go, after Wait, of a cluster that cannot be cleaned up: what is in it stays.
	Force bool
	// Objects describes what happens to the objects in the cluster. The zero value is refused while there are any: what was
	// deleted does not come back, and what was kept by mistake has to be found and deleted by hand.
	Objects ObjectsChoice
}

// ObjectsChoice describes what happens to the objects in a cluster that is removed.
type ObjectsChoice string

// The choices.
const (
	KeepObjects   ObjectsChoice = "Keep"
	DeleteObjects ObjectsChoice = "Delete"
)

// Unjoin takes a cluster out. The hub releases or deletes in the member everything that was propagated to it, and then
// removes its own accounts. The second configuration may be nil; with one that has an administrator's rights the accounts are removed
// even if the hub cannot reach the member.
func Unjoin(ctx context.Context, hub, member *rest.Config, o UnjoinOptions) error {
	u, err := newUnjoiner(hub, o)
	if err != nil {
		return err
	}
	if member != nil {
		if u.Member, err = kubernetes.NewForConfig(WithTimeout(Direct(member))); err != nil {
			return fmt.Errorf("building a client for the member: %w", err)
		}
	}
	return u.Unjoin(ctx)
}

// UnjoinContents lists the objects in a cluster, and what Unjoin with these options would do to them. It changes nothing.
// With the zero value of Objects it returns what deleting the Cluster would do.
func UnjoinContents(ctx context.Context, hub *rest.Config, o UnjoinOptions) ([]Contents, error) {
	u, err := newUnjoiner(hub, o)
	if err != nil {
		return nil, err
	}
	cluster, err := u.cluster(ctx)
	if err != nil {
		return nil, err
	}
	if o.Objects != "" {
		order(cluster, o.Objects)
	}
	return ContentsOf(ctx, u.Hub, cluster)
}

func newUnjoiner(hub *rest.Config, o UnjoinOptions) (*Unjoiner, error) {
	hubClient, err := newHubClient(hub)
	if err != nil {
		return nil, err
	}
	if err := workv1alpha1.AddToScheme(hubClient.Scheme()); err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	return &Unjoiner{Hub: hubClient, Options: o}, nil
}

// Unjoiner is one run of Unjoin.
type Unjoiner struct {
	Hub     client.Client
	Member  kubernetes.Interface // May be nil.
	Options UnjoinOptions
}

func (u *Unjoiner) cluster(ctx context.Context) (*clusterv1alpha1.Cluster, error) {
	cluster := &clusterv1alpha1.Cluster{}
	err := u.Hub.Get(ctx, client.ObjectKey{Name: u.Options.Name}, cluster)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no cluster %q", u.Options.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading cluster %q: %w", u.Options.Name, err)
	}
	if mode := u.Options.SyncMode; mode != "" && cluster.Spec.SyncMode != mode {
		return nil, fmt.Errorf("cluster %q is in %s mode, and has no agent: use unjoin", u.Options.Name, cluster.Spec.SyncMode)
	}
	return cluster, nil
}

func (u *Unjoiner) Unjoin(ctx context.Context) error {
	cluster, err := u.cluster(ctx)
	if err != nil {
		return err
	}
	if err := u.checkMember(ctx, cluster); err != nil {
		return err
	}
	if err := u.choose(ctx, cluster); err != nil {
		return err
	}
	if err := u.Hub.Delete(ctx, cluster); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting cluster %q: %w", u.Options.Name, err)
	}
	if err := u.awaitEnd(ctx, cluster.UID); err != nil {
		return err
	}
	if u.Member == nil {
		return nil
	}
	id, err := memberaccount.ControlPlaneID(ctx, u.Hub)
	if err != nil {
		return err
	}
	return memberaccount.Leave(ctx, u.Options.Name, id, u.Member)
}

// choose writes to the Cluster what happens to the objects, or refuses if that was not said and there are any.
func (u *Unjoiner) choose(ctx context.Context, cluster *clusterv1alpha1.Cluster) error {
	if u.Options.Objects == "" {
		contents, err := ContentsOf(ctx, u.Hub, cluster)
		if err != nil || len(contents) == 0 || cluster.DeletionTimestamp != nil {
			return err
		}
		kept, deleted := Count(contents)
		return fmt.Errorf("cluster %q holds %d objects of this control plane: add --keep-objects or --delete-objects (--dry-run lists them)",
			cluster.Name, kept+deleted)
	}
	before := cluster.DeepCopy()
	if !order(cluster, u.Options.Objects) {
		return nil
	}
	if _, err := hubclient.Patch(ctx, u.Hub, before, cluster, client.FieldOwner(memberaccount.FieldManager)); err != nil {
		return fmt.Errorf("writing to cluster %q what happens to its objects: %w", cluster.Name, err)
	}
	return nil
}

// order sets or removes the annotation that orders the deletion of a cluster's objects, and returns whether that was a change.
func order(cluster *clusterv1alpha1.Cluster, choice ObjectsChoice) bool {
	if clusterv1alpha1.DeletesObjects(cluster) == (choice == DeleteObjects) {
		return false
	}
	if choice != DeleteObjects {
		delete(cluster.Annotations, clusterv1alpha1.OnRemovalAnnotation)
		return true
	}
	if cluster.Annotations == nil {
		cluster.Annotations = map[string]string{}
	}
	cluster.Annotations[clusterv1alpha1.OnRemovalAnnotation] = clusterv1alpha1.OnRemovalDeleteObjects
	return true
}

// checkMember keeps a wrong kubeconfig from cleaning up the wrong cluster.
func (u *Unjoiner) checkMember(ctx context.Context, cluster *clusterv1alpha1.Cluster) error {
	if u.Member == nil || cluster.Spec.ID == "" {
		return nil
	}
	id, err := memberaccount.Identity(ctx, u.Member)
	if err != nil {
		return err
	}
	if id != cluster.Spec.ID {
		return fmt.Errorf("the kubeconfig leads to another cluster: its id is %s, that of %q is %s", id, cluster.Name, cluster.Spec.ID)
	}
	return nil
}

// awaitEnd returns when the Cluster is gone. With Force it removes the finalizers itself once the time is over.
func (u *Unjoiner) awaitEnd(ctx context.Context, uid types.UID) error {
	patience := u.Options.Wait
	if patience == 0 {
		patience = DefaultUnjoinWait
	}
	err := u.poll(ctx, uid, patience)
	if !wait.Interrupted(err) || ctx.Err() != nil {
		return err
	}
	if !u.Options.Force {
		return fmt.Errorf("cluster %q is not gone after %s: %s; --force lets go of it", u.Options.Name, patience, u.obstacle(ctx))
	}
	if err := u.letGo(ctx); err != nil {
		return err
	}
	return u.poll(ctx, uid, patience)
}

func (u *Unjoiner) poll(ctx context.Context, uid types.UID, patience time.Duration) error {
	return wait.PollUntilContextTimeout(ctx, unjoinPause, patience, true, func(ctx context.Context) (bool, error) {
		cluster := &clusterv1alpha1.Cluster{}
		err := u.Hub.Get(ctx, client.ObjectKey{Name: u.Options.Name}, cluster)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return err == nil && cluster.UID != uid, client.IgnoreNotFound(err)
	})
}

// obstacle returns what the deletion waits for, if it is known.
func (u *Unjoiner) obstacle(ctx context.Context) string {
	works, err := hubclient.ListWorks(ctx, u.Hub, client.InNamespace(workv1alpha1.ExecutionNamespace(u.Options.Name)))
	if err != nil || len(works) == 0 {
		return "the control plane may not be running"
	}
	return fmt.Sprintf("%d Works still have objects in the cluster", len(works))
}

// letGo strips the finalizers that wait for the member.
func (u *Unjoiner) letGo(ctx context.Context) error {
	namespace := workv1alpha1.ExecutionNamespace(u.Options.Name)
	if err := ReleaseWorks(ctx, u.Hub, namespace, nil); err != nil {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := client.IgnoreNotFound(u.Hub.Delete(ctx, ns)); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting the namespace %s: %w", namespace, err)
	}
	cluster := &clusterv1alpha1.Cluster{}
	err := u.Hub.Get(ctx, client.ObjectKey{Name: u.Options.Name}, cluster)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	return hubclient.RemoveFinalizer(ctx, u.Hub, cluster, clusterv1alpha1.ClusterFinalizer, client.FieldOwner(memberaccount.FieldManager))
}

// ReleaseWorks removes the finalizer of the control plane from Works of a namespace that is being deleted: from those that due selects, or
// from all if it is nil.
func ReleaseWorks(ctx context.Context, c client.Client, namespace string, due func(*workv1alpha1.Work) bool) error {
	works, err := hubclient.ListWorks(ctx, c, client.InNamespace(namespace))
	failures := []error{err}
	for _, work := range works {
		if due != nil && !due(work) {
			continue
		}
		failures = append(failures, hubclient.RemoveFinalizer(ctx, c, work, workv1alpha1.ExecutionFinalizer, client.FieldOwner(memberaccount.FieldManager)))
	}
	return errors.Join(failures...)
}
