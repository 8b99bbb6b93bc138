package kms_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"k8s.io/kms/pkg/service"

	"github.com/flagship-k8s/flagship/internal/host/backup/kms"
)

// plugin is a key management service with keys by their names, of which one is current.
type plugin struct {
	keys    map[string][]byte
	current string
	health  string
}

func (p *plugin) seal(name string) (cipher.AEAD, error) {
	key, ok := p.keys[name]
	if !ok {
		return nil, fmt.Errorf("there is no key %q", name)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

func (p *plugin) Encrypt(_ context.Context, _ string, data []byte) (*service.EncryptResponse, error) {
	aead, err := p.seal(p.current)
	if err != nil {
		return nil, err
	}
	salt := []byte("salt")
	return &service.EncryptResponse{
		KeyID: p.current, Ciphertext: aead.Seal(nil, nil, data, salt), Annotations: map[string][]byte{"salt.example.com": salt},
	}, nil
}

func (p *plugin) Decrypt(_ context.Context, _ string, r *service.DecryptRequest) ([]byte, error) {
	aead, err := p.seal(r.KeyID)
	if err != nil {
		return nil, err
	}
	return aead.Open(nil, nil, r.Ciphertext, r.Annotations["salt.example.com"])
}

func (p *plugin) Status(context.Context) (*service.StatusResponse, error) {
	return &service.StatusResponse{Version: "v2", Healthz: p.health, KeyID: p.current}, nil
}

// serve runs a plugin and returns its endpoint.
func serve(t *testing.T, p *plugin) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "kms.sock")
	server := service.NewGRPCService(socket, 10*time.Second, p)
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	t.Cleanup(func() {
		server.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "unix://" + socket
}

func newPlugin() *plugin {
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	return &plugin{keys: map[string][]byte{"first": key}, current: "first", health: "ok"}
}

func connect(t *testing.T, endpoint string) *kms.Key {
	t.Helper()
	key, err := kms.Connect(t.Context(), endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func encrypt(t *testing.T, to ...age.Recipient) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := age.Encrypt(&file, to...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "content"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func decrypt(file []byte, with ...age.Identity) (string, error) {
	r, err := age.Decrypt(bytes.NewReader(file), with...)
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(r)
	return string(content), err
}

func TestKey(t *testing.T) {
	p := newPlugin()
	key := connect(t, serve(t, p))
	person, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	file := encrypt(t, person.Recipient(), key)
	if bytes.Contains(file, []byte("content")) {
		t.Error("the file is not encrypted")
	}

	// A later key of the service does not end what an earlier one encrypted.
	p.keys["second"] = bytes.Repeat([]byte{1}, 32)
	p.current = "second"
	for name, identity := range map[string]age.Identity{"the service": key, "a person": person} {
		if got, err := decrypt(file, identity); err != nil || got != "content" {
			t.Errorf("%s reads %q, %v", name, got, err)
		}
	}

	delete(p.keys, "first")
	if _, err := decrypt(file, key); err == nil || !strings.Contains(err.Error(), `key "first"`) {
		t.Errorf("without the key: %v", err)
	}
	if _, err := decrypt(encrypt(t, person.Recipient()), key); !errors.As(err, new(*age.NoIdentityMatchError)) {
		t.Errorf("a file for others: %v", err)
	}
	if got, err := decrypt(encrypt(t, person.Recipient()), key, person); err != nil || got != "content" {
		t.Errorf("a file for others, with their identity: %q, %v", got, err)
	}
}

func TestAPluginThatIsNotHealthy(t *testing.T) {
	p := newPlugin()
	p.health = "the service does not answer"
	if _, err := kms.Connect(t.Context(), serve(t, p)); err == nil || !strings.Contains(err.Error(), "the service does not answer") {
		t.Errorf("the error is %v", err)
	}
	if _, err := kms.Connect(t.Context(), "https://host"); err == nil {
		t.Error("an endpoint that is no socket is used")
	}
}
