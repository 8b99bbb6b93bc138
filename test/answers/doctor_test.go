package answers_test

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// result is one of `flagship doctor -o json`.
type result struct{ Check, Status, Found, Next string }

// doctor breaks more things of the fleet and expects `flagship doctor` to report each, to an administrator and to a user without rights.
func doctor(t *testing.T, fleet *fleettest.Fleet, binary string) {
	fleettest.Create(t, fleet.Hub,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: workv1alpha1.ExecutionNamespace("ghost")}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "stuck"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "stuck", Name: "held", Finalizers: []string{"example.com/held"}}})
	alone := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: workv1alpha1.ExecutionNamespace("member1"), Name: "alone",
		Annotations: map[string]string{workv1alpha2.ResourceBindingNamespaceAnnotation: shop, workv1alpha2.ResourceBindingNameAnnotation: "gone-deployment"},
	}}
	suspended := true
	alone.Spec.SuspendDispatching = &suspended
	fleettest.Create(t, fleet.Hub, alone)
	stuck := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "stuck"}}
	if err := fleet.Hub.Delete(t.Context(), stuck); err != nil {
		t.Fatal(err)
	}
	fleettest.ExpectEventually(t, fleet.Hub, stuck, func(ns *corev1.Namespace) error {
		for _, c := range ns.Status.Conditions {
			if c.Type == corev1.NamespaceFinalizersRemaining && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return errors.New("its finalizers are not reported")
	})
	// The control plane may still read, and write nothing but ConfigMaps.
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "karmada-controller-manager:karmada-member2"}}
	fleettest.Update(t, fleet.Member("member2"), role, func(r *rbacv1.ClusterRole) {
		r.Rules = []rbacv1.PolicyRule{
			{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"*"}, Verbs: []string{"*"}}, {NonResourceURLs: []string{"*"}, Verbs: []string{"get"}},
		}
	})

	kubeconfig := filepath.Join(fleet.Dir, "hub.kubeconfig")
	wanted := []result{
		{"control-plane", "ok", "ready", ""},
		{"storage", "ok", "of the quota are used, the disk has", ""},
		{"certificates", "ok", "the first expires in", ""},
		{"credentials", "ok", "6 tokens for members are renewed in time", ""},
		{"clocks", "ok", "no clock is off", ""},
		{"members", "failure", "member3: ClusterNotReachable since", "docs/troubleshooting.md#a-member-is-not-ready"},
		{"versions", "ok", "3 members v1.", ""},
		{"permissions", "warning", "member2: the control plane may not create deployments.apps, patch deployments.apps, delete deployments.apps", ""},
		{"conditions", "warning", "ResourceBinding shop/api-deployment: Scheduled (NoClusterFit): 0/3", "'flagship explain deployment/api -n shop'"},
		{"deleting", "warning", "Namespace stuck: deleted", "docs/troubleshooting.md#an-object-cannot-be-deleted"},
		{"deleting", "warning", "example.com/held", ""},
		{"orphaned-works", "warning", "Work karmada-es-member1/alone: its binding shop/gone-deployment does not exist", ""},
		{"orphaned-works", "warning", "Namespace karmada-es-ghost: there is no Cluster ghost", ""},
	}
	fleettest.Eventually(t, "a result for everything that is wrong", func() bool { // metrics, and the authorizer of member2, follow a moment later
		found := examine(t, binary, kubeconfig, 2)
		for _, want := range wanted {
			if !slices.ContainsFunc(found, func(r result) bool {
				return r.Check == want.Check && r.Status == want.Status && strings.Contains(r.Found, want.Found) && strings.Contains(r.Next, want.Next)
			}) {
				t.Logf("no result is like %+v, there are\n%+v", want, found)
				return false
			}
		}
		return true
	})

	access, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range access.AuthInfos {
		user.Impersonate = "stranger"
	}
	stranger := filepath.Join(t.TempDir(), "stranger.kubeconfig")
	if err := clientcmd.WriteToFile(*access, stranger); err != nil {
		t.Fatal(err)
	}
	fleettest.Eventually(t, "results for a user without rights", func() bool { // a check of /readyz may fail for a moment
		found := examine(t, binary, stranger, 1)
		for _, r := range found {
			open := r.Check == "control-plane" || r.Check == "certificates"
			if open && r.Status != "ok" || !open && (r.Status != "unchecked" || !strings.Contains(r.Found, "forbidden")) {
				t.Logf("a user without rights gets %+v", r)
				return false
			}
		}
		return len(found) > 0
	})
}

// examine runs the command. It returns nothing if the exit code is another one than it is to have.
func examine(t *testing.T, binary, kubeconfig string, code int) []result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "doctor", "--kubeconfig", kubeconfig, "--patience", "0s", "-o", "json")
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok || err != nil && exit.ExitCode() != code || err == nil && code != 0 {
		t.Logf("ended with %v, want the code %d; it printed\n%s", err, code, out)
		return nil
	}
	var found []result
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	return found
}
