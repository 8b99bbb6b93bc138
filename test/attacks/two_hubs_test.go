package attacks_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// hubID is the id of a control plane.
func hubID(t *testing.T, hub *fleettest.Cluster) string {
	t.Helper()
	ns := &corev1.Namespace{}
	if err := hub.Get(t.Context(), types.NamespacedName{Name: metav1.NamespaceSystem}, ns); err != nil {
		t.Fatal(err)
	}
	return string(ns.UID)
}

// publish creates a ConfigMap with a value on a control plane, and sends it to its member.
func publish(t *testing.T, hub *fleettest.Cluster, ns, name, value string, resolution policyv1alpha1.ConflictResolution) *corev1.ConfigMap {
	t.Helper()
	template := fleettest.ConfigMap(ns, name, map[string]string{"owner": value})
	policy := fleettest.Policy(ns, name, fleettest.To("prod"), template)
	policy.Spec.ConflictResolution = resolution
	fleettest.Create(t, hub, template, policy)
	return template
}

func holds(value, controlPlane string) func(*corev1.ConfigMap) error {
	return func(c *corev1.ConfigMap) error {
		if c.Data["owner"] != value || c.Annotations[workv1alpha1.ControlPlaneAnnotation] != controlPlane {
			return fmt.Errorf("it has %q and belongs to control plane %q", c.Data["owner"], c.Annotations[workv1alpha1.ControlPlaneAnnotation])
		}
		return nil
	}
}

// complains is the condition of a Work that is not applied, with each of the texts in its message.
func complains(texts ...string) func(*workv1alpha1.Work) error {
	return func(w *workv1alpha1.Work) error {
		for _, c := range w.Status.Conditions {
			if c.Type != workv1alpha1.WorkApplied || c.Status != metav1.ConditionFalse {
				continue
			}
			for _, text := range texts {
				if !strings.Contains(c.Message, text) {
					return fmt.Errorf("Applied says %q, want %q in it", c.Message, text)
				}
			}
			return nil
		}
		return errors.New("Applied is not False")
	}
}

func workFor(cluster, kind, namespace, name string) *workv1alpha1.Work {
	return &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: workv1alpha1.ExecutionNamespace(cluster), Name: workv1alpha1.WorkName(kind, namespace, name),
	}}
}

