package enroll

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	crevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"
	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

const (
	// concurrency is how many Clusters are worked on at once: a member that hangs takes one place until its deadline.
	concurrency = 16
	// renewTimeout bounds what renewal or leaving may take of a worker's time.
	renewTimeout = 20 * time.Second
	// releasePause is between two reads of the Works of a Cluster that leaves and cannot be reached.
	releasePause = 2 * time.Second
	// karmadaRelease is how long Karmada's agent has to remove its finalizer from a Work whose objects stay. It fails for ever where
	// such an object is not its own, or has lost its labels in an attempt before.
	karmadaRelease = 30 * time.Second
)

// Deps is what the loop needs of its neighbours.
type Deps struct {
	// Member returns a client for a member, or an error if there is no connection. Required; see FromFleet. Member, Renewal and Refresh are
	// functions so that tests need no connections.
	Member func(cluster string) (kubernetes.Interface, error)
	// Renewal returns a client for a member that requests tokens with the renewal token. Required; see RenewalFromFleet.
	Renewal func(cluster string) (kubernetes.Interface, error)
	// ControlPlane is the id of the control plane: the uid of its namespace kube-system.
	ControlPlane string
	// Refresh is called when the credentials of a cluster changed. Required.
	Refresh func(cluster string)
	// Events publishes the events of Clusters. Required.
	Events events.Recorder
	// Clock decides when a token is due. Required.
	Clock clock.PassiveClock
	// ClockAhead returns how far the clock of a member, which issues its tokens, is ahead; see ClocksOfFleet. Nil: the clocks agree.
	ClockAhead func(cluster string) time.Duration
	// TokenLifetime is the lifetime that is requested for tokens. Default DefaultTokenLifetime.
	TokenLifetime time.Duration
	// NoRenewalTokens keeps no renewal tokens, and revokes those that there are.
	NoRenewalTokens bool
	// Metrics takes when tokens expire, and how renewals end. Nil: none are kept.
	Metrics prometheus.Registerer
}

// FromFleet makes Deps.Member of the connections of a fleet.
func FromFleet(fleet *member.Fleet) func(cluster string) (kubernetes.Interface, error) {
	return clientsOf(fleet, (*member.Conn).HTTPClient)
}

// RenewalFromFleet makes Deps.Renewal of the connections of a fleet.
func RenewalFromFleet(fleet *member.Fleet) func(cluster string) (kubernetes.Interface, error) {
	return clientsOf(fleet, (*member.Conn).RenewalHTTPClient)
}

// ClocksOfFleet makes Deps.ClockAhead of the connections of a fleet.
func ClocksOfFleet(fleet *member.Fleet) func(cluster string) time.Duration {
	return func(cluster string) time.Duration {
		if conn, ok := fleet.Get(cluster); ok {
			return conn.ClockAhead()
		}
		return 0
	}
}

func clientsOf(fleet *member.Fleet, web func(*member.Conn) *http.Client) func(cluster string) (kubernetes.Interface, error) {
	return func(cluster string) (kubernetes.Interface, error) {
		conn, ok := fleet.Get(cluster)
		if !ok {
			return nil, fmt.Errorf("there is no connection to cluster %s", cluster)
		}
		c, err := kubernetes.NewForConfigAndClient(conn.RESTConfig(), web(conn))
		if err != nil {
			return nil, fmt.Errorf("building a client for cluster %s: %w", cluster, err)
		}
		return c, nil
	}
}

// Reconciler keeps what belongs to a Cluster on the hub: its finalizer, its execution namespace, its credentials.
type Reconciler struct {
	deps   Deps
	client client.Client // Reads come from the cache.
	live   client.Reader // Reads come from the API server.

	metrics *metrics
}

