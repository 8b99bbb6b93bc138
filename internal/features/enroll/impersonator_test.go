package enroll

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// roleIn returns the ClusterRole that a Work of the loop carries.
func roleIn(t *testing.T, hub client.Client) *rbacv1.ClusterRole {
	t.Helper()
	work := &workv1alpha1.Work{}
	if err := hub.Get(t.Context(), client.ObjectKey{Namespace: "karmada-es-m1", Name: "karmada-impersonator-7cbb6bd5c9"}, work); err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{}
	if err := json.Unmarshal(work.Spec.Workload.Manifests[0].Raw, role); err != nil {
		t.Fatal(err)
	}
	return role
}

// TestTheRoleHasTheNameOfTheAccount: in a member of several control planes each has an account of its own, and touches the role
// of no other.
func TestTheRoleHasTheNameOfTheAccount(t *testing.T) {
	for name, suffix := range map[string]string{"alone": "", "shared": "-abcdefgh"} {
		t.Run(name, func(t *testing.T) {
			f := joined(t, "m1")
			if err := rbacv1.AddToScheme(f.hub.Scheme()); err != nil {
				t.Fatal(err)
			}
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-cluster", Name: "m1-impersonator"}}
			f.get(secret)
			claims := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"system:serviceaccount:karmada-cluster:karmada-impersonator` + suffix + `"}`))
			secret.Data["token"] = []byte("e30." + claims + ".c2ln")
			if err := f.hub.Update(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
			grant(t, f.hub)
			loop := &impersonators{client: f.hub, events: events.RecorderFunc(func(events.Event) {})}
			if _, err := loop.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "m1"}}); err != nil {
				t.Fatal(err)
			}
			role := roleIn(t, f.hub)
			if role.Name != "karmada-impersonator"+suffix || len(role.Rules) != 1 || role.Rules[0].ResourceNames[0] != "jane" {
				t.Errorf("got role %s with rules %+v", role.Name, role.Rules)
			}
		})
	}
}

func grant(t *testing.T, hub client.Client) {
	t.Helper()
	for _, o := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "proxy"}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{clusterv1alpha1.GroupName}, Resources: []string{"clusters/proxy"}, Verbs: []string{"get"},
		}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "proxy"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "proxy"},
			Subjects: []rbacv1.Subject{{Kind: "User", Name: "jane"}}},
	} {
		if err := hub.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWorksAreWrittenOnChange: a second look changes nothing, and without service accounts there is no third Work.
func TestWorksAreWrittenOnChange(t *testing.T) {
	f := joined(t, "m1")
	if err := rbacv1.AddToScheme(f.hub.Scheme()); err != nil {
		t.Fatal(err)
	}
	grant(t, f.hub)
	var reasons []string
	loop := &impersonators{client: f.hub, events: events.RecorderFunc(func(e events.Event) { reasons = append(reasons, e.Reason) })}
	versions := map[string]string{}
	for range 2 {
		if _, err := loop.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "m1"}}); err != nil {
			t.Fatal(err)
		}
		var works workv1alpha1.WorkList
		if err := f.hub.List(t.Context(), &works, client.InNamespace("karmada-es-m1")); err != nil {
			t.Fatal(err)
		}
		if len(works.Items) != 2 {
			t.Errorf("%d Works, want those of the ClusterRole and its binding", len(works.Items))
		}
		for _, w := range works.Items {
			if before, ok := versions[w.Name]; ok && before != w.ResourceVersion {
				t.Errorf("Work %s was written although nothing changed", w.Name)
			}
			versions[w.Name] = w.ResourceVersion
		}
	}
	if want := []string{events.SyncImpersonationConfigSucceed, events.SyncImpersonationConfigSucceed}; !slices.Equal(reasons, want) {
		t.Errorf("the events are %v, want %v", reasons, want)
	}
}

// TestLeavingRemovesRolesInNamespaces: also when the objects of the Cluster are kept.
func TestLeavingRemovesRolesInNamespaces(t *testing.T) {
	f := joined(t, "m1")
	ours := map[string]string{"karmada.io/system": "true"}
	for _, name := range []string{"karmada-impersonator", "other"} {
		meta := metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: ours}
		if _, err := f.member.RbacV1().RoleBindings("shop").Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := memberaccount.RemoveRoles(t.Context(), memberaccount.Impersonator, f.member); err != nil {
		t.Fatal(err)
	}
	left, err := f.member.RbacV1().RoleBindings("shop").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 1 || !strings.Contains(left.Items[0].Name, "other") {
		t.Errorf("left are %v, %v", left, err)
	}
	if _, err := f.member.RbacV1().RoleBindings("shop").Get(t.Context(), memberaccount.Impersonator, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the role of the impersonator: %v", err)
	}
}