// Two control planes have one member, under one name, so that all names in it are equal. Neither takes, fights over or
// deletes what the other one has, unless a user says so, and then once. It takes 100 s beside other tests, and starts three processes.
func TestTwoControlPlanesOnOneMember(t *testing.T) {
	t.Parallel()
	first, second := fleettest.StartHub(t), fleettest.StartHub(t)
	shared := fleettest.StartMember(t, "prod")
	first.Join(t, "prod", shared.Kubeconfig)
	fleettest.ExpectRefusal(t, "is a member of another control plane: "+hubID(t, first.Cluster),
		"join", "prod", "--kubeconfig", second.Kubeconfig, "--cluster-kubeconfig", shared.Kubeconfig)
	joinShared(t, second, "prod", shared.Kubeconfig)
	firstID, secondID := hubID(t, first.Cluster), hubID(t, second.Cluster)
	const ns = "shop"
	for _, hub := range []*fleettest.Part{first, second} {
		fleettest.Create(t, hub.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	}
	member := shared.Cluster

	template := publish(t, first.Cluster, ns, "settings", "first", policyv1alpha1.ConflictAbort)
	fleettest.ExpectEventually(t, member, template, holds("first", firstID))

	t.Run("AbortNamesTheOther", func(t *testing.T) {
		other := publish(t, second.Cluster, ns, "settings", "second", policyv1alpha1.ConflictAbort)
		fleettest.ExpectEventually(t, second.Cluster, workFor("prod", "ConfigMap", ns, "settings"), complains("another control plane", firstID))
		fleettest.ExpectEventually(t, member, template, holds("first", firstID))
		fleettest.Delete(t, second.Cluster, other, fleettest.Policy(ns, "settings", policyv1alpha1.Placement{}, other))
		fleettest.ExpectGone(t, second.Cluster, workFor("prod", "ConfigMap", ns, "settings"))
		fleettest.ExpectEventually(t, member, template, holds("first", firstID))
	})

	t.Run("OverwriteTakesOverOnce", func(t *testing.T) {
		// The first control plane has Overwrite, too: it does not take the object back.
		both := publish(t, first.Cluster, ns, "both", "first", policyv1alpha1.ConflictOverwrite)
		before := fleettest.ExpectEventually(t, member, both, holds("first", firstID))
		taken := publish(t, second.Cluster, ns, "both", "second", policyv1alpha1.ConflictOverwrite)
		fleettest.ExpectEventually(t, member, taken, holds("second", secondID))
		fleettest.ExpectEventually(t, first.Cluster, workFor("prod", "ConfigMap", ns, "both"), complains("taken over by another control plane", secondID))
		// A change of the loser's template is no reason to take it back.
		fleettest.Update(t, first.Cluster, both, func(c *corev1.ConfigMap) { c.Data["owner"] = "first again" })
		fleettest.ExpectEventually(t, first.Cluster, workFor("prod", "ConfigMap", ns, "both"), func(w *workv1alpha1.Work) error {
			if c := meta.FindStatusCondition(w.Status.Conditions, workv1alpha1.WorkApplied); c != nil && w.Generation == c.ObservedGeneration && w.Generation > 1 {
				return complains("taken over by another control plane")(w)
			}
			return errors.New("the change has not been seen")
		})
		after := fleettest.ExpectEventually(t, member, taken, func(c *corev1.ConfigMap) error {
			for _, entry := range c.ManagedFields {
				if entry.Operation == metav1.ManagedFieldsOperationApply && entry.Manager != "flagship-"+secondID[:8] {
					return fmt.Errorf("%s still owns fields", entry.Manager)
				}
			}
			return holds("second", secondID)(c)
		})
		if after.UID != before.UID {
			t.Error("the object was made anew")
		}
		// Nor does it delete the object of the other.
		fleettest.Delete(t, first.Cluster, both)
		fleettest.ExpectGone(t, first.Cluster, workFor("prod", "ConfigMap", ns, "both"))
		fleettest.ExpectEventually(t, member, taken, holds("second", secondID))
	})

	t.Run("WhatWasWrittenWithoutAnId", func(t *testing.T) {
		// Of a control plane that calls the member something else, by an older version.
		older := fleettest.ConfigMap(ns, "older", map[string]string{"owner": "older"})
		older.Labels = map[string]string{workv1alpha1.ManagedLabel: workv1alpha1.ManagedLabelValue}
		older.Annotations = map[string]string{
			workv1alpha1.WorkNamespaceAnnotation: workv1alpha1.ExecutionNamespace("elsewhere"),
			workv1alpha1.WorkNameAnnotation:      workv1alpha1.WorkName("ConfigMap", ns, "older"),
		}
		fleettest.Create(t, member, older)
		publish(t, first.Cluster, ns, "older", "first", policyv1alpha1.ConflictAbort)
		fleettest.ExpectEventually(t, first.Cluster, workFor("prod", "ConfigMap", ns, "older"), complains("another control plane"))
		fleettest.ExpectEventually(t, member, older, holds("older", ""))
	})

	t.Run("TheOtherLeaves", func(t *testing.T) {
		if r := fleettest.Flagship(t, "unjoin", "prod", "--delete-objects", unjoinWait, "--kubeconfig", second.Kubeconfig); r.Code != 0 {
			t.Fatalf("leaving: %s%s", r.Stdout, r.Stderr)
		}
		fleettest.ExpectEventually(t, member, template, holds("first", firstID))
		// The first control plane still has its rights.
		fleettest.Update(t, first.Cluster, template, func(c *corev1.ConfigMap) { c.Data["owner"] = "first still" })
		fleettest.ExpectEventually(t, member, template, holds("first still", firstID))
		if err := member.Get(t.Context(), client.ObjectKey{Name: ns}, &corev1.Namespace{}); err != nil {
			t.Errorf("the namespace that both use: %v", err)
		}
	})

	t.Run("MovingTheMember", func(t *testing.T) {
		before := fleettest.ExpectEventually(t, member, template, fleettest.Exists)
		joinShared(t, second, "prod", shared.Kubeconfig)
		moved := publish(t, second.Cluster, ns, "settings", "second", policyv1alpha1.ConflictOverwrite)
		fleettest.ExpectEventually(t, member, moved, holds("second", secondID))
		if r := fleettest.Flagship(t, "unjoin", "prod", "--keep-objects", unjoinWait, "--kubeconfig", first.Kubeconfig); r.Code != 0 {
			t.Fatalf("leaving: %s%s", r.Stdout, r.Stderr)
		}
		after := fleettest.ExpectEventually(t, member, moved, holds("second", secondID))
		if after.UID != before.UID {
			t.Error("the object was made anew on its way")
		}
		// What both used, the namespace, has one owner now.
		fleettest.ExpectEventually(t, member, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, func(n *corev1.Namespace) error {
			if id := n.Annotations[workv1alpha1.ControlPlaneAnnotation]; id != secondID {
				return fmt.Errorf("the namespace belongs to %q", id)
			}
			return nil
		})
		fleettest.Update(t, second.Cluster, moved, func(c *corev1.ConfigMap) { c.Data["owner"] = "second alone" })
		fleettest.ExpectEventually(t, member, moved, holds("second alone", secondID))
	})

	// What a control plane releases itself it takes back when the member joins again, and no other takes it unless its policy says Overwrite.
	t.Run("AndBack", func(t *testing.T) {
		before := fleettest.ExpectEventually(t, member, template, fleettest.Exists)
		if r := fleettest.Flagship(t, "unjoin", "prod", "--keep-objects", unjoinWait, "--kubeconfig", second.Kubeconfig); r.Code != 0 {
			t.Fatalf("leaving: %s%s", r.Stdout, r.Stderr)
		}
		first.Join(t, "prod", shared.Kubeconfig)
		fleettest.ExpectEventually(t, first.Cluster, workFor("prod", "ConfigMap", ns, "settings"), complains("already exists in the cluster"))
		fleettest.ExpectEventually(t, member, template, holds("second alone", ""))
		joinShared(t, second, "prod", shared.Kubeconfig)
		after := fleettest.ExpectEventually(t, member, template, holds("second alone", secondID))
		if after.UID != before.UID {
			t.Error("the object was made anew when it came back")
		}
		fleettest.Update(t, second.Cluster, template, func(c *corev1.ConfigMap) { c.Data["owner"] = "second again" })
		fleettest.ExpectEventually(t, member, template, holds("second again", secondID))
	})
}

func joinShared(t *testing.T, hub *fleettest.Part, name, kubeconfig string) {
	t.Helper()
	if r := fleettest.Flagship(t, "join", name, "--share", "--kubeconfig", hub.Kubeconfig, "--cluster-kubeconfig", kubeconfig); r.Code != 0 {
		t.Fatalf("joining %s: %s%s", name, r.Stdout, r.Stderr)
	}
}
