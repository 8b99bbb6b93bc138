package credentials_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/credentials"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/encryption"
)

// keysIn opens the keys of a server on an external etcd.
func keysIn(t *testing.T, dir string) *credentials.Keyring {
	t.Helper()
	keys, err := credentials.Open(t.Context(), credentials.Options{Name: "flagship", Dir: dir, URL: "https://127.0.0.1:1", Shared: true, Operator: true, ServiceCIDR: "10.96.0.0/16", Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// copyKeys copies the files of a directory.
func copyKeys(t *testing.T, from string) (to string) {
	t.Helper()
	to = t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestServersAgreeOnTheirKeys: a copy of the keys is accepted, also while they are replaced, and others are refused by their names.
func TestServersAgreeOnTheirKeys(t *testing.T) {
	first := t.TempDir()
	record, err := keysIn(t, first).Agree(nil, true)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := os.ReadFile(filepath.Join(first, encryption.KeyFile))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(record), strings.TrimSpace(string(secret))) {
		t.Errorf("the record has a key: %s", record)
	}
	if again, err := keysIn(t, copyKeys(t, first)).Agree(record, true); err != nil || string(again) != string(record) {
		t.Errorf("a copy: %s, %v", again, err)
	}

	for name, files := range map[string][]string{
		"ca.key":              {"ca.key", "ca.crt", "ca-bundle.crt"},
		"front-proxy-ca.key":  {"front-proxy-ca.key", "front-proxy-ca.crt", "front-proxy-ca-bundle.crt"},
		"service-account.key": {"service-account.key", "service-account.pub"},
		encryption.KeyFile:    {encryption.KeyFile},
	} {
		dir := copyKeys(t, first)
		for _, file := range files {
			if err := os.Remove(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
		}
		_, err := keysIn(t, dir).Agree(record, true)
		differ, ok := errors.AsType[*credentials.KeysDifferError](err)
		if !ok || !slices.Equal(differ.Files, []string{name}) || !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "\n") {
			t.Errorf("another %s: %v", name, err)
		}
		if _, err := keysIn(t, dir).Agree(record, false); name == encryption.KeyFile && err != nil {
			t.Errorf("another encryption key that is not used: %v", err)
		}
	}

	rotated := copyKeys(t, first)
	key := []byte("key-20260102t030405z " + strings.TrimSpace(string(secret)) + "\n")
	if err := os.WriteFile(filepath.Join(rotated, encryption.KeyFile), key, 0o600); err != nil {
		t.Fatal(err)
	}
	after, err := keysIn(t, rotated).Agree(record, true)
	if err != nil {
		t.Errorf("a key that replaced another one: %v", err)
	}
	if _, err := keysIn(t, first).Agree(after, true); err != nil {
		t.Errorf("a server that does not have it yet: %v", err)
	}
}
