package enroll

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// anotherHub is a control plane with an id of its own.
func anotherHub(t *testing.T) client.Client {
	t.Helper()
	return ctrlfake.NewClientBuilder().WithScheme(newHub(t).Scheme()).WithStatusSubresource(&clusterv1alpha1.Cluster{}).
		WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: memberaccount.KubeSystem, UID: "22222222-other"}}).Build()
}

func (f *fixture) accounts() []string {
	f.t.Helper()
	list, err := f.member.CoreV1().ServiceAccounts("karmada-cluster").List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	var names []string
	for _, sa := range list.Items {
		names = append(names, sa.Name)
	}
	slices.Sort(names)
	return names
}

func TestJoiningAMemberOfAnotherControlPlane(t *testing.T) {
	f := joined(t, "m1")
	hub := anotherHub(t)
	j := joinerFor(hub, f.member, "m1")
	if err := j.Join(t.Context()); err == nil || !strings.Contains(err.Error(), "member of another control plane: hub-1") || !strings.Contains(err.Error(), "--share") {
		t.Fatalf("got %v, want a refusal that names the other control plane and the way", err)
	}
	if got, want := f.accounts(), []string{"karmada-impersonator", "karmada-m1"}; !slices.Equal(got, want) {
		t.Errorf("the member was changed: accounts %v, want %v", got, want)
	}
	j.Options.Share = true
	for range 2 { // joining again finds the same accounts
		if err := j.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []string{"karmada-impersonator", "karmada-impersonator-22222222", "karmada-m1", "karmada-m1-22222222"}
		if got := f.accounts(); !slices.Equal(got, want) {
			t.Errorf("accounts are %v, want %v", got, want)
		}
	}
	if err := memberaccount.Leave(t.Context(), "m1", "22222222-other", f.member); err != nil {
		t.Fatal(err)
	}
	if got, want := f.accounts(), []string{"karmada-impersonator", "karmada-m1"}; !slices.Equal(got, want) {
		t.Errorf("after the second has left: accounts %v, want %v", got, want)
	}
	if _, err := f.member.RbacV1().ClusterRoles().Get(t.Context(), "karmada-controller-manager:karmada-m1", metav1.GetOptions{}); err != nil {
		t.Errorf("the rights of the first: %v", err)
	}
	if err := memberaccount.Leave(t.Context(), "m1", "hub-1", f.member); err != nil {
		t.Fatal(err)
	}
	if _, err := f.member.CoreV1().Namespaces().Get(t.Context(), "karmada-cluster", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the last has left: the namespace: %v", err)
	}
}

func TestJoiningAMemberOfAnOlderControlPlane(t *testing.T) {
	f := joined(t, "m1")
	sa, err := f.member.CoreV1().ServiceAccounts("karmada-cluster").Get(t.Context(), "karmada-m1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sa.Annotations = nil // as older versions left it
	if _, err := f.member.CoreV1().ServiceAccounts("karmada-cluster").Update(t.Context(), sa, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := joinerFor(anotherHub(t), f.member, "m1").Join(t.Context()); err == nil || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("another control plane joins: %v", err)
	}
	if err := joinerFor(f.hub, f.member, "m1").Join(t.Context()); err != nil {
		t.Errorf("its own control plane joins again: %v", err)
	}
}

func TestTheAccountOfAToken(t *testing.T) {
	token := tokenFor("system:serviceaccount:karmada-cluster:karmada-m1-22222222", epoch, time.Hour)
	got := memberaccount.ControllerOf("m1").Named([]byte(token))
	if got.Name != "karmada-m1-22222222" || got.Role != "karmada-controller-manager:karmada-m1-22222222" {
		t.Errorf("got %s, %s", got.Name, got.Role)
	}
	for _, other := range []string{"", "no.json.web", tokenFor("system:serviceaccount:karmada-cluster:another", epoch, time.Hour)} {
		if got := memberaccount.ControllerOf("m1").Named([]byte(other)); got.Name != "karmada-m1" {
			t.Errorf("of %q: got %s", other, got.Name)
		}
	}
}
