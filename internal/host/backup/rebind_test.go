package backup_test

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	storagevalue "k8s.io/apiserver/pkg/storage/value"

	"github.com/flagship-k8s/flagship/internal/host/backup"
)

// configuration is that of a server which encrypts by AES-GCM, with the key given.
func configuration(t *testing.T, key string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	text := `
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets, boats.harbour.example.com, deployments.apps]
  providers:
  - aesgcm: {keys: [{name: one, secret: ` + base64.StdEncoding.EncodeToString([]byte(key)) + `}]}
  - identity: {}
- resources: ["*.*"]
  providers:
  - aesgcm: {keys: [{name: rest, secret: ` + base64.StdEncoding.EncodeToString([]byte(strings.ToUpper(key))) + `}]}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestValuesThatAreBoundToTheirKeys are encrypted anew, each with the key of its resource.
func TestValuesThatAreBoundToTheirKeys(t *testing.T) {
	const secret = "0123456789abcdef0123456789abcdef"
	file := configuration(t, secret)
	config, err := encryptionconfig.LoadEncryptionConfig(t.Context(), file, false, "")
	if err != nil {
		t.Fatal(err)
	}
	transformers := encryptionconfig.StaticTransformers(config.Transformers)
	resources := map[string]schema.GroupResource{
		"/secrets/shop/password": {Resource: "secrets"}, "/harbour.example.com/boats/shop/gull": {Group: "harbour.example.com", Resource: "boats"},
		"/deployments/shop/web": {Group: "apps", Resource: "deployments"}, "/configmaps/shop/settings": {Resource: "configmaps"},
	}
	from, own := dataDir(t), key(t)
	for path, resource := range resources {
		sealed, err := transformers.TransformerForResource(resource).TransformToStorage(t.Context(), []byte("plain"+path), storagevalue.DefaultContext("/registry"+path))
		if err != nil {
			t.Fatal(err)
		}
		put(t, from, map[string]string{"/registry" + path: string(sealed)})
	}
	saved := create(t, from, own.Recipient())

	to := backup.Storage{DataDir: filepath.Join(t.TempDir(), "new"), External: external(t), EncryptionConfig: file}
	to.External.Prefix = "/fleet"
	if _, _, err := backup.Restore(t.Context(), bytes.NewReader(saved), to, ignore, own); err != nil {
		t.Fatal(err)
	}
	restored := stored(t, to)
	for path, resource := range resources {
		key := "/fleet" + path
		plain, stale, err := transformers.TransformerForResource(resource).TransformFromStorage(t.Context(), []byte(restored[key]), storagevalue.DefaultContext(key))
		if err != nil || stale || string(plain) != "plain"+path {
			t.Errorf("%s is %q, stale %t, %v", key, plain, stale, err)
		}
	}

	other := to
	other.DataDir, other.EncryptionConfig = filepath.Join(t.TempDir(), "other"), configuration(t, strings.Repeat("k", 32))
	other.External.Prefix = "/other"
	if _, _, err := backup.Restore(t.Context(), bytes.NewReader(saved), other, ignore, own); err == nil || !strings.Contains(err.Error(), "cannot be decrypted with the encryption configuration") {
		t.Errorf("with another key: %v", err)
	}
}