// Setup adds the loop.
func Setup(mgr ctrl.Manager, deps Deps) error {
	r := newReconciler(mgr.GetClient(), deps)
	r.live = mgr.GetAPIReader()
	err := ctrl.NewControllerManagedBy(mgr).
		Named("enroll").
		For(&clusterv1alpha1.Cluster{}, builder.WithPredicates(clusterChanges())).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(clusterOfNamespace), builder.WithPredicates(comesOrGoes())).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(clusterOfSecret)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrency,
			RateLimiter:             backoff.Limiter[reconcile.Request](),
			SkipNameValidation:      new(true),
		}).
		Complete(controlloop.Track(mgr, r))
	if err != nil {
		return fmt.Errorf("adding the loop enroll: %w", err)
	}
	return nil
}

func newReconciler(c client.Client, deps Deps) *Reconciler {
	if deps.TokenLifetime == 0 {
		deps.TokenLifetime = membership.DefaultTokenLifetime
	}
	return &Reconciler{deps: deps, client: c, live: c, metrics: newMetrics(deps.Metrics)}
}

// clusterChanges lets through what this loop depends on: the spec, that a member does not accept its credential, and while a
// Cluster is leaving, whether it can be reached. Members report their resources all the time; that is nothing to us.
func clusterChanges() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e crevent.UpdateEvent) bool {
		before, after := e.ObjectOld.(*clusterv1alpha1.Cluster), e.ObjectNew.(*clusterv1alpha1.Cluster)
		return before.Generation != after.Generation || before.UID != after.UID ||
			(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
			!slices.Equal(before.Finalizers, after.Finalizers) ||
			after.DeletionTimestamp != nil && isReady(before) != isReady(after) ||
			refusal(before) != refusal(after) && refusal(after) != ""
	}}
}

// comesOrGoes lets through namespaces that appear, begin to go, and are gone.
func comesOrGoes() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e crevent.UpdateEvent) bool {
		return (e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
	}}
}

func clusterOfNamespace(_ context.Context, namespace client.Object) []reconcile.Request {
	cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(namespace.GetName())
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: cluster}}}
}

func clusterOfSecret(_ context.Context, secret client.Object) []reconcile.Request {
	for _, o := range secret.GetOwnerReferences() {
		if o.APIVersion == clusterv1alpha1.SchemeGroupVersion.String() && o.Kind == "Cluster" {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: o.Name}}}
		}
	}
	if cluster, _, declared := strings.Cut(secret.GetAnnotations()[clusterv1alpha1.CredentialOfAnnotation], " "); declared {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: cluster}}}
	}
	return nil
}

// Reconcile brings what belongs to one Cluster up to date.
func (r *Reconciler) Reconcile(ctx context.Context, q reconcile.Request) (reconcile.Result, error) {
	cluster := &clusterv1alpha1.Cluster{}
	if err := r.client.Get(ctx, q.NamespacedName, cluster); err != nil {
		if apierrors.IsNotFound(err) {
			r.metrics.forget(q.Name)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("reading the cluster: %w", err)
	}
	if cluster.DeletionTimestamp != nil {
		again, err := r.release(ctx, cluster)
		return afterConflict(reconcile.Result{RequeueAfter: again}, err)
	}
	if err := r.ensure(ctx, cluster); err != nil {
		return afterConflict(reconcile.Result{}, err)
	}
	if err := r.claim(ctx, cluster); err != nil {
		return afterConflict(reconcile.Result{}, err)
	}
	if err := r.stamp(ctx, cluster); err != nil {
		return afterConflict(reconcile.Result{}, err)
	}
	result, err := r.renew(ctx, cluster)
	if err != nil {
		return result, err
	}
	if cluster.Spec.SyncMode != clusterv1alpha1.Push {
		return result, nil
	}
	again, err := r.keepRenewalToken(ctx, cluster)
	if again > 0 && (result.RequeueAfter == 0 || again < result.RequeueAfter) {
		result.RequeueAfter = again
	}
	return afterConflict(result, err)
}

// afterConflict repeats a reconcile soon: the change that caused the conflict may not enqueue the Cluster, as those of status do not.
func afterConflict(result reconcile.Result, err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: backoff.Conflict}, nil
	}
	return result, err
}

