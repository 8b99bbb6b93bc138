package enroll

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/impersonate"
)

// spacePause is between two attempts to write into an execution namespace that is not there yet.
const spacePause = time.Second

// secretPause is between two looks for the Secret that a Cluster names.
const secretPause = 2 * time.Second

// impersonators keeps, in the execution namespace of every Cluster, the Works with the member's roles karmada-impersonator:
// they name the users that the impersonator's account may impersonate there, and no others.
type impersonators struct {
	client client.Client
	events events.Recorder
}

// SetupImpersonators adds the loop.
func SetupImpersonators(mgr ctrl.Manager, events events.Recorder) error {
	l := &impersonators{client: mgr.GetClient(), events: events}
	everyCluster := hubclient.EveryCluster(l.client)
	err := ctrl.NewControllerManagedBy(mgr).
		Named("impersonators").
		For(&clusterv1alpha1.Cluster{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&rbacv1.ClusterRoleBinding{}, everyCluster).
		Watches(&rbacv1.ClusterRole{}, everyCluster).
		Watches(&workv1alpha1.Work{}, handler.EnqueueRequestsFromMapFunc(clusterOfImpersonator), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{SkipNameValidation: new(true)}).
		Complete(controlloop.Track(mgr, l))
	if err != nil {
		return fmt.Errorf("adding the loop impersonators: %w", err)
	}
	return nil
}

func clusterOfImpersonator(_ context.Context, work client.Object) []reconcile.Request {
	cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(work.GetNamespace())
	if !ok || !slices.Contains(memberaccount.ImpersonatorWorks(), work.GetName()) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: cluster}}}
}

// Reconcile brings the Works of one Cluster up to date.
func (l *impersonators) Reconcile(ctx context.Context, q reconcile.Request) (reconcile.Result, error) {
	cluster := &clusterv1alpha1.Cluster{}
	if err := l.client.Get(ctx, q.NamespacedName, cluster); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if cluster.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	if cluster.Spec.SyncMode == clusterv1alpha1.Push && cluster.Spec.SecretRef != nil && cluster.Spec.ImpersonatorSecretRef == nil {
		return reconcile.Result{}, nil // Joined with bounded rights: there is no impersonation.
	}
	subjects, err := l.holders(ctx, cluster.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	account, err := l.account(ctx, cluster)
	if apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: secretPause}, nil // It may not be in the cache yet; the usual name may be another's.
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	names := memberaccount.ImpersonatorWorks()
	var faults []error
	for i, objects := range [][]client.Object{{clusterRole(account, subjects)}, {clusterRoleBinding(account)}, accountRoles(account, subjects)} {
		faults = append(faults, l.ensure(ctx, cluster, names[i], objects))
	}
	err = errors.Join(faults...)
	if apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, "NamespaceTerminating") {
		return reconcile.Result{RequeueAfter: spacePause}, nil // The execution namespace is being made.
	}
	if err != nil {
		l.events.Publish(events.Warning(reference(cluster), events.SyncImpersonationConfigFailed, err.Error()))
		return reconcile.Result{}, err
	}
	l.events.Publish(events.Success(reference(cluster), events.SyncImpersonationConfigSucceed, "The Works with the rights of the impersonator are as they should be"))
	return reconcile.Result{}, nil
}

// account is the name of the impersonator's account in a member, and of its roles: in one that several control planes share
// each has its own.
func (l *impersonators) account(ctx context.Context, cluster *clusterv1alpha1.Cluster) (string, error) {
	ref := cluster.Spec.ImpersonatorSecretRef
	if ref == nil || ref.Namespace != clusterv1alpha1.ClusterNamespace {
		return memberaccount.Impersonator, nil // not made here
	}
	secret := &corev1.Secret{}
	if err := l.client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, secret); err != nil {
		return "", fmt.Errorf("reading the Secret %s: %w", ref.Name, err)
	}
	return memberaccount.ImpersonatorOf().Named(secret.Data[clusterv1alpha1.SecretTokenKey]).Name, nil
}

// holders reads who holds clusters/proxy of a cluster.
func (l *impersonators) holders(ctx context.Context, cluster string) (impersonate.Subjects, error) {
	var bindings rbacv1.ClusterRoleBindingList
	if err := l.client.List(ctx, &bindings, client.UnsafeDisableDeepCopy); err != nil {
		return impersonate.Subjects{}, fmt.Errorf("listing ClusterRoleBindings: %w", err)
	}
	var roles rbacv1.ClusterRoleList
	if err := l.client.List(ctx, &roles, client.UnsafeDisableDeepCopy); err != nil {
		return impersonate.Subjects{}, fmt.Errorf("listing ClusterRoles: %w", err)
	}
	byName := make(map[string]*rbacv1.ClusterRole, len(roles.Items))
	for i := range roles.Items {
		byName[roles.Items[i].Name] = &roles.Items[i]
	}
	list := make([]*rbacv1.ClusterRoleBinding, 0, len(bindings.Items))
	for i := range bindings.Items {
		list = append(list, &bindings.Items[i])
	}
	return impersonate.Holders(cluster, list, func(name string) *rbacv1.ClusterRole { return byName[name] }), nil
}

