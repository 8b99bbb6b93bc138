package attacks_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	members "github.com/flagship-k8s/flagship/internal/features/restore"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestBackupAndRestore makes a backup while objects are written, changes more, loses the machine, and takes over with a standby: nothing
// changes in the member until a person resumes it. That the changes came right after the backup makes no difference. The old control plane, when it
// comes back, does not fight the restored one. It takes 75 s beside other tests, for its control planes and a member.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	v := newVersions(t)
	hub, member, put, expect := v.hub, v.member, v.put, v.expect
	const ns = versionsNamespace
	run := func(args ...string) string {
		t.Helper()
		r := fleettest.Flagship(t, args...)
		if r.Code != 0 {
			t.Fatalf("%v: %s%s", args, r.Stdout, r.Stderr)
		}
		return r.Stdout
	}
	put("changed", "1")
	put("dropped", "1")
	secret := fleettest.Secret(ns, "password", map[string]string{"k": "v"})
	fleettest.Create(t, hub.Cluster, secret)
	expect("changed", "1")
	expect("dropped", "1")

	backups, passphrase := t.TempDir(), filepath.Join(t.TempDir(), "passphrase")
	if err := os.WriteFile(passphrase, []byte("correct horse battery\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	saved := backUpUnderLoad(t, hub, ns, "backup", "create", "--data-dir", hub.Dir, "--to", backups, "--keep", "2", "--passphrase-file", passphrase)
	if text := run("backup", "verify", saved, "--passphrase-file", passphrase); !strings.Contains(text, "is complete") {
		t.Errorf("verify printed %s", text)
	}
	if text := run("backup", "list", "--from", backups); !strings.Contains(text, saved) {
		t.Errorf("list printed %s", text)
	}

	standby := filepath.Join(t.TempDir(), "standby")
	following := fleettest.Background(t, "restore", "follow", "--from", backups, "--dir", standby, "--every", "1s", "--passphrase-file", passphrase)
	prints := func(text string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), fleettest.Patience)
		defer cancel()
		if err := following.WaitFor(ctx, text); err != nil {
			t.Fatalf("%v\n%s", err, following.Output())
		}
	}
	prints("restored " + saved)

	fleettest.Update(t, hub.Cluster, fleettest.ConfigMap(ns, "changed", nil), func(cm *corev1.ConfigMap) { cm.Data["version"] = "2" })
	put("made", "1")
	fleettest.Delete(t, hub.Cluster, fleettest.ConfigMap(ns, "dropped", nil))
	expect("changed", "2")
	expect("made", "1")
	fleettest.ExpectGone(t, member.Cluster, fleettest.ConfigMap(ns, "dropped", nil))

	hub.Kill()
	oldDir, newDir := hub.Dir, filepath.Join(t.TempDir(), "restored")
	if r := fleettest.Flagship(t, "restore", "from", saved, "--data-dir", oldDir, "--passphrase-file", passphrase); r.Code != 1 || !strings.Contains(r.Stderr, "is not empty") {
		t.Errorf("the old data directory: %+v", r)
	}
	run("restore", "from", saved, "--data-dir", newDir, "--passphrase-file", passphrase)
	hub.Start(t, "--data-dir", filepath.Join(standby, "current"))
	prints("a server was started on the standby")
	v.held(metav1.ConditionTrue)
	// What is encrypted in the storage is read with the restored key.
	fleettest.ExpectEventually(t, hub.Cluster, fleettest.Secret(ns, "password", nil), func(s *corev1.Secret) error {
		if string(s.Data["k"]) != "v" {
			return fmt.Errorf("the Secret has %q", s.Data)
		}
		return nil
	})
	findings(t, hub, map[string]members.Class{"changed": members.Different, "made": members.Orphan, "dropped": members.Missing}, "restore", "status")
	expect("changed", "2")
	expect("made", "1")
	fleettest.ExpectAbsent(t, member.Cluster, fleettest.ConfigMap(ns, "dropped", nil))

	// What was made after the backup gets a template again, and is the same object. The operator reads it in the member, whose owner allows it.
	fleettest.Create(t, member.Cluster, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "operators"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "flagship:operators"}},
	})
	made := fleettest.ConfigMap(ns, "made", nil)
	forge(t, hub, member)
	promoteRead(t, hub, made)
	var uid types.UID
	fleettest.ExpectEventually(t, member.Cluster, made, func(cm *corev1.ConfigMap) error { uid = cm.UID; return nil })

	resumeStepByStep(t, v, run)
	expect("changed", "1")
	expect("made", "1")
	// It is the template's now: it is managed, and no orphan any more.
	fleettest.Update(t, hub.Cluster, made, func(cm *corev1.ConfigMap) { cm.Data["version"] = "2" })
	expect("made", "2")
	findings(t, hub, map[string]members.Class{"made": ""}, "orphans")
	fleettest.ExpectEventually(t, member.Cluster, made, func(cm *corev1.ConfigMap) error {
		if cm.UID != uid {
			return fmt.Errorf("the object has the UID %s, want %s", cm.UID, uid)
		}
		return nil
	})

	// The old one comes back, after the restored one wrote to the member.
	hub.Kill()
	hub.Start(t, "--data-dir", oldDir)
	v.held(metav1.ConditionTrue)
	expect("changed", "1")
}

