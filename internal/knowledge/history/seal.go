package history

import (
	"bytes"
	"compress/gzip"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// KeyBytes is the length of a Key.
const KeyBytes = 32

// Key encrypts what is stored of revisions. ControllerRevisions are read by users who may not read Secrets, cluster-wide policies or the
// template itself, and may be written by users who must not decide what an administrator restores. With authenticated encryption, neither
// matters: the control plane, which checks the rights of each user, is alone in reading the content, and reads only what it wrote itself.
type Key struct {
	secret [KeyBytes]byte
	// compressors are used again: a new one takes 0.8 MB, a hundred times what it compresses.
	compressors sync.Pool
}

// NewKey returns the Key with a secret, of which it takes the first KeyBytes bytes.
func NewKey(secret []byte) *Key {
	k := &Key{}
	copy(k.secret[:], secret)
	return k
}

// maxContent bounds what a revision is decompressed to.
const maxContent = 16 << 20

// ErrForeign is returned for what was not sealed with the key for the object.
var ErrForeign = errors.New("it was not written by this control plane for this object")

// Seal compresses and encrypts a value as JSON with AES-256-GCM. It can be opened for the same owner only.
func (k *Key) Seal(owner string, value any) ([]byte, error) {
	var compressed bytes.Buffer
	into, again := k.compressors.Get().(*gzip.Writer)
	if !again {
		into = gzip.NewWriter(&compressed)
	}
	into.Reset(&compressed)
	defer k.compressors.Put(into)
	if err := errors.Join(json.NewEncoder(into).Encode(value), into.Close()); err != nil {
		return nil, fmt.Errorf("encoding a revision: %w", err)
	}
	aead, err := k.aead()
	if err != nil {
		return nil, err
	}
	return aead.Seal(nil, nil, compressed.Bytes(), []byte(owner)), nil //nolint:gosec // The AEAD makes a random nonce and puts it first.
}

// Open is the inverse of Seal. The error is ErrForeign for what Seal did not make for the owner.
func (k *Key) Open(owner string, sealed []byte, value any) error {
	aead, err := k.aead()
	if err != nil {
		return err
	}
	compressed, err := aead.Open(nil, nil, sealed, []byte(owner))
	if err != nil {
		return ErrForeign
	}
	from, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return fmt.Errorf("decompressing a revision: %w", err)
	}
	if err := json.NewDecoder(io.LimitReader(from, maxContent)).Decode(value); err != nil {
		return fmt.Errorf("decoding a revision: %w", err)
	}
	return nil
}

// Hash is equal for equal states of an object. Without the key, a state cannot be guessed with it.
func (k *Key) Hash(owner string, state State) (string, error) {
	raw, err := state.Encode()
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, k.secret[:])
	mac.Write([]byte(owner))
	mac.Write([]byte{0})
	mac.Write(raw)
	return hex.EncodeToString(mac.Sum(nil))[:24], nil
}

func (k *Key) aead() (cipher.AEAD, error) {
	block, err := aes.NewCipher(k.secret[:])
	if err != nil {
		return nil, fmt.Errorf("using the key of revisions: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("using the key of revisions: %w", err)
	}
	return aead, nil
}