// ensure adds the finalizer of a Cluster and creates its execution namespace.
func (r *Reconciler) ensure(ctx context.Context, cluster *clusterv1alpha1.Cluster) error {
	err := hubclient.AddFinalizer(ctx, r.client, cluster, clusterv1alpha1.ClusterFinalizer, client.FieldOwner(memberaccount.FieldManager))
	if err != nil {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   workv1alpha1.ExecutionNamespace(cluster.Name),
		Labels: map[string]string{clusterv1alpha1.SystemLabel: clusterv1alpha1.SystemLabelValue},
	}}
	err = r.client.Get(ctx, client.ObjectKeyFromObject(ns), &corev1.Namespace{})
	if err == nil {
		return nil // One that is being deleted enqueues the Cluster when it is gone.
	}
	if apierrors.IsNotFound(err) {
		err = r.client.Create(ctx, ns, client.FieldOwner(memberaccount.FieldManager))
	}
	switch {
	case err == nil:
		r.deps.Events.Publish(spaceCreated(cluster))
		return nil
	case apierrors.IsAlreadyExists(err):
		return nil
	default:
		r.deps.Events.Publish(spaceNotCreated(cluster, err))
		return fmt.Errorf("creating the execution namespace of cluster %s: %w", cluster.Name, err)
	}
}

// release removes what a Cluster has that is being deleted, in this order: its Works and with them what is in the member, the accounts of
// the control plane in the member, the credentials, the finalizer. It returns the pause before the next call, if there has to be one.
func (r *Reconciler) release(ctx context.Context, cluster *clusterv1alpha1.Cluster) (time.Duration, error) {
	if !slices.Contains(cluster.Finalizers, clusterv1alpha1.ClusterFinalizer) {
		return 0, nil
	}
	gone, err := r.removeSpace(ctx, cluster)
	if err != nil {
		if !apierrors.IsConflict(err) { // after a conflict it is tried again
			r.deps.Events.Publish(spaceNotRemoved(cluster, err))
		}
		return 0, err
	}
	switch {
	case gone:
	case isReady(cluster) && !hasKarmadaAgent(cluster):
		return 0, nil // Events of the namespace and of the cluster's readiness enqueue the Cluster.
	default:
		return releasePause, nil // A Work may have been missing from the cache.
	}
	r.deps.Events.Publish(spaceRemoved(cluster))
	r.leave(ctx, cluster)
	if err := r.forgetCredentials(ctx, cluster); err != nil {
		return 0, err
	}
	return 0, hubclient.RemoveFinalizer(ctx, r.client, cluster, clusterv1alpha1.ClusterFinalizer, client.FieldOwner(memberaccount.FieldManager))
}

// removeSpace deletes the execution namespace, which keeps new Works out, and its Works, and returns whether all are gone. Works wait for
// their objects to be removed from the member. If it cannot be reached, their finalizers are removed, and the objects stay.
func (r *Reconciler) removeSpace(ctx context.Context, cluster *clusterv1alpha1.Cluster) (gone bool, err error) {
	ns := &corev1.Namespace{}
	name := workv1alpha1.ExecutionNamespace(cluster.Name)
	err = r.client.Get(ctx, client.ObjectKey{Name: name}, ns)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the execution namespace: %w", err)
	}
	if ns.DeletionTimestamp == nil {
		if err := r.beginRemoval(ctx, cluster); err != nil {
			return false, err
		}
		err := r.client.Delete(ctx, ns, client.Preconditions{UID: &ns.UID})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return false, fmt.Errorf("deleting the execution namespace: %w", err)
		}
	}
	// The namespace controller would delete its Works too, but other kinds first.
	if err := r.removeWorks(ctx, cluster); err != nil {
		return false, err
	}
	return false, r.releaseOverdue(ctx, cluster)
}

// hasKarmadaAgent returns whether the agent of Karmada runs in a member: its certificate is listed in the Cluster.
func hasKarmadaAgent(cluster *clusterv1alpha1.Cluster) bool {
	return cluster.Annotations[clusterv1alpha1.AgentCredentialsAnnotation] != ""
}

