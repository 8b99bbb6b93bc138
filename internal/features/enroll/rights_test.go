package enroll

import (
	"strings"
	"testing"

	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

func TestParseRights(t *testing.T) {
	cases := map[string]struct {
		reason, text string
		want         memberaccount.Rights
		wantErr      string
	}{
		"List": {"a list of rules is taken as it is",
			"- apiGroups: ['']\n  resources: [configmaps]\n  verbs: [get]\n",
			memberaccount.Rights{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}}, ""},
		"ClusterRole": {"so are the rules of a ClusterRole",
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: x}\nrules:\n- apiGroups: [apps]\n  resources: [deployments]\n  verbs: ['*']\n",
			memberaccount.Rights{{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"*"}}}, ""},
		"OtherKind":  {"another kind is no ClusterRole", "kind: Role\nrules: []\n", nil, "neither a list"},
		"Aggregated": {"the member replaces the rules of an aggregated role", "kind: ClusterRole\naggregationRule: {}\n", nil, "aggregated"},
		"Typo":       {"a misspelled field would drop a bound", "- apiGroups: ['']\n  resources: [secrets]\n  resourceName: [a]\n  verbs: [get]\n", nil, "neither a list"},
		"NoVerbs":    {"a rule without verbs grants nothing", "- apiGroups: ['']\n  resources: [secrets]\n", nil, "lacks verbs"},
		"NoGroups":   {"RBAC refuses a rule without groups", "- resources: [secrets]\n  verbs: [get]\n", nil, "lacks apiGroups"},
		"Empty":      {"no rule is a mistake", "[]\n", nil, "no rule"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := memberaccount.ParseRights([]byte(tc.text))
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Fatalf("%s: error %v, want %q", tc.reason, err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestParseKinds(t *testing.T) {
	got, err := memberaccount.ParseKinds([]string{"deployments.apps", "configmaps", "widgets.example.org"})
	want := []schema.GroupResource{{Group: "apps", Resource: "deployments"}, {Resource: "configmaps"}, {Group: "example.org", Resource: "widgets"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	for _, wrong := range [][]string{nil, {"*"}, {"Deployment"}, {"pods/exec"}, {"*.apps"}, {"deployments.*"}} {
		if kinds, err := memberaccount.ParseKinds(wrong); err == nil {
			t.Errorf("%q is taken for %v: a wildcard or a subresource would grant more than is named", wrong, kinds)
		}
	}
}

// TestReducedRightsHaveNoWildcard checks every rule that joining with bounded rights grants.
func TestReducedRightsHaveNoWildcard(t *testing.T) {
	rights := memberaccount.RightsOn(memberaccount.KindRights{Kinds: []schema.GroupResource{{Resource: "configmaps"}}, Resources: true, Events: true})
	a := memberaccount.ControllerOf("m1").With(rights)
	for _, rule := range append(a.Rules, a.Home...) {
		for _, part := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs} {
			for _, word := range part {
				if word == "*" || word == "escalate" || word == "bind" || word == "impersonate" {
					t.Errorf("the rule %v has %q", rule, word)
				}
			}
		}
	}
}

func TestJoinWithReducedRights(t *testing.T) {
	clock := clocktesting.NewFakeClock(epoch)
	hub, member := newHub(t), newMember("id-1", clock)
	j := joinerFor(hub, member, "m1")
	j.Options.Rights = memberaccount.RightsOn(memberaccount.KindRights{Kinds: []schema.GroupResource{{Resource: "configmaps"}}})
	j.Options.ApplyAs = "applier"
	if err := j.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	rules := func() []rbacv1.PolicyRule {
		t.Helper()
		role, err := member.RbacV1().ClusterRoles().Get(t.Context(), memberaccount.ControllerRole("m1"), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return role.Rules
	}
	first := rules()
	if memberaccount.Rights(first).All() {
		t.Error("the control plane has all rights")
	}
	if _, err := member.CoreV1().ServiceAccounts("karmada-cluster").Get(t.Context(), memberaccount.Impersonator, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the account that may impersonate every user: %v, want it absent", err)
	}
	cluster := &clusterv1alpha1.Cluster{}
	if err := hub.Get(t.Context(), client.ObjectKey{Name: "m1"}, cluster); err != nil {
		t.Fatal(err)
	}
	if cluster.Spec.ImpersonatorSecretRef != nil || cluster.Annotations[clusterv1alpha1.ApplyAsAnnotation] != "applier" {
		t.Errorf("impersonatorSecretRef is %v, annotations are %v", cluster.Spec.ImpersonatorSecretRef, cluster.Annotations)
	}
	secret := &corev1.Secret{}
	if err := hub.Get(t.Context(), client.ObjectKey{Namespace: "karmada-cluster", Name: "m1-impersonator"}, secret); !apierrors.IsNotFound(err) {
		t.Errorf("the Secret of the impersonator: %v, want it absent", err)
	}

	again := joinerFor(hub, member, "m1")
	if err := again.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, rules()); diff != "" {
		t.Errorf("joining again without a word about rights changes them (-before +after):\n%s", diff)
	}

	again.Options.Rights = memberaccount.AllRights()
	if err := again.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := hub.Get(t.Context(), client.ObjectKey{Name: "m1"}, cluster); err != nil {
		t.Fatal(err)
	}
	if !memberaccount.Rights(rules()).All() || cluster.Spec.ImpersonatorSecretRef == nil || cluster.Annotations[clusterv1alpha1.ApplyAsAnnotation] != "applier" {
		t.Errorf("with all rights again: rules %v, impersonatorSecretRef %v, annotations %v", rules(), cluster.Spec.ImpersonatorSecretRef, cluster.Annotations)
	}
}
