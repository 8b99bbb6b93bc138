package encryption

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// firstName is the name of a key without one: key files of earlier versions hold a single key and nothing else.
	firstName = "generated"
	// keyLength is what secretbox needs, in bytes.
	keyLength = 32
)

// keyName is what a key may be called. The name is part of every stored value, before a colon.
var keyName = regexp.MustCompile(`^[a-z0-9-]+$`)

// Key is one key.
type Key struct {
	// Name is stored with each value, so that the key is found that decrypts it. Names of later keys sort after those of
	// earlier ones.
	Name string
	// Secret is the key itself, in base64.
	Secret string
}

// Keys are the keys of a server. The first encrypts; all of them decrypt.
type Keys []Key

// NewKey makes a random key that is named after the time.
func NewKey(now time.Time) (Key, error) {
	secret := make([]byte, keyLength)
	if _, err := rand.Read(secret); err != nil {
		return Key{}, fmt.Errorf("making an encryption key: %w", err)
	}
	return Key{
		Name:   "key-" + strings.ToLower(now.UTC().Format("20060102T150405Z")),
		Secret: base64.StdEncoding.EncodeToString(secret),
	}, nil
}

// ParseKeys reads a key file: one key in each line, as NAME SECRET. A line without a name holds the key that an earlier
// version made.
func ParseKeys(text []byte) (Keys, error) {
	var keys Keys
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch len(fields) {
		case 0:
			continue
		case 1:
			fields = []string{firstName, fields[0]}
		case 2:
		default:
			return nil, errors.New("a line of the key file is not NAME SECRET")
		}
		key := Key{Name: fields[0], Secret: fields[1]}
		if secret, err := base64.StdEncoding.DecodeString(key.Secret); err != nil || len(secret) != keyLength {
			return nil, fmt.Errorf("the encryption key %q is not %d bytes in base64", key.Name, keyLength)
		}
		if !keyName.MatchString(key.Name) {
			return nil, fmt.Errorf("%q cannot be the name of an encryption key", key.Name)
		}
		if slices.ContainsFunc(keys, func(k Key) bool { return k.Name == key.Name }) {
			return nil, fmt.Errorf("there are two encryption keys %q", key.Name)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("the key file holds no encryption key")
	}
	return keys, nil
}

// Text is the content of a key file.
func (k Keys) Text() []byte {
	var text strings.Builder
	for _, key := range k {
		fmt.Fprintf(&text, "%s %s\n", key.Name, key.Secret)
	}
	return []byte(text.String())
}

// newest is the index of the key that was made last.
func (k Keys) newest() int {
	newest := 0
	for i := range k {
		if k[newest].Name == firstName || k[i].Name != firstName && k[i].Name > k[newest].Name {
			newest = i
		}
	}
	return newest
}