// forge has the owner of the member make objects that look as if the control plane had made them: one that gives rights on the control plane,
// one that its controllers act on, and one in a namespace of its own.
func forge(t *testing.T, hub, member *fleettest.Part) {
	t.Helper()
	like := fleettest.ExpectEventually(t, member.Cluster, fleettest.ConfigMap(versionsNamespace, "made", nil), fleettest.Exists)
	marks := func(name, namespace string) metav1.ObjectMeta {
		meta := metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: maps.Clone(like.Labels), Annotations: maps.Clone(like.Annotations)}
		meta.Annotations[workv1alpha1.WorkNameAnnotation] = "forged"
		return meta
	}
	everything := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}
	eve := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "eve"}}
	fleettest.Create(t, member.Cluster,
		&rbacv1.ClusterRoleBinding{ObjectMeta: marks("forged", ""), RoleRef: everything, Subjects: eve},
		&rbacv1.RoleBinding{ObjectMeta: marks("forged", versionsNamespace), RoleRef: everything, Subjects: eve},
		&corev1.Secret{ObjectMeta: marks("forged", versionsNamespace), Type: "bootstrap.kubernetes.io/token"},
		&corev1.ConfigMap{ObjectMeta: marks("forged", "kube-system")})
	findings(t, hub, map[string]members.Class{"forged": members.Orphan}, "restore", "status")
}

// promoteRead makes templates of what a dry run prints, and of nothing else.
func promoteRead(t *testing.T, hub *fleettest.Part, made *corev1.ConfigMap) {
	t.Helper()
	promote := []string{"promote", "--orphans", "--cluster", "east", "--kubeconfig", hub.Kubeconfig}
	run := func(args ...string) fleettest.Result { return fleettest.Flagship(t, slices.Concat(promote, args)...) }
	// Nothing of it is recorded on a control plane that was restored.
	until(t, func() error { // the member takes a moment to give the rights
		if r := run("--dry-run"); !strings.Contains(r.Stdout, "has no record that it had") || strings.Contains(r.Stdout, "would be created") {
			return fmt.Errorf("promote --dry-run: %+v", r)
		}
		return nil
	})
	unread := []string{"--unrecorded", "--with-policy"}
	shown := run(append(unread, "--dry-run")...)
	for _, want := range []string{"name: made", "would be created", "acts on the control plane", "belongs to the control plane"} {
		if !strings.Contains(shown.Stdout, want) {
			t.Errorf("promote --dry-run does not print %q: %+v", want, shown)
		}
	}
	if strings.Contains(shown.Stdout, "eve") {
		t.Errorf("what acts on the control plane is among what would be created: %s", shown.Stdout)
	}
	_, digest, _ := strings.Cut(strings.TrimSpace(shown.Stderr), "--expect ")
	digest, _, _ = strings.Cut(digest, "\n")
	fleettest.ExpectAbsent(t, hub.Cluster, made)
	if r := run(unread...); r.Code != 2 {
		t.Errorf("without a digest: %+v", r)
	}
	if r := run(append(unread, "--expect", digest[:len(digest)-1]+"x")...); r.Code == 0 || !strings.Contains(r.Stderr, "--dry-run") {
		t.Errorf("with another digest: %+v", r)
	}
	if r := run(append(unread, "-n", versionsNamespace, "clusterrolebinding/forged", "--expect", digest)...); r.Code == 0 {
		t.Errorf("a binding: %+v", r)
	}
	fleettest.ExpectAbsent(t, hub.Cluster, made)
	run(append(unread, "--expect", digest)...) // it fails for the others
	fleettest.ExpectEventually(t, hub.Cluster, made, fleettest.Exists)
	fleettest.ExpectAbsent(t, hub.Cluster, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "forged"}})
	fleettest.ExpectAbsent(t, hub.Cluster, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "forged", Namespace: versionsNamespace}})
	fleettest.ExpectAbsent(t, hub.Cluster, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "forged", Namespace: versionsNamespace}})
	fleettest.ExpectAbsent(t, hub.Cluster, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "forged", Namespace: "kube-system"}})
}

