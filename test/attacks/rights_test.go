package attacks_test

import (
	"context"
	"fmt"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

type policy = policyv1alpha1.PropagationPolicy

func clientKey(o client.Object) client.ObjectKey { return client.ObjectKeyFromObject(o) }

// mergePatch changes an object after a test, too.
func mergePatch(t *testing.T, c *fleettest.Cluster, o client.Object, patch []byte) {
	t.Helper()
	if err := c.Patch(context.WithoutCancel(t.Context()), o, client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Errorf("patching %s: %v", o.GetName(), err)
	}
}

// TestTheTokenOfAMemberIsWorthNoMoreThanItsRights joins a cluster with the rights to propagate one kind, and tries to do
// more there with the token that the control plane holds: as a client that reads the control plane's Secrets, or as a tenant.
func TestTheTokenOfAMemberIsWorthNoMoreThanItsRights(t *testing.T) {
	fleet := shared.Start(t)
	const name = "narrow"
	member := fleettest.StartMember(t, name)
	join := func(flags ...string) {
		t.Helper()
		args := append([]string{"join", name, "--kubeconfig", fleet.Hub.Kubeconfig, "--cluster-kubeconfig", member.Kubeconfig}, flags...)
		if r := fleettest.Flagship(t, args...); r.Code != 0 {
			t.Fatalf("joining: %s%s", r.Stdout, r.Stderr)
		}
	}
	join("--rights", "namespaced", "--kinds", "configmaps")
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	fleettest.ExpectEventually(t, fleet.Hub, cluster, withoutResources)

	stolen := tokenOf(t, fleet.Hub, member.Config, name)
	tryMore(t, stolen)
	fleettest.ExpectAbsent(t, fleet.Hub, fleettest.Secret("karmada-cluster", name+"-impersonator", nil))
	ctx := t.Context()
	if _, err := stolen.CoreV1().ServiceAccounts("karmada-cluster").CreateToken(ctx, "karmada-"+name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{}); err != nil {
		t.Errorf("the token cannot be renewed: %v", err)
	}

	// What the control plane may not write waits and says so; what it may write does not wait for it.
	ns := fleet.Namespace(t)
	denied, allowed := fleettest.Secret(ns, "denied", nil), fleettest.ConfigMap(ns, "allowed", nil)
	fleettest.Create(t, fleet.Hub, denied, fleettest.Policy(ns, "denied", fleettest.To(name), denied))
	fleettest.ExpectEventually(t, fleet.Hub, workFor(name, "Secret", ns, "denied"), refused("secrets", "flagship join "+name))
	fleettest.Create(t, fleet.Hub, allowed, fleettest.Policy(ns, "allowed", fleettest.To(name), allowed))
	fleettest.ExpectEventually(t, fleet.Hub, workFor(name, "ConfigMap", ns, "allowed"), applied)
	fleettest.ExpectEventually(t, member.Cluster, allowed, fleettest.Exists)

	// Joining again for a new token widens nothing. With another kind it does, and what waited arrives.
	join()
	tryMore(t, tokenOf(t, fleet.Hub, member.Config, name))
	join("--rights", "namespaced", "--kinds", "configmaps,secrets")
	fleettest.ExpectEventually(t, fleet.Hub, workFor(name, "Secret", ns, "denied"), applied)

	if r := fleettest.Flagship(t, "unjoin", name, "--keep-objects", unjoinWait, "--kubeconfig", fleet.Hub.Kubeconfig); r.Code != 0 {
		t.Fatalf("leaving: %s%s", r.Stdout, r.Stderr)
	}
	fleettest.ExpectEventually(t, member.Cluster, fleettest.ConfigMap(ns, "allowed", nil), func(c *corev1.ConfigMap) error {
		if c.Labels[workv1alpha1.ManagedLabel] != "" {
			return fmt.Errorf("it was not released: %v", c.Labels)
		}
		return nil
	})
	fleettest.ExpectGone(t, member.Cluster, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "karmada-controller-manager:karmada-" + name}})
}

// withoutResources is the condition of a Cluster that is ready, and reports that its nodes may not be read.
func withoutResources(c *clusterv1alpha1.Cluster) error {
	if err := fleettest.ConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady); err != nil {
		return err
	}
	if err := fleettest.ConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionCompleteAPIEnablements); err != nil {
		return err
	}
	if !meta.IsStatusConditionFalse(c.Status.Conditions, clusterv1alpha1.ClusterConditionResourcesReadable) || c.Status.ResourceSummary != nil {
		return fmt.Errorf("conditions %+v, summary %v: want no summary, and a condition that says why", c.Status.Conditions, c.Status.ResourceSummary)
	}
	return nil
}

// tokenOf is a client with the token that the control plane holds.
func tokenOf(t *testing.T, hub *fleettest.Cluster, access *rest.Config, cluster string) kubernetes.Interface {
	t.Helper()
	secret := fleettest.Secret("karmada-cluster", cluster, nil)
	if err := hub.Get(t.Context(), clientKey(secret), secret); err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(access)
	config.BearerToken = string(secret.Data["token"])
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// tryMore does with a token what the control plane was not allowed.
func tryMore(t *testing.T, stolen kubernetes.Interface) {
	t.Helper()
	ctx := t.Context()
	admin := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "pwned"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "mallory"}},
	}
	for what, attempt := range map[string]func() error{
		"become cluster-admin": func() error {
			_, err := stolen.RbacV1().ClusterRoleBindings().Create(ctx, admin, metav1.CreateOptions{})
			return err
		},
		"change its own role": func() error {
			_, err := stolen.RbacV1().ClusterRoles().Patch(ctx, "karmada-controller-manager:karmada-narrow", types.MergePatchType,
				[]byte(`{"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`), metav1.PatchOptions{})
			return err
		},
		"read Secrets": func() error {
			_, err := stolen.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{})
			return err
		},
		"read pods": func() error {
			_, err := stolen.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
			return err
		},
		"delete a namespace": func() error {
			return stolen.CoreV1().Namespaces().Delete(ctx, "default", metav1.DeleteOptions{})
		},
		"get a token of another account": func() error {
			_, err := stolen.CoreV1().ServiceAccounts("kube-system").CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
			return err
		},
		"make a Secret": func() error {
			_, err := stolen.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
			return err
		},
	} {
		if err := attempt(); !apierrors.IsForbidden(err) {
			t.Errorf("the token may %s: %v", what, err)
		}
	}
}
