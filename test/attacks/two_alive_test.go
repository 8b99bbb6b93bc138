package attacks_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	members "github.com/flagship-k8s/flagship/internal/features/restore"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestRestoredControlPlaneBesideTheOldOne restores a backup while the control plane that it was made of goes on. The restored one waits, and
// the old one writes, until a person resumes the restored one. From then on the member follows that one, and the old one waits. It takes two
// minutes beside other tests: each of the two control planes sees the other after a period.
func TestRestoredControlPlaneBesideTheOldOne(t *testing.T) {
	t.Parallel()
	if fleettest.InPullMode() {
		t.Skip("an agent has one control plane at a time")
	}
	old := newVersions(t)
	const ns = versionsNamespace
	run := func(args ...string) {
		t.Helper()
		if r := fleettest.Flagship(t, args...); r.Code != 0 {
			t.Fatalf("%v: %s%s", args, r.Stdout, r.Stderr)
		}
	}
	set := func(v *versions, version string) {
		t.Helper()
		fleettest.Update(t, v.hub.Cluster, fleettest.ConfigMap(ns, "changed", nil), func(cm *corev1.ConfigMap) { cm.Data["version"] = version })
	}
	old.put("changed", "1")
	old.expect("changed", "1")
	backups, restored, passphrase := t.TempDir(), filepath.Join(t.TempDir(), "restored"), filepath.Join(t.TempDir(), "passphrase")
	if err := os.WriteFile(passphrase, []byte("correct horse battery\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run("backup", "create", "--data-dir", old.hub.Dir, "--to", backups, "--passphrase-file", passphrase)
	saved, err := filepath.Glob(filepath.Join(backups, "*"))
	if err != nil || len(saved) != 1 {
		t.Fatalf("the backups are %v: %v", saved, err)
	}
	set(old, "2")
	old.put("made", "1")
	old.expect("changed", "2")
	old.expect("made", "1")

	run("restore", "from", saved[0], "--data-dir", restored, "--passphrase-file", passphrase)
	next := &versions{t: t, hub: fleettest.StartHubIn(t, restored), member: old.member}
	next.held(metav1.ConditionTrue)
	set(old, "3")
	old.expect("changed", "3")
	findings(t, next.hub, map[string]members.Class{"changed": members.Different, "made": members.Orphan}, "restore", "status")

	run("restore", "resume", "--all", "--kubeconfig", next.hub.Kubeconfig)
	next.held(metav1.ConditionFalse)
	east := &clusterv1alpha1.Cluster{}
	i := 0
	until(t, func() error { // the old one waits after a write
		i++
		set(old, fmt.Sprintf("old-%d", i))
		if err := old.hub.Get(t.Context(), client.ObjectKey{Name: "east"}, east); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(east.Status.Conditions, clusterv1alpha1.ClusterConditionDispatchingHeld) {
			return errors.New("the old control plane does not wait")
		}
		return nil
	})
	next.expect("changed", "1") // also if the old one wrote before it waited
	set(next, "5")
	next.expect("changed", "5")
	findings(t, old.hub, map[string]members.Class{"changed": members.Different, "made": ""}, "restore", "status")

	// What the old one orders now waits there, and the object in the member is not written again.
	var version string
	changed := fleettest.ConfigMap(ns, "changed", nil)
	fleettest.ExpectEventually(t, old.member.Cluster, changed, func(cm *corev1.ConfigMap) error { version = cm.ResourceVersion; return nil })
	old.put("late", "1")
	set(old, "6")
	waits := func(w *workv1alpha1.Work) error {
		c := meta.FindStatusCondition(w.Status.Conditions, workv1alpha1.WorkDispatching)
		if c == nil || c.Reason != workv1alpha1.DispatchingHeldReason {
			return fmt.Errorf("the condition is %+v", c)
		}
		return nil
	}
	fleettest.ExpectEventually(t, old.hub.Cluster, workFor("east", "ConfigMap", ns, "late"), waits)
	fleettest.ExpectEventually(t, old.hub.Cluster, workFor("east", "ConfigMap", ns, "changed"), waits)
	fleettest.Delete(t, old.hub.Cluster, changed)
	findings(t, old.hub, map[string]members.Class{"changed": members.Unwanted, "late": members.Missing}, "restore", "status")
	next.put("after", "1")
	next.expect("after", "1")
	fleettest.ExpectAbsent(t, old.member.Cluster, fleettest.ConfigMap(ns, "late", nil))
	fleettest.ExpectEventually(t, old.member.Cluster, changed, func(cm *corev1.ConfigMap) error {
		if cm.ResourceVersion != version || cm.Data["version"] != "5" {
			return fmt.Errorf("it has the version %q at %s, want 5 at %s", cm.Data["version"], cm.ResourceVersion, version)
		}
		return nil
	})
	next.held(metav1.ConditionFalse)

	old.hub.Kill() // and it waits on after a restart
	old.hub.Start(t)
	set(next, "7")
	next.expect("changed", "7")
	old.held(metav1.ConditionTrue)
}
