package enroll

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

// identity reads what tells one cluster from all others.
func identity(ctx context.Context, member kubernetes.Interface) (string, error) {
	ns, err := member.CoreV1().Namespaces().Get(ctx, kubeSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the identity of the cluster (the uid of its namespace %s): %w", kubeSystem, err)
	}
	return string(ns.UID), nil
}

// account is one service account in a member with its rights.
type account struct {
	name string
	// role names the ClusterRole and the ClusterRoleBinding.
	role  string
	rules Rights
	// home are its rights in the namespace of the service account alone; empty if rules say enough.
	home Rights
	// controlPlane is the id of the control plane that has the account, "" if it is not told.
	controlPlane string
}

// controllerOf is the account for the control plane's own work, without rights: enough to renew its token and to remove it.
func controllerOf(cluster string) account {
	return account{name: controllerAccount(cluster), role: controllerRole(cluster)}
}

// with gives the account its rights, under the name that it has.
func (a account) with(rights Rights) account {
	a.rules = rights
	if !rights.all() {
		a.rules, a.home = rights.merged(a.needs()), a.needsAtHome()
	}
	return a
}

// impersonatorOf is the account behind the Cluster's proxy. Its rights come with Works, which name those whom it may
// impersonate.
func impersonatorOf() account {
	return account{name: impersonator, role: impersonator}
}

// install puts the namespace, the account and its rights into a member. Doing it again changes nothing.
func (a account) install(ctx context.Context, member kubernetes.Interface) error {
	ours := map[string]string{clusterv1alpha1.SystemLabel: clusterv1alpha1.SystemLabelValue}
	force := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	namespace := applycorev1.Namespace(clusterv1alpha1.ClusterNamespace).WithLabels(ours)
	if _, err := member.CoreV1().Namespaces().Apply(ctx, namespace, force); err != nil {
		return fmt.Errorf("creating the namespace %s in the member: %w", clusterv1alpha1.ClusterNamespace, err)
	}
	if len(a.rules) == 0 {
		sa := applycorev1.ServiceAccount(a.name, clusterv1alpha1.ClusterNamespace).WithLabels(ours).WithAnnotations(a.annotations())
		if _, err := member.CoreV1().ServiceAccounts(clusterv1alpha1.ClusterNamespace).Apply(ctx, sa, force); err != nil {
			return fmt.Errorf("creating the ServiceAccount %s in the member: %w", a.name, err)
		}
		return nil
	}
	role, err := member.RbacV1().ClusterRoles().Apply(ctx, applyrbacv1.ClusterRole(a.role).WithLabels(ours).WithAnnotations(a.annotations()).WithRules(a.rules.configuration()...), force)
	if err != nil {
		return fmt.Errorf("creating the ClusterRole %s in the member: %w", a.role, err)
	}
	// The role owns the rest: when we leave, deleting it is the last thing its own rights allow.
	owner := applymetav1.OwnerReference().WithAPIVersion(rbacv1.SchemeGroupVersion.String()).WithKind("ClusterRole").
		WithName(role.Name).WithUID(role.UID)
	sa := applycorev1.ServiceAccount(a.name, clusterv1alpha1.ClusterNamespace).WithLabels(ours).WithAnnotations(a.annotations()).WithOwnerReferences(owner)
	if _, err := member.CoreV1().ServiceAccounts(clusterv1alpha1.ClusterNamespace).Apply(ctx, sa, force); err != nil {
		return fmt.Errorf("creating the ServiceAccount %s in the member: %w", a.name, err)
	}
	binding := applyrbacv1.ClusterRoleBinding(a.role).WithLabels(ours).WithAnnotations(a.annotations()).WithOwnerReferences(owner).
		WithRoleRef(applyrbacv1.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName(a.role)).
		WithSubjects(applyrbacv1.Subject().WithKind(rbacv1.ServiceAccountKind).
			WithNamespace(clusterv1alpha1.ClusterNamespace).WithName(a.name))
	if _, err := member.RbacV1().ClusterRoleBindings().Apply(ctx, binding, force); err != nil {
		return fmt.Errorf("creating the ClusterRoleBinding %s in the member: %w", a.role, err)
	}
	return a.installHome(ctx, member, owner)
}

// installHome grants what the account may do in the namespace of its ServiceAccount alone.
func (a account) installHome(ctx context.Context, member kubernetes.Interface, owner *applymetav1.OwnerReferenceApplyConfiguration) error {
	if len(a.home) == 0 {
		return nil
	}
	ours := map[string]string{clusterv1alpha1.SystemLabel: clusterv1alpha1.SystemLabelValue}
	force := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	rbac, namespace := member.RbacV1(), clusterv1alpha1.ClusterNamespace
	role := applyrbacv1.Role(a.name, namespace).WithLabels(ours).WithOwnerReferences(owner).WithRules(a.home.configuration()...)
	if _, err := rbac.Roles(namespace).Apply(ctx, role, force); err != nil {
		return fmt.Errorf("creating the Role %s in the member: %w", a.name, err)
	}
	binding := applyrbacv1.RoleBinding(a.name, namespace).WithLabels(ours).WithOwnerReferences(owner).
		WithRoleRef(applyrbacv1.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("Role").WithName(a.name)).
		WithSubjects(applyrbacv1.Subject().WithKind(rbacv1.ServiceAccountKind).WithNamespace(namespace).WithName(a.name))
	if _, err := rbac.RoleBindings(namespace).Apply(ctx, binding, force); err != nil {
		return fmt.Errorf("creating the RoleBinding %s in the member: %w", a.name, err)
	}
	return nil
}

// token asks the member for a token of the account. The member may grant a shorter life than asked for.
func (a account) token(ctx context.Context, member kubernetes.Interface, life time.Duration) (string, error) {
	seconds := int64(life / time.Second)
	request, err := member.CoreV1().ServiceAccounts(clusterv1alpha1.ClusterNamespace).CreateToken(ctx, a.name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting a token of the ServiceAccount %s: %w", a.name, err)
	}
	if request.Status.Token == "" {
		return "", fmt.Errorf("requesting a token of the ServiceAccount %s: the answer has none", a.name)
	}
	return request.Status.Token, nil
}

// remove takes the account and its rights out of a member. It may be acting as the account itself, so what it needs goes
// last, and what that takes with it is left to the member's garbage collector.
func (a account) remove(ctx context.Context, member kubernetes.Interface) error {
	role, err := member.RbacV1().ClusterRoles().Get(ctx, a.role, metav1.GetOptions{})
	if err == nil && role.Labels[clusterv1alpha1.SystemLabel] != clusterv1alpha1.SystemLabelValue {
		return nil // Somebody else's.
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading the ClusterRole %s in the member: %w", a.role, err)
	}
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &background}
	if err := member.RbacV1().ClusterRoles().Delete(ctx, a.role, options); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the ClusterRole %s in the member: %w", a.role, err)
	}
	err = errors.Join(
		member.RbacV1().ClusterRoleBindings().Delete(ctx, a.role, options),
		member.CoreV1().ServiceAccounts(clusterv1alpha1.ClusterNamespace).Delete(ctx, a.name, options),
	)
	return ignoreParting(err)
}

// ignoreParting drops the refusals that come of having given up our rights a moment ago.
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
