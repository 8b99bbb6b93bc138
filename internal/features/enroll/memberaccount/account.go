package memberaccount

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	applyrbacv1 "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/kubernetes"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// Identity reads the id of a cluster.
func Identity(ctx context.Context, member kubernetes.Interface) (string, error) {
	ns, err := member.CoreV1().Namespaces().Get(ctx, KubeSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the identity of the cluster (the uid of its namespace %s): %w", KubeSystem, err)
	}
	return string(ns.UID), nil
}

// Account is one service account in a member with its rights.
type Account struct {
	Name string
	// Role names the ClusterRole and the ClusterRoleBinding.
	Role  string
	Rules Rights
	// Home are its rights in the namespace of the service account alone; empty if rules say enough.
	Home Rights
	// controlPlane is the id of the control plane that has the account, "" if it is unknown.
	controlPlane string
}

// ControllerOf is the account for the control plane's own work, without rights: enough to renew its token and to remove it.
func ControllerOf(cluster string) Account {
	return Account{Name: controllerAccount(cluster), Role: ControllerRole(cluster)}
}

// With gives the account its rights, under the name that it has.
func (a Account) With(rights Rights) Account {
	a.Rules = rights
	if !rights.All() {
		a.Rules, a.Home = rights.Merged(a.needs()), a.needsAtHome()
	}
	return a
}

// ImpersonatorOf is the account behind the Cluster's proxy. Its rights come with Works, which name those whom it may
// impersonate.
func ImpersonatorOf() Account {
	return Account{Name: Impersonator, Role: Impersonator}
}

// Install puts the namespace, the account and its rights into a member. Doing it again changes nothing.
func (a Account) Install(ctx context.Context, member kubernetes.Interface) error {
	ours := map[string]string{clusterv1alpha1.SystemLabel: clusterv1alpha1.SystemLabelValue}
	force := metav1.ApplyOptions{FieldManager: FieldManager, Force: true}
	namespace := applycorev1.Namespace(clusterv1alpha1.ClusterNamespace).WithLabels(ours)
	if _, err := member.CoreV1().Namespaces().Apply(ctx, namespace, force); err != nil {
		return fmt.Errorf("creating the namespace %s in the member: %w", clusterv1alpha1.ClusterNamespace, err)
	}
	if len(a.Rules) == 0 {
		sa := applycorev1.ServiceAccount(a.Name, clusterv1alpha1.ClusterNamespace).WithLabels(ours).WithAnnotations(a.annotations())
		if _, err := member.CoreV1().ServiceAccounts(clusterv1alpha1.ClusterNamespace).Apply(ctx, sa, force); err != nil {
			return fmt.Errorf("creating the ServiceAccount %s in the member: %w", a.Name, err)
		}
		return nil
	}
	role, err := member.RbacV1().ClusterRoles().Apply(ctx, applyrbacv1.ClusterRole(a.Role).WithLabels(ours).WithAnnotations(a.annotations()).WithRules(a.Rules.configuration()...), force)
	if err != nil {
		return fmt.Errorf("creating the ClusterRole %s in the member: %w", a.Role, err)
	}
	// The role owns the rest: when we leave, deleting it is the last thing its own rights allow.
	owner := applymetav1.OwnerReference().WithAPIVersion(rbacv1.SchemeGroupVersion.String()).WithKind("ClusterRole").
		WithName(role.Name).WithUID(role.UID)
	sa := applycorev1.ServiceAccount(a.Name, clusterv1alpha1.ClusterNamespace).WithLabels(ours).WithAnnotations(a.annotations()).WithOwnerReferences(owner)
	if _, err := member.CoreV1().ServiceAccounts(clusterv1alpha1.ClusterNamespace).Apply(ctx, sa, force); err != nil {
		return fmt.Errorf("creating the ServiceAccount %s in the member: %w", a.Name, err)
	}
	binding := applyrbacv1.ClusterRoleBinding(a.Role).WithLabels(ours).WithAnnotations(a.annotations()).WithOwnerReferences(owner).
		WithRoleRef(applyrbacv1.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName(a.Role)).
		WithSubjects(applyrbacv1.Subject().WithKind(rbacv1.ServiceAccountKind).
			WithNamespace(clusterv1alpha1.ClusterNamespace).WithName(a.Name))
	if _, err := member.RbacV1().ClusterRoleBindings().Apply(ctx, binding, force); err != nil {
		return fmt.Errorf("creating the ClusterRoleBinding %s in the member: %w", a.Role, err)
	}
	return a.installHome(ctx, member, owner)
}

