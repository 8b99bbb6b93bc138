package servers_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/datadir"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestAStandbyOnExternalEtcd has a standby follow a control plane on an external etcd, with its keys in the same etcd. One command takes over,
// without a flag for etcd. Nothing changes in the member until a person resumes it, and the keys of the old control plane stay as they are. It
// takes 55 s beside other tests, for its control planes, etcd and a member.
func TestAStandbyOnExternalEtcd(t *testing.T) {
	etcd := startEtcd(t)
	servers := strings.Join(etcd.endpoints(), ",")
	hub := fleettest.StartHub(t, "--etcd-servers", servers)
	cluster := fleettest.StartMember(t, member, "--bare")
	hub.Join(t, member, cluster.Kubeconfig)
	const ns = "standby"
	changed, secret := fleettest.ConfigMap(ns, "changed", map[string]string{"version": "1"}), fleettest.Secret(ns, "password", map[string]string{"k": "v"})
	for _, o := range []client.Object{ // which the end of the test cannot delete: the hub is killed
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}},
		fleettest.Policy(ns, "all", fleettest.To(member), &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}),
		changed.DeepCopy(), secret,
	} {
		if err := hub.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(version string) {
		t.Helper()
		fleettest.ExpectEventually(t, cluster.Cluster, changed.DeepCopy(), func(cm *corev1.ConfigMap) error {
			if got := cm.Data["version"]; got != version {
				return fmt.Errorf("the member has version %q, want %q", got, version)
			}
			return nil
		})
	}
	expect("1")

	backups, standby, passphrase := t.TempDir(), filepath.Join(t.TempDir(), "standby"), filepath.Join(t.TempDir(), "passphrase")
	if err := os.WriteFile(passphrase, []byte("correct horse battery\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		r := fleettest.Flagship(t, args...)
		if r.Code != 0 {
			t.Fatalf("%v: %s%s", args, r.Stdout, r.Stderr)
		}
		return r.Stdout
	}
	save := func(args ...string) string {
		t.Helper()
		saved, _, _ := strings.Cut(run(append([]string{"backup", "create", "--to", backups, "--passphrase-file", passphrase}, args...)...), ":")
		return saved
	}
	following := fleettest.Background(t, "restore", "follow", "--from", backups, "--dir", standby, "--every", "1s", "--passphrase-file", passphrase, "--etcd-servers", servers)
	prints := func(text string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := following.WaitFor(ctx, text); err != nil {
			t.Fatalf("%v\n%s", err, following.Output())
		}
	}
	for range 2 { // the keys of the first are removed after the second
		prints("restored " + save("--data-dir", hub.Dir, "--etcd-servers", servers))
	}
	eventually(t, "the standby has the keys of one backup", func(ctx context.Context) error {
		prefixes, err := etcd.standbys(ctx)
		if err == nil && len(prefixes) != 1 {
			err = fmt.Errorf("it has those of %d", len(prefixes))
		}
		return err
	})

	fleettest.Update(t, hub.Cluster, changed.DeepCopy(), func(cm *corev1.ConfigMap) { cm.Data["version"] = "2" })
	expect("2")
	hub.Kill()
	before := etcd.count(t, "/registry/")
	taken := fleettest.StartHubIn(t, filepath.Join(standby, "current"))
	prints("a server was started on the standby")
	held(t, taken, metav1.ConditionTrue)
	got := &corev1.Secret{} // decrypted with the key of the standby
	eventually(t, "the Secret is read", func(ctx context.Context) error {
		return taken.Get(ctx, client.ObjectKeyFromObject(secret), got)
	})
	if string(got.Data["k"]) != "v" {
		t.Errorf("the Secret has %q", got.Data)
	}
	if r := fleettest.Flagship(t, "server", "--data-dir", filepath.Join(standby, "current"), "--etcd-servers", servers, "--etcd-prefix", "/registry"); r.Code == 0 ||
		!strings.Contains(r.Stderr, "leave --etcd-prefix out") {
		t.Errorf("a server with the keys of another control plane: %+v", r)
	}
	run("backup", "verify", save("--data-dir", filepath.Join(standby, "current")), "--passphrase-file", passphrase)
	expect("2")
	if after := etcd.count(t, "/registry/"); after != before {
		t.Errorf("the old control plane had %d keys, and has %d", before, after)
	}

	run("restore", "resume", "--all", "--kubeconfig", taken.Kubeconfig)
	expect("1")
	held(t, taken, metav1.ConditionFalse)
}

// TestAnInterruptedRestore is no control plane: a server would serve a part of it.
func TestAnInterruptedRestore(t *testing.T) {
	if testing.Short() {
		t.Skip("needs processes of its own")
	}
	etcd := startEtcd(t)
	if _, err := etcd.client.Put(t.Context(), "/half/flagship.io/restored", "restoring"); err != nil {
		t.Fatal(err)
	}
	half := t.TempDir()
	if err := os.WriteFile(filepath.Join(half, datadir.RestoringFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"was interrupted: remove the directory": {"--data-dir", half},
		`/half/ cannot be used: their state is "restoring"`: {
			"--data-dir", filepath.Join(t.TempDir(), "new"), "--etcd-servers", strings.Join(etcd.endpoints(), ","), "--etcd-prefix", "half/",
		},
	} {
		if r := fleettest.Flagship(t, append([]string{"server", "--port", "0"}, args...)...); r.Code == 0 || !strings.Contains(r.Stderr, want) {
			t.Errorf("%v: %+v, want %q", args, r, want)
		}
	}
	if keys := etcd.count(t, "/half/"); keys != 1 {
		t.Errorf("a server that is refused has written %d keys", keys-1)
	}
}

// standbys are the prefixes of backups that were restored for a standby.
func (c *etcdCluster) standbys(ctx context.Context) (map[string]bool, error) {
	keys, err := c.client.Get(ctx, "/flagship-standby/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, kv := range keys.Kvs {
		found[strings.Split(string(kv.Key), "/")[2]] = true
	}
	return found, nil
}

// count returns how many keys have a prefix. Those that end by themselves do not count.
func (c *etcdCluster) count(t *testing.T, prefix string) (count int) {
	t.Helper()
	eventually(t, "keys are counted", func(ctx context.Context) error {
		keys, err := c.client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			return err
		}
		count = 0
		for _, kv := range keys.Kvs {
			if kv.Lease == 0 {
				count++
			}
		}
		return nil
	})
	return count
}

// held waits until the cluster is held, or is not.
func held(t *testing.T, hub *fleettest.Part, want metav1.ConditionStatus) {
	t.Helper()
	eventually(t, "dispatching is held: "+string(want), func(ctx context.Context) error {
		found := &clusterv1alpha1.Cluster{}
		if err := hub.Get(ctx, client.ObjectKey{Name: member}, found); err != nil {
			return err
		}
		c := meta.FindStatusCondition(found.Status.Conditions, clusterv1alpha1.ClusterConditionDispatchingHeld)
		if c == nil {
			return errors.New("the cluster has no such condition")
		}
		if c.Status != want {
			return fmt.Errorf("the condition is %s: %s", c.Status, c.Message)
		}
		return nil
	})
}
