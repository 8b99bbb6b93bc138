package attacks_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// impersonatorRole is the role in a member that says whom the control plane may impersonate.
func impersonatorRole() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "karmada-impersonator"}}
}

// names returns whether a role allows to impersonate a name of a resource.
func names(role *rbacv1.ClusterRole, resource, name string) bool {
	return slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.Resources, resource) && (len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, name))
	})
}

func userNamed(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
}

// TestTheImpersonatorActsForThoseOnlyWhoMayUseTheProxy: the token behind clusters/proxy is worth no more than what those may
// do who hold clusters/proxy.
func TestTheImpersonatorActsForThoseOnlyWhoMayUseTheProxy(t *testing.T) {
	fleet := shared.Start(t)
	member := fleet.Member("member1")
	ns := fleet.Namespace(t)
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "proxy-"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{clusterv1alpha1.GroupName}, Resources: []string{"clusters/proxy"}, ResourceNames: []string{"member1"}, Verbs: []string{"*"},
		}},
	}
	fleettest.Create(t, fleet.Hub, role)
	grant := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{
			userNamed("proxy-user"), {APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "proxy-group"},
			{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:masters"}, userNamed("system:kube-controller-manager"),
			{Kind: rbacv1.ServiceAccountKind, Namespace: "kube-system", Name: "default"}, {Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "robot"},
		},
	}
	fleettest.Create(t, fleet.Hub, grant)
	fleettest.ExpectEventually(t, member, impersonatorRole(), func(r *rbacv1.ClusterRole) error {
		switch {
		case !names(r, "users", "proxy-user") || !names(r, "groups", "proxy-group"):
			return fmt.Errorf("a holder of clusters/proxy is not named: %+v", r.Rules)
		case names(r, "groups", "system:masters") || names(r, "users", "system:kube-controller-manager") || names(r, "serviceaccounts", "default"):
			return fmt.Errorf("a user is named who never acts in members: %+v", r.Rules)
		}
		return nil
	})
	fleettest.ExpectEventually(t, member, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "karmada-impersonator"}}, fleettest.Exists)
	fleettest.ExpectEventually(t, fleet.Member("member2"), impersonatorRole(), func(r *rbacv1.ClusterRole) error {
		if names(r, "users", "proxy-user") {
			return fmt.Errorf("the right for member1 counts in member2: %+v", r.Rules)
		}
		return nil
	})

	t.Run("a stolen token", func(t *testing.T) { stolenImpersonator(t, fleet, ns) })

	explainedIn(t, fleet.Hub.As(t, rest.ImpersonationConfig{UserName: "proxy-user"}), fleet, ns, false)
	t.Run("through the proxy", func(t *testing.T) {
		user := fleet.Hub.As(t, rest.ImpersonationConfig{UserName: "proxy-user"})
		pods := "/apis/cluster.karmada.io/v1alpha1/clusters/member1/proxy/api/v1/namespaces/" + ns + "/configmaps"
		until(t, func() error { // the member's authorizer receives a moment later who may be impersonated
			code, body := get(t, user, pods)
			if code == http.StatusOK {
				t.Fatal("a user without rights in the member reads there")
			}
			if code != http.StatusForbidden || !strings.Contains(body, `User \"proxy-user\" cannot list`) {
				return fmt.Errorf("a user without rights in the member: %d %s", code, body)
			}
			return nil
		})
		grantIn(t, member, ns, userNamed("proxy-user"), rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "proxy-group"},
			rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "robot"})
		groupMember := fleet.Hub.As(t, rest.ImpersonationConfig{UserName: "any-user", Groups: []string{"proxy-group"}})
		member.As(t, rest.ImpersonationConfig{UserName: "proxy-user"}).AwaitRight(t, authorizationv1.ResourceAttributes{Namespace: ns, Verb: "list", Resource: "configmaps"})
		robot := fleet.Hub.As(t, rest.ImpersonationConfig{UserName: "system:serviceaccount:" + ns + ":robot"})
		for name, who := range map[string]*fleettest.Cluster{"user": user, "member of a group": groupMember, "service account": robot} {
			until(t, func() error {
				if code, body := get(t, who, pods); code != http.StatusOK {
					return fmt.Errorf("%s with rights in the member: %d %s", name, code, body)
				}
				return nil
			})
		}
		masters := fleet.Hub.As(t, rest.ImpersonationConfig{UserName: "proxy-user", Groups: []string{"system:masters"}})
		if code, body := get(t, masters, pods); code != http.StatusForbidden || !strings.Contains(body, "members accept no user of the group") {
			t.Errorf("the group system:masters reached a member: %d %s", code, body)
		}
	})

	explainedIn(t, fleet.Hub.As(t, rest.ImpersonationConfig{UserName: "proxy-user"}), fleet, ns, true)

	fleettest.Delete(t, fleet.Hub, grant)
	fleettest.ExpectEventually(t, member, impersonatorRole(), func(r *rbacv1.ClusterRole) error {
		if names(r, "users", "proxy-user") || names(r, "groups", "proxy-group") {
			return fmt.Errorf("a right that was taken away is still there: %+v", r.Rules)
		}
		return nil
	})
}

