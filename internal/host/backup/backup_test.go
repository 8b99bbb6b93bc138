package backup_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/etcd"
	"github.com/flagship-k8s/flagship/internal/host/backup"
	"github.com/flagship-k8s/flagship/internal/host/backup/repository"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ignore(int64) {}

// key is the identity that decrypts the backups of a test.
func key(t testing.TB) *age.X25519Identity {
	t.Helper()
	i, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// dataDir makes the directory of a control plane whose storage runs until the test ends.
func dataDir(t testing.TB) backup.Storage {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	serve(t, dir)
	for name, content := range map[string]string{
		"pki/ca.crt": "certificate", "pki/ca.key": "key", "encryption.yaml": "configuration",
		"lock": "1", "audit/audit.log": "log", "etcd.log": "log", "etcd-2026.log": "log", "pki/.ca.key-123": "half",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return backup.Storage{DataDir: dir}
}

func serve(t testing.TB, dir string) {
	t.Helper()
	store, err := etcd.Open(t.Context(), etcd.Options{DataDir: dir, NoFsync: true, Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
}

// external runs an etcd that listens on a port.
func external(t *testing.T) *etcd.External {
	t.Helper()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = port.Close()
	dir, endpoint := t.TempDir(), url.URL{Scheme: "http", Host: port.Addr().String()}
	config := embed.NewConfig()
	config.Dir, config.LogLevel, config.UnsafeNoFsync = filepath.Join(dir, "data"), "panic", true
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{endpoint}, []url.URL{endpoint}
	peer := url.URL{Scheme: "unix", Path: filepath.Join(dir, "peer.sock")}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	server, err := embed.StartEtcd(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	<-server.Server.ReadyNotify()
	return &etcd.External{Endpoints: []string{endpoint.String()}}
}

func connect(t testing.TB, s backup.Storage) *clientv3.Client {
	t.Helper()
	client, _, err := etcd.Connect(t.Context(), s.DataDir, s.External)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func put(t *testing.T, s backup.Storage, values map[string]string) {
	t.Helper()
	client := connect(t, s)
	for key, value := range values {
		patiently(t, func() error { _, err := client.Put(t.Context(), key, value); return err })
	}
}

// patiently calls etcd again when it did not answer in time: tests share their processors with others.
func patiently(t *testing.T, call func() error) {
	t.Helper()
	err := call()
	for errors.Is(err, rpctypes.ErrTimeout) {
		err = call()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func stored(t *testing.T, s backup.Storage) map[string]string {
	t.Helper()
	all, err := connect(t, s).Get(t.Context(), "\x00", clientv3.WithFromKey())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, kv := range all.Kvs {
		found[string(kv.Key)] = string(kv.Value)
	}
	return found
}

// content has more than a page of keys, and values near the limit of a request.
func content() map[string]string {
	values := map[string]string{"/registry/secrets/shop/boxed": "k8s:enc:secretbox:v1:generated:sealed", "/registry/large/a": strings.Repeat("a", 1_400_000), "/registry/large/b": strings.Repeat("b", 1_400_000)}
	for i := range 1200 {
		values[fmt.Sprintf("/registry/configmaps/shop/c%04d", i)] = strings.Repeat("x", i)
	}
	return values
}

// withPrefix replaces what keys begin with.
func withPrefix(values map[string]string, prefix string) map[string]string {
	replaced := map[string]string{}
	for key, value := range values {
		replaced[prefix+strings.TrimPrefix(key, "/registry")] = value
	}
	return replaced
}

func create(t *testing.T, from backup.Storage, to age.Recipient) []byte {
	t.Helper()
	var out bytes.Buffer
	if _, err := backup.Create(t.Context(), from, &out, now, ignore, to); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestBackupsOfEachStorageAreRestoredToEach: what a control plane cannot do without is the same again, without the counts of what was
// written to members, and without what is not its own.
func TestBackupsOfEachStorageAreRestoredToEach(t *testing.T) {
	values := content()
	for name, tc := range map[string]struct{ from, to string }{ // prefixes in an external etcd
		"EmbeddedToEmbedded": {"", ""}, "EmbeddedToExternal": {"", "/registry"}, "ExternalToEmbedded": {"/registry", ""},
		"EmbeddedToPrefix": {"", "/standby/one"}, "PrefixToEmbedded": {"/fleet", ""}, "PrefixToPrefix": {"/fleet/", "registry"},
	} {
		t.Run(name, func(t *testing.T) {
			from, own := dataDir(t), key(t)
			if tc.from != "" {
				from.External = external(t)
				from.External.Prefix = tc.from
			}
			prefix := path.Join("/", cmp.Or(tc.from, "/registry"))
			put(t, from, withPrefix(values, prefix))
			put(t, from, map[string]string{
				prefix + "/leases/karmada-system/member-east": "count", "compact_rev_key": "1", prefix + "2/a": "of others", "/other": "of others",
			})
			client := connect(t, from)
			patiently(t, func() error {
				lease, err := client.Grant(t.Context(), 600)
				if err != nil {
					return err
				}
				_, err = client.Put(t.Context(), prefix+"/events/shop/e", "ends", clientv3.WithLease(lease.ID))
				return err
			})
			saved := create(t, from, own.Recipient())
			put(t, from, map[string]string{prefix + "/configmaps/shop/later": "1"})

			to := backup.Storage{DataDir: filepath.Join(t.TempDir(), "new")}
			if tc.to != "" {
				to.External = external(t)
				to.External.Prefix = tc.to
			}
			header, summary, err := backup.Restore(t.Context(), bytes.NewReader(saved), to, ignore, own)
			if err != nil || !header.Time.Equal(now) || summary.Keys != int64(len(values)+1) || summary.Files != 3 {
				t.Fatalf("restored %+v, %+v, %v", header, summary, err)
			}
			for name, want := range map[string]string{"pki/ca.crt": "certificate", "pki/ca.key": "key", "encryption.yaml": "configuration"} {
				path := filepath.Join(to.DataDir, name)
				got, err := os.ReadFile(path)
				if err != nil || string(got) != want {
					t.Errorf("%s is %q, %v", name, got, err)
				}
				if info, err := os.Stat(path); err == nil && info.Mode().Perm() != 0o600 {
					t.Errorf("%s has mode %v", name, info.Mode())
				}
			}
			if tc.to == "" {
				serve(t, to.DataDir)
			} else if saved, err := etcd.Choose(to.DataDir, etcd.External{}); err != nil || !slices.Equal(saved.Endpoints, to.External.Endpoints) {
				t.Errorf("the data directory leads to %v, %v", saved, err)
			}
			want := withPrefix(values, path.Join("/", cmp.Or(tc.to, "/registry")))
			if got := stored(t, to); !maps.Equal(got, want) {
				t.Errorf("there are %d keys, want the %d that were stored", len(got), len(want))
			}
		})
	}
}

// TestARestoreThatFailsLeavesNothing: the directory can be used for the next attempt.
func TestARestoreThatFailsLeavesNothing(t *testing.T) {
	from, own := dataDir(t), key(t)
	put(t, from, content())
	saved := create(t, from, own.Recipient())
	full := external(t)
	put(t, backup.Storage{DataDir: from.DataDir, External: full}, map[string]string{"/registry/a": "1"})
	put(t, from, map[string]string{"/registry/secrets/shop/z": "k8s:enc:kms:v2:plugin:sealed"})
	sealed := create(t, from, own.Recipient())
	canceled, cancel := context.WithCancel(t.Context())
	canceledToo, cancelToo := context.WithCancel(t.Context())
	for name, tc := range map[string]struct {
		ctx      context.Context
		saved    []byte
		external *etcd.External
		progress func(int64)
		want     string
	}{
		"Short":           {t.Context(), saved[:len(saved)-1], nil, ignore, "corrupted or tampered with"},
		"StoreNotFree":    {t.Context(), saved, full, ignore, "restore into an empty one"},
		"Bound":           {t.Context(), sealed, &etcd.External{Endpoints: full.Endpoints, Prefix: "/fleet"}, ignore, "set --encryption-provider-config to that of the server"},
		"ShortOutside":    {t.Context(), saved[:len(saved)-1], &etcd.External{Endpoints: full.Endpoints, Prefix: "/fleet"}, ignore, "corrupted or tampered with"},
		"Canceled":        {canceled, saved, nil, func(int64) { cancel() }, "context canceled"},
		"CanceledOutside": {canceledToo, saved, &etcd.External{Endpoints: full.Endpoints, Prefix: "/fleet"}, func(int64) { cancelToo() }, "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			before := stored(t, backup.Storage{External: full})
			dir := filepath.Join(t.TempDir(), "new")
			_, _, err := backup.Restore(tc.ctx, bytes.NewReader(tc.saved), backup.Storage{DataDir: dir, External: tc.external}, tc.progress, own)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want ...%s", err, tc.want)
			}
			if after := stored(t, backup.Storage{External: full}); !maps.Equal(before, after) {
				t.Errorf("the etcd elsewhere had %d keys, and has %d", len(before), len(after))
			}
			if _, _, err := backup.Restore(t.Context(), bytes.NewReader(saved), backup.Storage{DataDir: dir}, ignore, own); err != nil {
				t.Errorf("the next attempt fails: %v", err)
			}
			if _, _, err := backup.Restore(t.Context(), bytes.NewReader(saved), backup.Storage{DataDir: dir}, ignore, own); err == nil || !strings.Contains(err.Error(), "is not empty") {
				t.Errorf("a control plane is overwritten: %v", err)
			}
		})
	}
}

func TestABackupNeedsAControlPlaneThatRuns(t *testing.T) {
	_, err := backup.Create(t.Context(), backup.Storage{DataDir: t.TempDir()}, &bytes.Buffer{}, now, ignore, key(t).Recipient())
	if err == nil || !strings.Contains(err.Error(), "while the control plane runs") {
		t.Errorf("got %v", err)
	}
}

// TestKeysThatChangeDuringABackup: values may be encrypted with keys that the backup would not have.
func TestKeysThatChangeDuringABackup(t *testing.T) {
	from := dataDir(t)
	put(t, from, content())
	replace := func(int64) {
		if err := os.WriteFile(filepath.Join(from.DataDir, "pki", "ca.key"), []byte("another"), 0o600); err != nil {
			t.Error(err)
		}
	}
	_, err := backup.Create(t.Context(), from, &bytes.Buffer{}, now, replace, key(t).Recipient())
	if err == nil || !strings.Contains(err.Error(), "changed during the backup") {
		t.Errorf("got %v", err)
	}
}

// TestTheSocketOfALongPath: a path that is too long for a socket leads to it nevertheless.
func TestTheSocketOfALongPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	serve(t, dir)
	put(t, backup.Storage{DataDir: dir}, map[string]string{"/registry/a": "1"})
}

func TestABackupIsAFileThatNothingReplaces(t *testing.T) {
	from, dir, own := dataDir(t), filepath.Join(t.TempDir(), "backups"), key(t)
	save := func(at time.Time) (backup.Stored, error) {
		made, _, err := backup.Save(t.Context(), from, repository.Directory(dir), at, ignore, own.Recipient())
		return made, err
	}
	var made []backup.Stored
	for i := range 4 {
		b, err := save(now.Add(time.Duration(i) * time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, b)
	}
	if _, err := save(now); err == nil {
		t.Error("a backup of the same second is replaced")
	}
	if last, known := backup.Last(from.DataDir); !known || !last.Equal(made[3].Time) {
		t.Errorf("the last backup was made %s, %t; want %s", last, known, made[3].Time)
	}
	// Files that Prune did not make stay: a backup of another control plane, and others.
	for _, name := range []string{"flagship-00000000-20250102T030405Z.tar.gz.age", "flagship-x.tar.gz.age", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	deleted, err := backup.Prune(t.Context(), repository.Directory(dir), made[0].ControlPlane, 3)
	if err != nil || len(deleted) != 1 || deleted[0].Path != made[0].Path {
		t.Errorf("deleted %v, %v; want the oldest", deleted, err)
	}
	listed, err := backup.List(t.Context(), repository.Directory(dir))
	slices.Reverse(made)
	if err != nil || len(listed) != 4 || !slices.Equal(listed[:3], made[:3]) {
		t.Errorf("listed %v, %v; want the newest first", listed, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 6 {
		t.Errorf("the directory has %v, %v; want no half a backup", entries, err)
	}
}
