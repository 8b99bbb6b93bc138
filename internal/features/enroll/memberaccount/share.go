package memberaccount

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// Several control planes may have one member. Each has service accounts of its own there, which carry its id. The first one
// has the usual names; those of the others end with a part of their id, so that no control plane shares, changes or removes
// the rights of another.

// accountIDLength is how much of a control plane's id is in the names of its accounts in a shared member.
const accountIDLength = 8

// AccountsIn lists the accounts of control planes in a member.
func AccountsIn(ctx context.Context, member kubernetes.Interface) ([]corev1.ServiceAccount, error) {
	accounts, err := member.CoreV1().ServiceAccounts(clusterv1alpha1.ClusterNamespace).List(ctx, metav1.ListOptions{
		LabelSelector: clusterv1alpha1.SystemLabel + "=" + clusterv1alpha1.SystemLabelValue,
	})
	if err != nil {
		return nil, fmt.Errorf("listing the service accounts in the member: %w", err)
	}
	return accounts.Items, nil
}

// ownAccount returns whether an account in a member belongs to this control plane. One without an id, of an older version or of
// Karmada, is if it has the name that this control plane would give it.
func ownAccount(sa *corev1.ServiceAccount, cluster, controlPlane string) bool {
	if id := sa.Annotations[workv1alpha1.ControlPlaneAnnotation]; id != "" {
		return id == controlPlane
	}
	return sa.Name == controllerAccount(cluster)
}

// isImpersonator returns whether an account is one of those that may only impersonate.
func isImpersonator(sa *corev1.ServiceAccount) bool {
	return sa.Name == Impersonator || strings.HasPrefix(sa.Name, Impersonator+"-")
}

// ImpersonatorIn returns the account by which this control plane impersonates users in a member, and whether it exists. It is an error
// that the account has the usual name and is another control plane's: that one decides whom it may impersonate.
func ImpersonatorIn(accounts []corev1.ServiceAccount, controlPlane string) (Account, bool, error) {
	own := ImpersonatorOf().Of(controlPlane)
	var usual *corev1.ServiceAccount
	for i := range accounts {
		sa := &accounts[i]
		if isImpersonator(sa) && sa.Annotations[workv1alpha1.ControlPlaneAnnotation] == controlPlane {
			return own.Suffixed(strings.TrimPrefix(sa.Name, Impersonator)), true, nil
		}
		if sa.Name == Impersonator {
			usual = sa
		}
	}
	if usual == nil {
		return own, false, nil
	}
	if id := usual.Annotations[workv1alpha1.ControlPlaneAnnotation]; id != "" {
		return Account{}, false, fmt.Errorf("the ServiceAccount %s/%s in the member belongs to the control plane %s", usual.Namespace, usual.Name, id)
	}
	return own, true, nil
}

// Holders are the accounts with which other control planes hold a member. Known means that this control plane has the
// cluster already, so that an account of its name without an id is its own.
func Holders(accounts []corev1.ServiceAccount, cluster, controlPlane string, known bool) []string {
	var found []string
	for i := range accounts {
		sa := &accounts[i]
		id := sa.Annotations[workv1alpha1.ControlPlaneAnnotation]
		if isImpersonator(sa) || id == controlPlane || id == "" && known && ownAccount(sa, cluster, controlPlane) {
			continue
		}
		if id == "" {
			id = "unknown, of Karmada or an older version"
		}
		found = append(found, fmt.Sprintf("%s (ServiceAccount %s/%s)", id, sa.Namespace, sa.Name))
	}
	return found
}

// Holds returns whether one of the accounts is that with which a control plane holds a member.
func Holds(accounts []corev1.ServiceAccount, controlPlane string) bool {
	return slices.ContainsFunc(accounts, func(sa corev1.ServiceAccount) bool {
		return !isImpersonator(&sa) && sa.Annotations[workv1alpha1.ControlPlaneAnnotation] == controlPlane
	})
}

// suffixOf is what the name of an account for a control plane's own work ends with; false if it is not the account of this
// cluster.
func suffixOf(sa *corev1.ServiceAccount, cluster, controlPlane string) (string, bool) {
	rest, ok := strings.CutPrefix(sa.Name, controllerAccount(cluster))
	return rest, ok && (rest == "" || rest == sharedSuffix(controlPlane))
}

func sharedSuffix(controlPlane string) string {
	return "-" + controlPlane[:min(len(controlPlane), accountIDLength)]
}

// Suffix is what the names of this control plane's accounts end with in a member: that which they have already, a part of
// the id in a member that others hold, and nothing otherwise.
func Suffix(accounts []corev1.ServiceAccount, cluster, controlPlane string, shared bool) string {
	for i := range accounts {
		if sa := &accounts[i]; !isImpersonator(sa) && sa.Annotations[workv1alpha1.ControlPlaneAnnotation] == controlPlane {
			if rest, ok := suffixOf(sa, cluster, controlPlane); ok {
				return rest
			}
		}
	}
	if !shared {
		return ""
	}
	return sharedSuffix(controlPlane)
}

