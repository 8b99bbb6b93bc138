package credentials

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/encryption"
)

// shared is what servers on one etcd record of their keys: fingerprints, from which no key can be derived. Keys that are replaced stay in
// it: a server needs one in common with the others.
type shared struct {
	// Authorities are those that are trusted, by the names of their files.
	Authorities map[string][]string `json:"authorities"`
	// ServiceAccounts is the key of service account tokens.
	ServiceAccounts string `json:"serviceAccounts"`
	// Encryption are the keys that encrypt what is stored, by their names; none for a server with a configuration of its own.
	Encryption map[string]string `json:"encryption,omitempty"`
}

// KeysDifferError means that a server has other keys than those before it on the same etcd.
type KeysDifferError struct {
	// Dir is the directory of its keys, and Files are those that differ.
	Dir   string
	Files []string
}

// Error implements error.
func (e *KeysDifferError) Error() string {
	return fmt.Sprintf("the keys in %s are not those of the control plane in this etcd (%s): copy the directory from a server of it, or use another --etcd-prefix",
		e.Dir, strings.Join(e.Files, ", "))
}

// Agree compares the keys with what servers on the same etcd recorded, and returns what is to be recorded now; nothing recorded is agreed
// upon. The error is a KeysDifferError if another server would not accept what this one signs or encrypts. Own is true if
// objects are encrypted with the keys of the directory.
func (k *Keyring) Agree(recorded []byte, own bool) (record []byte, err error) {
	mine, err := k.shared(own)
	if err != nil {
		return nil, err
	}
	theirs := shared{}
	if len(recorded) > 0 {
		if err := json.Unmarshal(recorded, &theirs); err != nil {
			return nil, fmt.Errorf("reading the record of the keys: %w", err)
		}
		if files := mine.differs(theirs); len(files) > 0 {
			return nil, &KeysDifferError{Dir: k.options.Dir, Files: files}
		}
	}
	if record, err = json.Marshal(mine.with(theirs)); err != nil {
		return nil, fmt.Errorf("encoding the record of the keys: %w", err)
	}
	return record, nil
}

// shared returns the fingerprints of the keys.
func (k *Keyring) shared(own bool) (shared, error) {
	s := shared{Authorities: map[string][]string{}}
	for name, authority := range k.authorities {
		for rest := authority.Load().PEM; ; {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			s.Authorities[name] = append(s.Authorities[name], fingerprint("authority", block.Bytes))
		}
	}
	public, err := os.ReadFile(k.tokenPublic)
	if err != nil {
		return s, fmt.Errorf("reading the service account key: %w", err)
	}
	s.ServiceAccounts = fingerprint("service account", public)
	if own {
		s.Encryption = map[string]string{}
		for _, key := range k.secretKeys {
			s.Encryption[key.Name] = fingerprint("encryption", []byte(key.Secret))
		}
	}
	return s, nil
}

func fingerprint(of string, key []byte) string {
	sum := sha256.Sum256(slices.Concat([]byte("flagship "+of+" "), key))
	return hex.EncodeToString(sum[:])
}

// differs returns the files of keys that others would not accept.
func (s shared) differs(from shared) (files []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Authorities)) {
		known := from.Authorities[name]
		if len(known) > 0 && !slices.ContainsFunc(s.Authorities[name], func(one string) bool { return slices.Contains(known, one) }) {
			files = append(files, name+".key")
		}
	}
	if from.ServiceAccounts != "" && from.ServiceAccounts != s.ServiceAccounts {
		files = append(files, tokenKeyName+".key")
	}
	for name, one := range s.Encryption {
		if known := from.Encryption[name]; known != "" && known != one {
			return append(files, encryption.KeyFile)
		}
	}
	return files
}

// with adds what others recorded.
func (s shared) with(others shared) shared {
	for name, known := range others.Authorities {
		all := append(slices.Clone(s.Authorities[name]), known...)
		slices.Sort(all)
		s.Authorities[name] = slices.Compact(all)
	}
	if len(others.Encryption) > 0 {
		all := maps.Clone(others.Encryption)
		maps.Copy(all, s.Encryption)
		s.Encryption = all
	}
	return s
}