// releaseOverdue removes the finalizers that Karmada's agent had time to remove, of Works whose objects stay in the member.
func (r *Reconciler) releaseOverdue(ctx context.Context, cluster *clusterv1alpha1.Cluster) error {
	if !hasKarmadaAgent(cluster) {
		return nil
	}
	return membership.ReleaseWorks(ctx, r.client, workv1alpha1.ExecutionNamespace(cluster.Name), func(work *workv1alpha1.Work) bool {
		deleted := work.DeletionTimestamp
		return deleted != nil && r.deps.Clock.Since(deleted.Time) >= karmadaRelease && ptr.Deref(work.Spec.PreserveResourcesOnDeletion, false)
	})
}

// removeWorks deletes the Works of a cluster that is being removed. If it cannot be reached, it also removes their finalizers.
func (r *Reconciler) removeWorks(ctx context.Context, cluster *clusterv1alpha1.Cluster) error {
	name := workv1alpha1.ExecutionNamespace(cluster.Name)
	works, err := hubclient.ListWorks(ctx, r.client, client.InNamespace(name))
	if err != nil {
		return err
	}
	if err := hubclient.DeleteWorks(ctx, r.client, works...); err != nil || isReady(cluster) {
		return err
	}
	return membership.ReleaseWorks(ctx, r.client, name, nil)
}

// beginRemoval publishes what happens to the objects in a cluster that is being removed, before any Work is deleted. For
// members with an agent, which does not read the Cluster, the decision to keep objects is written into their Works.
func (r *Reconciler) beginRemoval(ctx context.Context, cluster *clusterv1alpha1.Cluster) error {
	contents, err := membership.ContentsOf(ctx, r.client, cluster)
	if err != nil {
		return err
	}
	if cluster.Spec.SyncMode == clusterv1alpha1.Pull && !clusterv1alpha1.DeletesObjects(cluster) {
		if err := membership.PreserveWorks(ctx, r.client, workv1alpha1.ExecutionNamespace(cluster.Name)); err != nil {
			return err
		}
	}
	r.deps.Events.Publish(removalBegun(cluster, contents))
	return nil
}

// leave removes the accounts of the control plane from a member that can be reached. A failure delays nothing.
func (r *Reconciler) leave(ctx context.Context, cluster *clusterv1alpha1.Cluster) {
	if cluster.Spec.SyncMode != clusterv1alpha1.Push || cluster.Spec.SecretRef == nil {
		return
	}
	if r.hasLeft(ctx, cluster) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	c, err := r.deps.Member(cluster.Name)
	if err == nil {
		err = memberaccount.Leave(ctx, cluster.Name, r.deps.ControlPlane, c)
	}
	if err != nil {
		r.deps.Events.Publish(notLeft(cluster, err))
	}
}

// hasLeft returns whether the accounts in the member have been removed: the credential is deleted after them. After a conflict
// over the finalizer leaving is tried again, without the rights that were removed.
func (r *Reconciler) hasLeft(ctx context.Context, cluster *clusterv1alpha1.Cluster) bool {
	ref := cluster.Spec.SecretRef
	err := r.live.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &corev1.Secret{})
	return apierrors.IsNotFound(err)
}

// forgetCredentials deletes the Secrets that joining made. Others, which a person wrote, stay.
func (r *Reconciler) forgetCredentials(ctx context.Context, cluster *clusterv1alpha1.Cluster) error {
	for _, ref := range []*clusterv1alpha1.LocalSecretReference{cluster.Spec.SecretRef, cluster.Spec.ImpersonatorSecretRef} {
		if ref == nil || ref.Namespace != clusterv1alpha1.ClusterNamespace {
			continue
		}
		secret := &corev1.Secret{}
		err := r.client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, secret)
		if err == nil && clusterv1alpha1.OwnsCredential(cluster, secret) {
			err = r.client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID})
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("deleting the credentials of cluster %s: %w", cluster.Name, err)
		}
	}
	return nil
}

func isReady(cluster *clusterv1alpha1.Cluster) bool {
	return meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
}