// backUpUnderLoad runs a command while objects are written, which makes one backup, and returns the file.
func backUpUnderLoad(t *testing.T, hub *fleettest.Part, namespace string, args ...string) string {
	t.Helper()
	stop := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			// The same hundred objects, however long the backup takes: a namespace has a limit.
			cm := fleettest.ConfigMap(namespace, fmt.Sprintf("load-%d", i%100), map[string]string{"k": strings.Repeat("x", 1000), "i": strconv.Itoa(i)})
			write := func() error { return hub.Create(t.Context(), cm) }
			if i >= 100 {
				write = func() error {
					return hub.Patch(t.Context(), cm, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"data":{"i":"%d"}}`, i)))
				}
			}
			if err := write(); err != nil {
				t.Errorf("writing during the backup: %v", err)
				return
			}
		}
	})
	r := fleettest.Flagship(t, args...)
	close(stop)
	writing.Wait()
	path, _, found := strings.Cut(r.Stdout, ":")
	if r.Code != 0 || !found {
		t.Fatalf("%v: %+v", args, r)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// resumeStepByStep has what is missing made, then what differs changed, and at last what is not applied any more deleted.
func resumeStepByStep(t *testing.T, v *versions, run func(...string) string) {
	t.Helper()
	hub, expect := v.hub, v.expect
	dropped := fleettest.ConfigMap(versionsNamespace, "dropped", nil)
	run("restore", "resume", "--all", "--only", "create", "--kubeconfig", hub.Kubeconfig)
	expect("dropped", "1")
	findings(t, hub, map[string]members.Class{"changed": members.Different, "dropped": ""}, "restore", "status")
	fleettest.Delete(t, hub.Cluster, dropped)
	leaves := func(work *workv1alpha1.Work) bool { return work.DeletionTimestamp != nil }
	fleettest.ExpectListed(t, hub.Cluster, &workv1alpha1.WorkList{}, workv1alpha1.ExecutionNamespace("east"), func(works *workv1alpha1.WorkList) error {
		for i := range works.Items {
			c := meta.FindStatusCondition(works.Items[i].Status.Conditions, workv1alpha1.WorkDispatching)
			if leaves(&works.Items[i]) && c != nil && c.Reason == workv1alpha1.DispatchingHeldReason {
				return nil
			}
		}
		return errors.New("no Work that is being deleted waits")
	})
	expect("changed", "2")
	findings(t, hub, map[string]members.Class{"changed": members.Different, "dropped": members.Unwanted}, "restore", "status")
	run("restore", "resume", "--cluster", "east", "--only", "create,change", "--kubeconfig", hub.Kubeconfig)
	expect("changed", "1")
	expect("dropped", "1")
	v.held(metav1.ConditionTrue)
	run("restore", "resume", "--all", "--kubeconfig", hub.Kubeconfig)
	v.held(metav1.ConditionFalse)
	fleettest.ExpectGone(t, v.member.Cluster, dropped)
}
