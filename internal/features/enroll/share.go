package enroll

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

// accountsIn lists the accounts of control planes in a member.
func accountsIn(ctx context.Context, member kubernetes.Interface) ([]corev1.ServiceAccount, error) {
	accounts, err := member.CoreV1().ServiceAccounts(clusterv1alpha1.ClusterNamespace).List(ctx, metav1.ListOptions{
		LabelSelector: clusterv1alpha1.SystemLabel + "=" + clusterv1alpha1.SystemLabelValue,
	})
	if err != nil {
		return nil, fmt.Errorf("listing the service accounts in the member: %w", err)
	}
	return accounts.Items, nil
}

// ownAccount tells whether an account in a member is this control plane's. One without an id, of an older version or of
// Karmada, is if it has the name that this control plane would give it.
func ownAccount(sa *corev1.ServiceAccount, cluster, controlPlane string) bool {
	if id := sa.Annotations[workv1alpha1.ControlPlaneAnnotation]; id != "" {
		return id == controlPlane
	}
	return sa.Name == controllerAccount(cluster)
}

// isImpersonator tells whether an account is one of those that may only impersonate.
func isImpersonator(sa *corev1.ServiceAccount) bool {
	return sa.Name == impersonator || strings.HasPrefix(sa.Name, impersonator+"-")
}

// holders are the accounts with which other control planes hold a member. Known says that this control plane has the
// cluster already, so that an account of its name without an id is its own.
func holders(accounts []corev1.ServiceAccount, cluster, controlPlane string, known bool) []string {
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

// suffixOf is what the name of an account for a control plane's own work ends with; false if it is not the account of this
// cluster.
func suffixOf(sa *corev1.ServiceAccount, cluster, controlPlane string) (string, bool) {
	rest, ok := strings.CutPrefix(sa.Name, controllerAccount(cluster))
	return rest, ok && (rest == "" || rest == sharedSuffix(controlPlane))
}

func sharedSuffix(controlPlane string) string {
	return "-" + controlPlane[:min(len(controlPlane), accountIDLength)]
}

// suffix is what the names of this control plane's accounts end with in a member: that which they have already, a part of
// the id in a member that others hold, and nothing otherwise.
func suffix(accounts []corev1.ServiceAccount, cluster, controlPlane string, shared bool) string {
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

// suffixed is an account under the names that it has in a shared member.
func (a account) suffixed(suffix string) account {
	a.name += suffix
	a.role += suffix
	return a
}

// of is an account that carries the id of its control plane.
func (a account) of(controlPlane string) account {
	a.controlPlane = controlPlane
	return a
}

// annotations are what the account's objects in a member have.
func (a account) annotations() map[string]string {
	if a.controlPlane == "" {
		return nil
	}
	return map[string]string{workv1alpha1.ControlPlaneAnnotation: a.controlPlane}
}

// named is an account under the name that its token says. Any other token leaves it as it is.
func (a account) named(token []byte) account {
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
	if rest, ok := strings.CutPrefix(name, a.name); ok {
		return a.suffixed(rest)
	}
	return a
}

// controlPlaneID reads the id of the control plane.
func controlPlaneID(ctx context.Context, hub client.Client) (string, error) {
	ns := &corev1.Namespace{}
	if err := hub.Get(ctx, client.ObjectKey{Name: kubeSystem}, ns); err != nil {
		return "", fmt.Errorf("reading the id of the control plane (the uid of its namespace %s): %w", kubeSystem, err)
	}
	return string(ns.UID), nil
}

// share decides under which names this control plane joins a member, and refuses one that others hold unless that is wanted.
func (j *joiner) share(ctx context.Context, known bool) (string, error) {
	id, err := controlPlaneID(ctx, j.hub)
	if err != nil {
		return "", err
	}
	j.controlPlane = id
	accounts, err := accountsIn(ctx, j.member)
	if err != nil {
		return "", err
	}
	others := holders(accounts, j.options.Name, id, known)
	if len(others) > 0 && !j.options.Share {
		return "", fmt.Errorf("the cluster is a member of another control plane: %s; --share joins it all the same, and each control plane keeps its own objects",
			strings.Join(others, ", "))
	}
	return suffix(accounts, j.options.Name, id, len(others) > 0), nil
}

// leave takes everything of ours out of a member. What several control planes share stays until the last one goes.
func leave(ctx context.Context, cluster, controlPlane string, member kubernetes.Interface) error {
	accounts, err := accountsIn(ctx, member)
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
		if !isImpersonator(sa) || id != controlPlane && (id != "" || !last) || sa.Name == impersonator && lent {
			continue
		}
		if err := impersonatorOf().suffixed(strings.TrimPrefix(sa.Name, impersonator)).remove(ctx, member); err != nil {
			return err
		}
		if err := removeRoles(ctx, sa.Name, member); err != nil {
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
			own := controllerOf(cluster).suffixed(rest)
			if err := own.removeRenewalSecret(ctx, member); err != nil {
				return err
			}
			if err := own.remove(ctx, member); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeRoles deletes the roles of an impersonator in namespaces, which stay when the objects of a Cluster are kept. The next
// control plane that joins the member makes an account of the same name, which must not have their rights.
func removeRoles(ctx context.Context, name string, member kubernetes.Interface) error {
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
