package faults_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// exitDamaged is the exit code of a process whose data is damaged.
const exitDamaged = 4

// TestStorageIsDamaged: a control plane whose data is damaged ends with what to do, at once. Its member keeps what it has, and with the data
// of before the damage everything goes on. It takes two minutes beside other tests, for the starts of a control plane with each kind of damage.
func TestStorageIsDamaged(t *testing.T) {
	t.Parallel()
	hub := fleettest.StartHub(t)
	member := fleettest.StartMember(t, "near", "--bare")
	hub.Join(t, "near", member.Kubeconfig)
	g := newGround(t, hub.Cluster, member.Cluster, "near")
	g.put("kept", 4, "1")
	g.converges()
	before := uids(t, member.Cluster, g.ns)

	for _, c := range []struct {
		name   string
		damage func(t *testing.T, log, database string)
		want   string
	}{
		{"TheNewestLogIsEmpty", func(t *testing.T, log, _ string) { truncateTo(t, log, 0) }, ".wal is empty"},
		{"TheNewestLogIsShort", func(t *testing.T, log, _ string) { truncateTo(t, log, 64<<10) }, "cannot be used"},
		{"APageIsOverwritten", func(t *testing.T, _, database string) { overwriteRoot(t, database) }, "the database: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			hub.Kill()
			restore := hub.Backup(t)
			log, database := dataOf(t, hub)
			c.damage(t, log, database)
			hub.Launch(t)
			hub.ExpectEnd(t, exitDamaged, c.want)
			restore(t)
			hub.Start(t)
			g.put("kept", 1, c.name)
			g.converges()
		})
	}
	for _, lost := range []string{"secret-encryption.key", "ca.key", ""} {
		t.Run("KeysAreLost/"+lost, func(t *testing.T) {
			hub.Kill()
			restore := hub.Backup(t)
			if err := os.RemoveAll(filepath.Join(hub.Dir, "pki", lost)); err != nil {
				t.Fatal(err)
			}
			hub.Launch(t)
			hub.ExpectEnd(t, exitDamaged, cmp.Or(lost, "ca.key, front-proxy-ca.key, service-account.key, secret-encryption.key"))
			restore(t)
			hub.Start(t)
			g.put("kept", 1, "found-"+lost)
			g.converges()
		})
	}
	t.Run("APageIsOverwrittenWhileItRuns", func(t *testing.T) {
		hub.Kill()
		restore := hub.Backup(t)
		hub.Start(t)
		_, database := dataOf(t, hub)
		// The library panics with the next write, in a goroutine of its own. Each write moves the page to another place, so that the one that
		// was found may be free by the time it is overwritten. What is written is not propagated: a member that had it would be held after the
		// restore.
		eventually(t, "it ends", func(ctx context.Context) error {
			if root, err := rootOf(restoredCopy(t, database)); err == nil {
				overwriteAt(t, database, root)
			}
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_ = hub.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "lost-"}})
			select {
			case <-hub.Ended():
				return nil
			case <-ctx.Done():
				return errors.New("it runs on damaged data")
			}
		})
		hub.Launch(t)
		hub.ExpectEnd(t, exitDamaged, "the database: ")
		restore(t)
		hub.Start(t)
		g.put("late", 1, "1")
		g.converges()
	})
	expectSame(t, before, uids(t, member.Cluster, g.ns))
}

// dataOf are the newest file of the write-ahead log and the database of a control plane.
func dataOf(t *testing.T, hub *fleettest.Part) (log, database string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(hub.Dir, "etcd", "member", "wal", "*.wal"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("there is no write-ahead log: %v", err)
	}
	return slices.Max(logs), filepath.Join(hub.Dir, "etcd", "member", "snap", "db")
}

func truncateTo(t *testing.T, file string, size int64) {
	t.Helper()
	if err := os.Truncate(file, size); err != nil {
		t.Fatal(err)
	}
}

func overwriteRoot(t *testing.T, database string) {
	t.Helper()
	root, err := rootOf(database)
	if err != nil {
		t.Fatal(err)
	}
	overwriteAt(t, database, root)
}

// rootOf is where the first of the pages with objects is. A copy that was made while the database was written may be none: the library
// panics then, or faults.
func rootOf(database string) (offset int64, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("%v", reason)
		}
	}()
	db, err := bbolt.Open(database, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	err = db.View(func(tx *bbolt.Tx) error {
		offset = int64(tx.Bucket([]byte("key")).Root()) * int64(db.Info().PageSize) //nolint:gosec // a small number
		return nil
	})
	return offset, errors.Join(err, db.Close())
}

// restoredCopy copies a database that a process has open.
func restoredCopy(t *testing.T, database string) string {
	t.Helper()
	content, err := os.ReadFile(database)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func overwriteAt(t *testing.T, file string, offset int64) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.WriteAt(bytes.Repeat([]byte{0xa5}, os.Getpagesize()), offset); err != nil {
		t.Fatal(err)
	}
}

// uids are those of our ConfigMaps in a namespace of a member.
func uids(t *testing.T, member *fleettest.Cluster, ns string) map[string]types.UID {
	t.Helper()
	list := &corev1.ConfigMapList{}
	if err := member.List(t.Context(), list, client.InNamespace(ns), client.MatchingLabels{workv1alpha1.ManagedLabel: workv1alpha1.ManagedLabelValue}); err != nil {
		t.Fatal(err)
	}
	found := map[string]types.UID{}
	for _, c := range list.Items {
		found[c.Name] = c.UID
	}
	return found
}

// expectSame fails if an object that was there is not, or is another one of the same name.
func expectSame(t *testing.T, before, after map[string]types.UID) {
	t.Helper()
	if len(before) == 0 {
		t.Error("there was nothing that could be lost")
	}
	for name, uid := range before {
		if after[name] != uid {
			t.Errorf("%s was deleted in the member", name)
		}
	}
}
