package attacks_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kms/pkg/service"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// keyService is a key management service with one key.
type keyService struct{ key cipher.AEAD }

func (k keyService) Encrypt(_ context.Context, _ string, data []byte) (*service.EncryptResponse, error) {
	return &service.EncryptResponse{KeyID: "key-1", Ciphertext: k.key.Seal(nil, nil, data, nil)}, nil
}

func (k keyService) Decrypt(_ context.Context, _ string, r *service.DecryptRequest) ([]byte, error) {
	if r.KeyID != "key-1" {
		return nil, errors.New("there is no such key")
	}
	return k.key.Open(nil, nil, r.Ciphertext, nil)
}

func (keyService) Status(context.Context) (*service.StatusResponse, error) {
	return &service.StatusResponse{Version: "v2", Healthz: "ok", KeyID: "key-1"}, nil
}

// serveKeys runs a key management service with a key that begins with a letter, and returns its endpoint.
func serveKeys(t *testing.T, letter string) string {
	t.Helper()
	block, err := aes.NewCipher([]byte(strings.Repeat(letter, 32)))
	if err != nil {
		t.Fatal(err)
	}
	key, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "kms.sock")
	server := service.NewGRPCService(socket, 10*time.Second, keyService{key})
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	t.Cleanup(func() {
		server.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	until(t, func() error { _, err := os.Stat(socket); return err })
	return "unix://" + socket
}

// serveBucket runs an object storage with the bucket "backups", sets the environment to its credentials, and returns the flags that lead to it.
func serveBucket(t *testing.T) []string {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("backups"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	t.Cleanup(server.Close)
	authority := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "",
		"AWS_SHARED_CREDENTIALS_FILE": filepath.Join(t.TempDir(), "none"),
	} {
		t.Setenv(name, value)
	}
	return []string{"--s3-endpoint", server.URL, "--s3-region", "us-east-1", "--s3-cafile", authority}
}

// TestBackupsElsewhere makes backups with the key of a key management service, in a bucket, and by a schedule, and control planes of them.
func TestBackupsElsewhere(t *testing.T) {
	fleettest.Nightly(t, "TestBackupAndRestore and the tests of package backup guard the same")
	hub := fleettest.StartHub(t)
	run := func(args ...string) string {
		t.Helper()
		r := fleettest.Flagship(t, args...)
		if r.Code != 0 {
			t.Fatalf("%v: %s%s", args, r.Stdout, r.Stderr)
		}
		return r.Stdout
	}
	passphrase := filepath.Join(t.TempDir(), "passphrase")
	if err := os.WriteFile(passphrase, []byte("correct horse battery\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	mark := func(value string) {
		t.Helper()
		fleettest.Update(t, hub.Cluster, fleettest.ConfigMap(metav1.NamespaceDefault, "mark", nil), func(cm *corev1.ConfigMap) { cm.Data["value"] = value })
	}
	fleettest.Create(t, hub.Cluster, fleettest.ConfigMap(metav1.NamespaceDefault, "mark", map[string]string{"value": "first"}))

	regular := t.TempDir()
	schedule := fleettest.Background(t, "backup", "schedule", "--every", "1m", "--keep", "1", "--data-dir", hub.Dir, "--to", regular, "--passphrase-file", passphrase)
	awaits := func(text string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute+fleettest.Patience)
		defer cancel()
		if err := schedule.WaitFor(ctx, text); err != nil {
			t.Fatalf("%v\n%s", err, schedule.Output())
		}
	}
	awaits(regular + "/")
	first := only(t, regular)

	mark("kms")
	endpoint, saved := serveKeys(t, "a"), t.TempDir()
	run("backup", "create", "--data-dir", hub.Dir, "--to", saved, "--kms-plugin", endpoint)
	sealed := only(t, saved)
	if text := run("backup", "verify", sealed, "--kms-plugin", endpoint); !strings.Contains(text, "is complete") {
		t.Errorf("verify printed %s", text)
	}
	if r := fleettest.Flagship(t, "backup", "verify", sealed, "--kms-plugin", serveKeys(t, "b")); r.Code != 1 {
		t.Errorf("with another key: %+v", r)
	}
	withKMS := filepath.Join(t.TempDir(), "kms")
	run("restore", "from", sealed, "--data-dir", withKMS, "--kms-plugin", endpoint)

	mark("s3")
	bucket := serveBucket(t)
	run(slices.Concat([]string{"backup", "create", "--data-dir", hub.Dir, "--to", "s3://backups/production", "--passphrase-file", passphrase}, bucket)...)
	var remote string
	for _, word := range strings.Fields(run(append([]string{"backup", "list", "--from", "s3://backups/production"}, bucket...)...)) {
		if strings.HasPrefix(word, "s3://backups/production/") {
			remote = word
		}
	}
	withS3 := filepath.Join(t.TempDir(), "s3")
	run(slices.Concat([]string{"restore", "from", remote, "--data-dir", withS3, "--passphrase-file", passphrase}, bucket)...)

	awaits(first + " deleted")
	withSchedule := filepath.Join(t.TempDir(), "schedule")
	last := only(t, regular)
	run("restore", "from", last, "--data-dir", withSchedule, "--passphrase-file", passphrase)
	if last == first {
		t.Errorf("%s is still there", first)
	}

	for _, restored := range []struct{ dir, value string }{{withKMS, "kms"}, {withS3, "s3"}, {withSchedule, "s3"}} {
		hub.Kill()
		hub.Start(t, "--data-dir", restored.dir)
		fleettest.ExpectEventually(t, hub.Cluster, fleettest.ConfigMap(metav1.NamespaceDefault, "mark", nil), func(cm *corev1.ConfigMap) error {
			if cm.Data["value"] != restored.value {
				return fmt.Errorf("%s has the value %q, want %q", restored.dir, cm.Data["value"], restored.value)
			}
			return nil
		})
	}
}

// only is the path of the one file in a directory.
func only(t *testing.T, dir string) string {
	t.Helper()
	found, err := os.ReadDir(dir)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s has %v: %v", dir, found, err)
	}
	return filepath.Join(dir, found[0].Name())
}