// installHome grants what the account may do in the namespace of its ServiceAccount alone.
func (a Account) installHome(ctx context.Context, member kubernetes.Interface, owner *applymetav1.OwnerReferenceApplyConfiguration) error {
	if len(a.Home) == 0 {
		return nil
	}
	ours := map[string]string{clusterv1alpha1.SystemLabel: clusterv1alpha1.SystemLabelValue}
	force := metav1.ApplyOptions{FieldManager: FieldManager, Force: true}
	rbac, namespace := member.RbacV1(), clusterv1alpha1.ClusterNamespace
	role := applyrbacv1.Role(a.Name, namespace).WithLabels(ours).WithOwnerReferences(owner).WithRules(a.Home.configuration()...)
	if _, err := rbac.Roles(namespace).Apply(ctx, role, force); err != nil {
		return fmt.Errorf("creating the Role %s in the member: %w", a.Name, err)
	}
	binding := applyrbacv1.RoleBinding(a.Name, namespace).WithLabels(ours).WithOwnerReferences(owner).
		WithRoleRef(applyrbacv1.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("Role").WithName(a.Name)).
		WithSubjects(applyrbacv1.Subject().WithKind(rbacv1.ServiceAccountKind).WithNamespace(namespace).WithName(a.Name))
	if _, err := rbac.RoleBindings(namespace).Apply(ctx, binding, force); err != nil {
		return fmt.Errorf("creating the RoleBinding %s in the member: %w", a.Name, err)
	}
	return nil
}

// Token requests a token of the account from the member. The member may grant a shorter lifetime than requested.
func (a Account) Token(ctx context.Context, member kubernetes.Interface, life time.Duration) (string, error) {
	seconds := int64(life / time.Second)
	request, err := member.CoreV1().ServiceAccounts(clusterv1alpha1.ClusterNamespace).CreateToken(ctx, a.Name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting a token of the ServiceAccount %s: %w", a.Name, err)
	}
	if request.Status.Token == "" {
		return "", fmt.Errorf("requesting a token of the ServiceAccount %s: the answer has none", a.Name)
	}
	return request.Status.Token, nil
}

// remove takes the account and its rights out of a member. It may be acting as the account itself, so what it needs goes
// last, and what that takes with it is left to the member's garbage collector.
func (a Account) remove(ctx context.Context, member kubernetes.Interface) error {
	role, err := member.RbacV1().ClusterRoles().Get(ctx, a.Role, metav1.GetOptions{})
	if err == nil && role.Labels[clusterv1alpha1.SystemLabel] != clusterv1alpha1.SystemLabelValue {
		return nil // It belongs to another control plane.
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading the ClusterRole %s in the member: %w", a.Role, err)
	}
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &background}
	if err := member.RbacV1().ClusterRoles().Delete(ctx, a.Role, options); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the ClusterRole %s in the member: %w", a.Role, err)
	}
	err = errors.Join(
		member.RbacV1().ClusterRoleBindings().Delete(ctx, a.Role, options),
		member.CoreV1().ServiceAccounts(clusterv1alpha1.ClusterNamespace).Delete(ctx, a.Name, options),
	)
	return ignoreParting(err)
}

// ignoreParting drops the refusals that follow from the removal of our rights a moment ago.
func ignoreParting(err error) error {
	joined, ok := err.(interface{ Unwrap() []error }) // The joined error itself is meant.
	if !ok {
		return err
	}
	var faults []error
	for _, fault := range joined.Unwrap() {
		if !apierrors.IsNotFound(fault) && !apierrors.IsForbidden(fault) && !apierrors.IsUnauthorized(fault) {
			faults = append(faults, fault)
		}
	}
	return errors.Join(faults...)
}

// removeNamespace deletes our namespace, unless it was there before us.
func removeNamespace(ctx context.Context, member kubernetes.Interface) error {
	ns, err := member.CoreV1().Namespaces().Get(ctx, clusterv1alpha1.ClusterNamespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && ns.Labels[clusterv1alpha1.SystemLabel] != clusterv1alpha1.SystemLabelValue {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the namespace %s in the member: %w", clusterv1alpha1.ClusterNamespace, err)
	}
	err = member.CoreV1().Namespaces().Delete(ctx, ns.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &ns.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the namespace %s in the member: %w", ns.Name, err)
	}
	return nil
}
