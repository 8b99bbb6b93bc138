package attacks_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// unjoinWait is less than the time that a command may take, and more than any unjoin does on a machine far busier.
const unjoinWait = "--wait=110s"

// TestRemovingAClusterKeepsItsObjects removes a Cluster without a word about the objects in it: with kubectl, where they
// stay, and with unjoin, which refuses until a flag says what to do. It takes 75 s beside other tests, in which commands wait for a member that is away.
func TestRemovingAClusterKeepsItsObjects(t *testing.T) {
	t.Parallel()
	hub := fleettest.StartHub(t).Cluster
	member := fleettest.StartMember(t, "leaver", "--bare")
	join := func() string {
		t.Helper()
		r := fleettest.Flagship(t, "join", "leaver", "--kubeconfig", hub.Kubeconfig, "--cluster-kubeconfig", member.Kubeconfig)
		if r.Code != 0 {
			t.Fatalf("joining: %s%s", r.Stdout, r.Stderr)
		}
		return r.Stderr
	}
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "leaver"}}
	propagate := func() *corev1.ConfigMap {
		t.Helper()
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
		fleettest.Create(t, hub, ns)
		cm := fleettest.ConfigMap(ns.Name, "kept", map[string]string{"a": "1"})
		fleettest.Create(t, hub, cm, fleettest.Policy(ns.Name, "all", fleettest.To("leaver"), cm))
		fleettest.ExpectEventually(t, member.Cluster, fleettest.ConfigMap(ns.Name, "kept", nil), fleettest.Exists)
		return fleettest.ConfigMap(ns.Name, "kept", nil)
	}

	join()
	first := propagate()
	fleettest.Delete(t, hub, cluster)
	fleettest.ExpectGone(t, hub, cluster)
	released := func(labels map[string]string) error {
		if labels[workv1alpha1.ManagedLabel] != "" {
			return fmt.Errorf("still has labels %v", labels)
		}
		return nil
	}
	fleettest.ExpectEventually(t, member.Cluster, first, func(cm *corev1.ConfigMap) error { return released(cm.Labels) })
	fleettest.ExpectEventually(t, member.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: first.Namespace}}, func(ns *corev1.Namespace) error {
		if ns.DeletionTimestamp != nil {
			t.Fatal("the namespace is being deleted")
		}
		return released(ns.Labels)
	})
	fleettest.ExpectListed(t, hub, &corev1.EventList{}, metav1.NamespaceDefault, func(l *corev1.EventList) error {
		for _, e := range l.Items {
			if e.Reason == "KeepObjects" && e.InvolvedObject.Name == "leaver" && strings.HasPrefix(e.Message, "Keeping ") {
				return nil
			}
		}
		return fmt.Errorf("no event says what was kept")
	})

	// What was kept is taken back as it is: the template follows again, and so does its deletion.
	kept := fleettest.ExpectEventually(t, member.Cluster, first, fleettest.Exists)
	stranger := fleettest.ConfigMap(first.Namespace, "stranger", map[string]string{"a": "theirs"})
	fleettest.Create(t, member.Cluster, stranger)
	if out := join(); !strings.Contains(out, "objects in the cluster that this control plane released before have a template") {
		t.Errorf("joining says %q of what it takes back", out)
	}
	ours := fleettest.ConfigMap(first.Namespace, "stranger", map[string]string{"a": "ours"})
	fleettest.Create(t, hub, ours, fleettest.Policy(first.Namespace, "stranger", fleettest.To("leaver"), ours))
	fleettest.Update(t, hub, first, func(cm *corev1.ConfigMap) { cm.Data = map[string]string{"a": "2"} })
	fleettest.ExpectEventually(t, member.Cluster, first, func(cm *corev1.ConfigMap) error {
		switch {
		case cm.UID != kept.UID:
			t.Fatal("it was made anew")
		case cm.Data["a"] != "2":
			return fmt.Errorf("it has %v", cm.Data)
		case cm.Labels[workv1alpha1.ReleasedByLabel] != "":
			return fmt.Errorf("it is still marked as released")
		}
		return nil
	})
	second := propagate()
	command := []string{"unjoin", "leaver", unjoinWait, "--kubeconfig", hub.Kubeconfig}
	fleettest.ExpectRefusal(t, "--keep-objects or --delete-objects", command...)

	r := fleettest.Flagship(t, append(command, "--delete-objects", "--dry-run", "-o", "json")...)
	var contents []membership.Contents
	if err := json.Unmarshal([]byte(r.Stdout), &contents); err != nil {
		t.Fatalf("the dry run printed %s%s: %v", r.Stdout, r.Stderr, err)
	}
	want := membership.Contents{Namespace: second.Namespace, APIVersion: "v1", Kind: "ConfigMap", Objects: 1}
	found := false
	for _, c := range contents {
		found = found || c == want
	}
	if !found {
		t.Errorf("the dry run lists %+v, want %+v among them", contents, want)
	}
	fleettest.ExpectEventually(t, hub, cluster, func(c *clusterv1alpha1.Cluster) error {
		if c.DeletionTimestamp != nil || clusterv1alpha1.DeletesObjects(c) {
			t.Fatal("the dry run or the refused command changed the Cluster")
		}
		return nil
	})

	if r := fleettest.Flagship(t, append(command, "--delete-objects")...); r.Code != 0 {
		t.Fatalf("unjoining: %s%s", r.Stdout, r.Stderr)
	}
	fleettest.ExpectGone(t, member.Cluster, second)
	fleettest.ExpectGone(t, member.Cluster, first)
	fleettest.ExpectEventually(t, member.Cluster, stranger, func(cm *corev1.ConfigMap) error { // no control plane released it
		if cm.Data["a"] != "theirs" {
			return fmt.Errorf("it has %v", cm.Data)
		}
		return nil
	})

	// Events are written in order: those of a third membership follow those of the two that have ended.
	join()
	fleettest.ExpectEventually(t, hub, cluster, ready)
	third := fleettest.ExpectEventually(t, hub, cluster, fleettest.Exists)
	fleettest.ExpectListed(t, hub, &corev1.EventList{}, metav1.NamespaceDefault, func(l *corev1.EventList) error {
		arrived := false
		for _, e := range l.Items {
			if e.InvolvedObject.Name != "leaver" {
				continue
			}
			// The namespace of the first membership stays, and may be reported: it holds what that one kept.
			kept := e.Reason == "NamespaceReleased" && strings.Contains(e.Message, first.Namespace)
			if e.Type == corev1.EventTypeWarning && e.InvolvedObject.UID != third.UID && !kept {
				t.Errorf("leaving without trouble ends with the warning %s: %s", e.Reason, e.Message)
			}
			arrived = arrived || e.Reason == "CreateExecutionSpaceSucceed" && e.InvolvedObject.UID == third.UID
		}
		if !arrived {
			return fmt.Errorf("the events of the third membership are missing")
		}
		return nil
	})
	if r := fleettest.Flagship(t, append(command, "--delete-objects")...); r.Code != 0 {
		t.Fatalf("unjoining: %s%s", r.Stdout, r.Stderr)
	}
}