// Suffixed is an account under the names that it has in a shared member.
func (a Account) Suffixed(suffix string) Account {
	a.Name += suffix
	a.Role += suffix
	return a
}

// Of is an account that carries the id of its control plane.
func (a Account) Of(controlPlane string) Account {
	a.controlPlane = controlPlane
	return a
}

// annotations are what the account's objects in a member have.
func (a Account) annotations() map[string]string {
	if a.controlPlane == "" {
		return nil
	}
	return map[string]string{workv1alpha1.ControlPlaneAnnotation: a.controlPlane}
}

// Named is an account under the name in its token. Any other token leaves it as it is.
func (a Account) Named(token []byte) Account {
	parts := strings.Split(string(token), ".")
	if len(parts) != 3 {
		return a
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return a
	}
	var claims struct {
		Subject string `json:"sub"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return a
	}
	name := strings.TrimPrefix(claims.Subject, "system:serviceaccount:"+clusterv1alpha1.ClusterNamespace+":")
	if rest, ok := strings.CutPrefix(name, a.Name); ok {
		return a.Suffixed(rest)
	}
	return a
}

// ControlPlaneID reads the id of the control plane.
func ControlPlaneID(ctx context.Context, hub client.Client) (string, error) {
	ns := &corev1.Namespace{}
	if err := hub.Get(ctx, client.ObjectKey{Name: KubeSystem}, ns); err != nil {
		return "", fmt.Errorf("reading the id of the control plane (the uid of its namespace %s): %w", KubeSystem, err)
	}
	return string(ns.UID), nil
}

// Leave takes everything of ours out of a member. What several control planes share stays until the last one goes.
func Leave(ctx context.Context, cluster, controlPlane string, member kubernetes.Interface) error {
	accounts, err := AccountsIn(ctx, member)
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(accounts), func(sa corev1.ServiceAccount) bool {
		return isImpersonator(&sa) || ownAccount(&sa, cluster, controlPlane)
	})
	last := len(others) == 0
	// Who has no id has no impersonator of its own either.
	lent := slices.ContainsFunc(others, func(sa corev1.ServiceAccount) bool { return sa.Annotations[workv1alpha1.ControlPlaneAnnotation] == "" })
	for i := range accounts {
		sa := &accounts[i]
		id := sa.Annotations[workv1alpha1.ControlPlaneAnnotation]
		if !isImpersonator(sa) || id != controlPlane && (id != "" || !last) || sa.Name == Impersonator && lent {
			continue
		}
		if err := ImpersonatorOf().Suffixed(strings.TrimPrefix(sa.Name, Impersonator)).remove(ctx, member); err != nil {
			return err
		}
		if err := RemoveRoles(ctx, sa.Name, member); err != nil {
			return err
		}
	}
	if last {
		if err := removeNamespace(ctx, member); err != nil {
			return err
		}
	}
	// Our own rights go last.
	for i := range accounts {
		sa := &accounts[i]
		if rest, ok := suffixOf(sa, cluster, controlPlane); ok && !isImpersonator(sa) && ownAccount(sa, cluster, controlPlane) {
			own := ControllerOf(cluster).Suffixed(rest)
			if err := own.RemoveRenewalSecret(ctx, member); err != nil {
				return err
			}
			if err := own.remove(ctx, member); err != nil {
				return err
			}
		}
	}
	return nil
}

// RemoveRoles deletes the roles of an impersonator in namespaces, which stay when the objects of a Cluster are kept. The next
// control plane that joins the member makes an account of the same name, which must not have their rights.
func RemoveRoles(ctx context.Context, name string, member kubernetes.Interface) error {
	bindings, err := member.RbacV1().RoleBindings(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		LabelSelector: clusterv1alpha1.SystemLabel + "=" + clusterv1alpha1.SystemLabelValue,
	})
	if err != nil {
		return fmt.Errorf("listing the RoleBindings in the member: %w", err)
	}
	for i := range bindings.Items {
		if bindings.Items[i].Name != name {
			continue
		}
		namespace := bindings.Items[i].Namespace
		for kind, remove := range map[string]func(context.Context, string, metav1.DeleteOptions) error{
			"RoleBinding": member.RbacV1().RoleBindings(namespace).Delete, "Role": member.RbacV1().Roles(namespace).Delete,
		} {
			if err := remove(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("deleting the %s %s/%s in the member: %w", kind, namespace, name, err)
			}
		}
	}
	return nil
}