// ensure writes one Work if it is not as it should be, and deletes one that carries nothing.
func (l *impersonators) ensure(ctx context.Context, cluster *clusterv1alpha1.Cluster, name string, objects []client.Object) error {
	key := client.ObjectKey{Namespace: workv1alpha1.ExecutionNamespace(cluster.Name), Name: name}
	existing := &workv1alpha1.Work{}
	err := l.client.Get(ctx, key, existing)
	switch {
	case apierrors.IsNotFound(err):
		existing = nil
	case err != nil:
		return fmt.Errorf("reading the Work %s: %w", key, err)
	}
	if len(objects) == 0 {
		if existing != nil && existing.DeletionTimestamp == nil {
			if err := l.client.Delete(ctx, existing, client.Preconditions{UID: &existing.UID}); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("deleting the Work %s: %w", key, err)
			}
		}
		return nil
	}
	manifests, err := manifestsOf(key, objects)
	if err != nil {
		return err
	}
	work := workv1alpha1.NewWork(key, existing)
	work.Spec.Workload.Manifests = manifests
	// Joining by an earlier version, or by karmadactl, made these objects.
	work.AddAnnotations(map[string]string{workv1alpha1.ConflictResolutionAnnotation: workv1alpha1.ConflictResolutionOverwrite})
	switch {
	case existing == nil:
		err = l.client.Create(ctx, work, client.FieldOwner(memberaccount.FieldManager))
	case !workv1alpha1.SameManifests(existing.Spec.Workload.Manifests, work.Spec.Workload.Manifests) || !maps.Equal(existing.Annotations, work.Annotations):
		_, err = hubclient.Patch(ctx, l.client, existing, work, client.FieldOwner(memberaccount.FieldManager))
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("writing the Work %s: %w", key, err)
	}
	return nil
}

func manifestsOf(work client.ObjectKey, objects []client.Object) ([]workv1alpha1.Manifest, error) {
	var manifests []workv1alpha1.Manifest
	for _, object := range objects {
		object.SetLabels(map[string]string{
			clusterv1alpha1.SystemLabel: clusterv1alpha1.SystemLabelValue, workv1alpha1.ManagedLabel: workv1alpha1.ManagedLabelValue,
		})
		object.SetAnnotations(map[string]string{
			workv1alpha1.WorkNamespaceAnnotation: work.Namespace, workv1alpha1.WorkNameAnnotation: work.Name,
			workv1alpha1.ConflictResolutionAnnotation: workv1alpha1.ConflictResolutionOverwrite,
		})
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, fmt.Errorf("encoding %s: %w", object.GetName(), err)
		}
		delete(fields["metadata"].(map[string]any), "creationTimestamp")
		raw, err := json.Marshal(fields)
		if err != nil {
			return nil, fmt.Errorf("encoding %s: %w", object.GetName(), err)
		}
		manifests = append(manifests, workv1alpha1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	return manifests, nil
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

// clusterRole names the users and groups. Without any it allows nothing, which is written, too: an earlier version made a role
// of this name that allows everything.
func clusterRole(account string, subjects impersonate.Subjects) client.Object {
	role := &rbacv1.ClusterRole{TypeMeta: typeOf("ClusterRole"), ObjectMeta: metav1.ObjectMeta{Name: account}, Rules: []rbacv1.PolicyRule{}}
	allow := func(group, resource string, names []string) {
		if len(names) > 0 || resource == "userextras/"+impersonate.UserExtra {
			role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"impersonate"}, ResourceNames: names})
		}
	}
	users := subjects.Users
	if len(subjects.Groups) > 0 {
		users = append(slices.Clone(users), impersonate.GroupMember)
	}
	allow("", "users", users)
	if len(subjects.Groups) > 0 {
		allow("", "groups", subjects.Groups)
		allow("authentication.k8s.io", "userextras/"+impersonate.UserExtra, nil)
	}
	return role
}

func clusterRoleBinding(account string) client.Object {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta: typeOf("ClusterRoleBinding"), ObjectMeta: metav1.ObjectMeta{Name: account},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account},
		Subjects: impersonatorSubject(account),
	}
}

func impersonatorSubject(account string) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: clusterv1alpha1.ClusterNamespace, Name: account}}
}

// accountRoles name the service accounts, each in its namespace: a ClusterRole would allow accounts of that name everywhere.
func accountRoles(account string, subjects impersonate.Subjects) []client.Object {
	var objects []client.Object
	for _, namespace := range slices.SortedFunc(maps.Keys(subjects.Accounts), strings.Compare) {
		objects = append(objects,
			&rbacv1.Role{
				TypeMeta: typeOf("Role"), ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account},
				Rules: []rbacv1.PolicyRule{{
					APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"impersonate"}, ResourceNames: subjects.Accounts[namespace],
				}},
			},
			&rbacv1.RoleBinding{
				TypeMeta: typeOf("RoleBinding"), ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account},
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
				Subjects: impersonatorSubject(account),
			})
	}
	return objects
}
