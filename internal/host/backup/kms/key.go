package kms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"filippo.io/age"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/storage/value/encrypt/envelope/kmsv2"
	"k8s.io/kms/pkg/service"
)

// StanzaType is the type of the stanza in the header of an age file.
const StanzaType = "flagship-kms-v2"

// timeout bounds one call of the plugin.
const timeout = 10 * time.Second

// Key is the current key of a key management service: as an age.Recipient it encrypts with it, as an age.Identity it decrypts with it or an
// earlier one, as far as the service has that.
type Key struct{ service service.Service }

var (
	_ age.Recipient = &Key{}
	_ age.Identity  = &Key{}
)

// Connect returns the key of a plugin at a socket, unix:///PATH. The connection ends with the context. A plugin that is not healthy is an
// error.
func Connect(ctx context.Context, endpoint string) (*Key, error) {
	plugin, err := kmsv2.NewGRPCService(ctx, endpoint, "backup", timeout)
	if err != nil {
		return nil, fmt.Errorf("connecting to the KMS plugin: %w", err)
	}
	status, err := plugin.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the status of the KMS plugin at %s: %w", endpoint, err)
	}
	if status.Healthz != "ok" {
		return nil, fmt.Errorf("the KMS plugin at %s is not healthy: %q", endpoint, status.Healthz)
	}
	return &Key{service: plugin}, nil
}

// sealed is what the service returned for the key of a file, and needs to decrypt it.
type sealed struct {
	KeyID       string            `json:"keyID"`
	Ciphertext  []byte            `json:"ciphertext"`
	Annotations map[string][]byte `json:"annotations,omitempty"`
}

// Wrap implements age.Recipient, which has no context; the timeout of a call bounds it.
func (k *Key) Wrap(fileKey []byte) ([]*age.Stanza, error) {
	answer, err := k.service.Encrypt(context.Background(), string(uuid.NewUUID()), fileKey)
	if err != nil {
		return nil, fmt.Errorf("encrypting with the KMS plugin: %w", err)
	}
	body, err := json.Marshal(sealed{KeyID: answer.KeyID, Ciphertext: answer.Ciphertext, Annotations: answer.Annotations})
	if err != nil {
		return nil, fmt.Errorf("encoding the encrypted key: %w", err)
	}
	return []*age.Stanza{{Type: StanzaType, Body: body}}, nil
}

// Unwrap implements age.Identity, which has no context; the timeout of a call bounds it.
func (k *Key) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	var failed error
	for _, stanza := range stanzas {
		if stanza.Type != StanzaType {
			continue
		}
		var s sealed
		if err := json.Unmarshal(stanza.Body, &s); err != nil {
			return nil, fmt.Errorf("reading the encrypted key of the file: %w", err)
		}
		fileKey, err := k.service.Decrypt(context.Background(), string(uuid.NewUUID()),
			&service.DecryptRequest{KeyID: s.KeyID, Ciphertext: s.Ciphertext, Annotations: s.Annotations})
		if err == nil {
			return fileKey, nil
		}
		failed = errors.Join(failed, fmt.Errorf("decrypting with the KMS plugin, key %q: %w", s.KeyID, err))
	}
	if failed != nil {
		return nil, failed
	}
	return nil, fmt.Errorf("%w: the file is not encrypted with a KMS plugin", age.ErrIncorrectIdentity)
}
