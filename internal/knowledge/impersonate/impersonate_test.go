package impersonate_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flagship-k8s/flagship/internal/knowledge/impersonate"
)

func binding(role string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: role}, Subjects: subjects}
}

func user(name string) rbacv1.Subject  { return rbacv1.Subject{Kind: "User", Name: name} }
func group(name string) rbacv1.Subject { return rbacv1.Subject{Kind: "Group", Name: name} }
func account(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: name}
}

var rules = map[string]rbacv1.PolicyRule{
	"proxy":     {APIGroups: []string{"cluster.karmada.io"}, Resources: []string{"clusters/proxy"}, Verbs: []string{"get"}},
	"all":       {APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
	"any-proxy": {APIGroups: []string{"cluster.karmada.io"}, Resources: []string{"*/proxy"}, Verbs: []string{"*"}},
	"m1-only":   {APIGroups: []string{"cluster.karmada.io"}, Resources: []string{"clusters/proxy"}, ResourceNames: []string{"m1"}, Verbs: []string{"*"}},
	"m2-only":   {APIGroups: []string{"cluster.karmada.io"}, Resources: []string{"clusters/proxy"}, ResourceNames: []string{"m2"}, Verbs: []string{"*"}},
	"clusters":  {APIGroups: []string{"cluster.karmada.io"}, Resources: []string{"clusters"}, Verbs: []string{"*"}},
	"nodes":     {APIGroups: []string{""}, Resources: []string{"nodes/proxy"}, Verbs: []string{"*"}},
}

func role(name string) *rbacv1.ClusterRole {
	rule, ok := rules[name]
	if !ok {
		return nil
	}
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}}
}

func TestHolders(t *testing.T) {
	got := impersonate.Holders("m1", []*rbacv1.ClusterRoleBinding{
		binding("proxy", user("a"), group("dev"), account("shop", "robot")),
		binding("all", user("b"), group("system:masters"), group("system:nodes"), user("system:kube-scheduler"), account("kube-system", "x"),
			account("karmada-cluster", "karmada-m1"), group("kubeadm:cluster-admins")),
		binding("any-proxy", user("system:serviceaccount:shop:second"), user("system:serviceaccount:kube-system:y")),
		binding("m1-only", user("c")),
		binding("m2-only", user("not-here")),
		binding("clusters", user("not-the-proxy")),
		binding("nodes", user("other-proxy")),
		binding("missing", user("no-role")),
		binding("proxy", group("system:serviceaccounts:team"), group("system:serviceaccounts:kube-system"), group("system:serviceaccounts"), group("system:authenticated")),
	}, role)
	want := impersonate.Subjects{
		Users: []string{"a", "b", "c"}, Groups: []string{"dev"},
		Accounts: map[string][]string{"shop": {"robot", "second"}, "team": nil},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
}

func TestIdentity(t *testing.T) {
	subjects := impersonate.Subjects{
		Users: []string{"a"}, Groups: []string{"dev", "ops"}, Accounts: map[string][]string{"shop": {"robot"}, "team": nil},
	}
	cases := map[string]struct {
		user   string
		groups []string
		want   *impersonate.Identity // nil: forbidden
	}{
		"a named user":                  {"a", []string{"other", "dev", "system:authenticated"}, &impersonate.Identity{User: "a", Groups: []string{"dev"}}},
		"a user of a group":             {"z", []string{"dev", "ops", "system:authenticated"}, &impersonate.Identity{User: "flagship:group-member", Groups: []string{"dev", "ops"}, Extra: "z"}},
		"a user whom nothing names":     {"z", []string{"other", "system:authenticated"}, nil},
		"a named account":               {"system:serviceaccount:shop:robot", []string{"system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"}, &impersonate.Identity{User: "system:serviceaccount:shop:robot"}},
		"another account":               {"system:serviceaccount:shop:other", nil, nil},
		"any account of a namespace":    {"system:serviceaccount:team:x", nil, &impersonate.Identity{User: "system:serviceaccount:team:x"}},
		"an account of kube-system":     {"system:serviceaccount:kube-system:x", nil, nil},
		"an account of our own":         {"system:serviceaccount:karmada-cluster:karmada-m1", nil, nil},
		"the group of everything":       {"a", []string{"system:masters"}, nil},
		"the group of nodes":            {"a", []string{"system:nodes"}, nil},
		"the administrators of kubeadm": {"a", []string{"kubeadm:cluster-admins"}, nil},
		"a component":                   {"system:kube-scheduler", []string{"dev"}, nil},
		"anonymous":                     {"system:anonymous", []string{"system:unauthenticated"}, nil},
		"a false account":               {"system:serviceaccount:shop", []string{"dev"}, nil},
		"the groups of another account": {"a", []string{"system:serviceaccounts:shop"}, nil},
		"a user who takes our own name": {"flagship:group-member", []string{"other"}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := subjects.Identity(c.user, c.groups)
			var forbidden *impersonate.ForbiddenError
			if c.want == nil {
				if !errors.As(err, &forbidden) {
					t.Errorf("got %+v, %v, want a refusal", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(*c.want, got); diff != "" {
				t.Errorf("identity (-want +got):\n%s", diff)
			}
		})
	}
}