// explainedIn has an object in a member explained: the answer has no more than what its author may read through the proxy.
func explainedIn(t *testing.T, user *fleettest.Cluster, fleet *fleettest.Fleet, ns string, may bool) {
	t.Helper()
	if !may {
		fleettest.Create(t, fleet.Member("member1"), fleettest.ConfigMap(ns, "plain", map[string]string{"key": "hidden"}))
		fleet.Hub.ClusterRights(t, "proxy-user", rbacv1.PolicyRule{APIGroups: []string{fleetv1alpha1.GroupName}, Resources: []string{"explanations"}, Verbs: []string{"create"}})
		user.AwaitRight(t, authorizationv1.ResourceAttributes{Verb: "create", Group: fleetv1alpha1.GroupName, Resource: "explanations"})
	}
	question := func(member, name string) *fleetv1alpha1.Explanation {
		return &fleetv1alpha1.Explanation{Spec: fleetv1alpha1.ExplanationSpec{Kind: "ConfigMap", Namespace: ns, Name: name, Member: member}}
	}
	for _, q := range []*fleetv1alpha1.Explanation{question("member1", "plain"), question("member1", "absent"), question("member2", "plain")} {
		err := user.Create(t.Context(), q)
		if allowed := may && q.Spec.Member == "member1"; !allowed {
			if !apierrors.IsForbidden(err) || len(q.Status.Steps) > 0 {
				t.Errorf("%s in %s: %v, want Forbidden", q.Spec.Name, q.Spec.Member, err)
			}
			continue
		}
		switch {
		case err != nil:
			t.Errorf("%s in %s: %v", q.Spec.Name, q.Spec.Member, err)
		case q.Spec.Name == "absent" && (q.Status.Object != nil || !strings.HasPrefix(q.Status.Summary, "There is no ")):
			t.Errorf("what is not in the member: %+v", q.Status)
		case q.Spec.Name == "plain" && !(len(q.Status.Steps) == 2 && q.Status.Steps[0].Message == "no control plane manages it" &&
			slices.ContainsFunc(q.Status.Steps[1].Fields, func(e fleetv1alpha1.FieldEdit) bool { return e.Path == ".data.key" && e.To == "" })):
			t.Errorf("what is in the member: %+v", q.Status)
		}
	}
}

// stolenImpersonator uses the token of karmada-impersonator at the member itself.
func stolenImpersonator(t *testing.T, fleet *fleettest.Fleet, ns string) {
	member := fleet.Member("member1")
	var secret corev1.Secret
	if err := fleet.Hub.Get(t.Context(), client.ObjectKey{Namespace: clusterv1alpha1.ClusterNamespace, Name: "member1-impersonator"}, &secret); err != nil {
		t.Fatal(err)
	}
	for name, identity := range map[string]rest.ImpersonationConfig{
		"masters":         {UserName: "proxy-user", Groups: []string{"system:masters"}},
		"another user":    {UserName: "kubernetes-admin"},
		"a component":     {UserName: "system:kube-controller-manager"},
		"kube-system":     {UserName: "system:serviceaccount:kube-system:default"},
		"the controllers": {UserName: "system:serviceaccount:karmada-cluster:karmada-member1"},
		"another account": {UserName: "system:serviceaccount:" + ns + ":other"},
	} {
		stolen := rest.AnonymousClientConfig(member.Config)
		stolen.BearerToken = string(secret.Data["token"])
		stolen.Impersonate = identity
		if code, _ := get(t, &fleettest.Cluster{Name: "member1", Config: stolen}, "/version"); code != http.StatusForbidden {
			t.Errorf("%s: the member answers %d, want 403", name, code)
		}
	}
}

// grantIn gives subjects the right to read ConfigMaps of a namespace in a member.
func grantIn(t *testing.T, member *fleettest.Cluster, ns string, subjects ...rbacv1.Subject) {
	t.Helper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list"}}},
	}
	fleettest.Create(t, member, role, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"}, Subjects: subjects,
	})
}
