package pki_test

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/flagship-k8s/flagship/internal/apiserver/pki"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func open(t *testing.T) (*pki.Dir, *clocktesting.FakeClock) {
	t.Helper()
	clock := clocktesting.NewFakeClock(start)
	dir, err := pki.Open(filepath.Join(t.TempDir(), "pki"), clock)
	if err != nil {
		t.Fatal(err)
	}
	return dir, clock
}

func authority(t *testing.T, dir *pki.Dir) *pki.Authority {
	t.Helper()
	a, err := dir.Authority("ca", "test-ca")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func certificate(t *testing.T, data []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(data)
	if block == nil {
		t.Fatal("no PEM block")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestLeaf(t *testing.T) {
	server := pki.Profile{CommonName: "server", DNSNames: []string{"localhost"}, IPs: []string{"127.0.0.1"}}
	tests := map[string]struct {
		reason  string
		change  func(*clocktesting.FakeClock, *pki.Profile)
		renewed bool
	}{
		"Fresh": {
			reason: "a good certificate is not replaced, or every start would be a rotation",
			change: func(*clocktesting.FakeClock, *pki.Profile) {},
		},
		"SameNamesInOtherOrder": {
			reason: "the order of names says nothing",
			change: func(_ *clocktesting.FakeClock, p *pki.Profile) { p.DNSNames = []string{"localhost", "localhost"} },
		},
		"HalfTime": {
			reason: "two thirds of its life are left to it",
			change: func(c *clocktesting.FakeClock, _ *pki.Profile) { c.Step(180 * 24 * time.Hour) },
		},
		"TwoThirds": {
			reason: "renewal comes early enough to fail for months",
			change: func(c *clocktesting.FakeClock, _ *pki.Profile) { c.Step(244 * 24 * time.Hour) }, renewed: true,
		},
		"OtherNames": {
			reason: "the server is reached by a new name",
			change: func(_ *clocktesting.FakeClock, p *pki.Profile) { p.DNSNames = []string{"localhost", "new"} }, renewed: true,
		},
		"OtherGroups": {
			reason: "the holder's rights have changed",
			change: func(_ *clocktesting.FakeClock, p *pki.Profile) { p.Groups = []string{"system:masters"} }, renewed: true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir, clock := open(t)
			profile := server
			if _, renewed, err := dir.Leaf("leaf", authority(t, dir), profile); err != nil || !renewed {
				t.Fatalf("first: renewed %v, %v", renewed, err)
			}
			test.change(clock, &profile)
			pair, renewed, err := dir.Leaf("leaf", authority(t, dir), profile)
			if err != nil || renewed != test.renewed {
				t.Fatalf("%s: renewed %v, want %v: %v", test.reason, renewed, test.renewed, err)
			}
			roots := x509.NewCertPool()
			roots.AddCert(authority(t, dir).Certificate)
			_, err = certificate(t, pair.Cert).Verify(x509.VerifyOptions{Roots: roots, DNSName: "localhost", CurrentTime: clock.Now()})
			if err != nil {
				t.Errorf("the certificate does not verify: %v", err)
			}
		})
	}
}

func TestLeafHeals(t *testing.T) {
	dir, _ := open(t)
	profile := pki.Profile{CommonName: "client"}
	if _, _, err := dir.Leaf("leaf", authority(t, dir), profile); err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func() error{
		"NoKey":     func() error { return os.Remove(dir.File("leaf.key")) },
		"Garbage":   func() error { return os.WriteFile(dir.File("leaf.crt"), []byte("garbage"), 0o600) },
		"WrongPair": func() error { return copyFile(dir.File("ca.key"), dir.File("leaf.key")) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := damage(); err != nil {
				t.Fatal(err)
			}
			if _, renewed, err := dir.Leaf("leaf", authority(t, dir), profile); err != nil || !renewed {
				t.Errorf("a damaged leaf: renewed %v, %v, want it replaced", renewed, err)
			}
		})
	}
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}

func TestAuthorityIsNeverReplaced(t *testing.T) {
	dir, _ := open(t)
	first := authority(t, dir)
	if second := authority(t, dir); !first.Certificate.Equal(second.Certificate) {
		t.Error("loading makes another authority")
	}
	if err := os.Remove(dir.File("ca.crt")); err != nil {
		t.Fatal(err)
	}
	if again := authority(t, dir); !again.Certificate.PublicKey.(interface{ Equal(crypto.PublicKey) bool }).Equal(first.Certificate.PublicKey) {
		t.Error("the key did not survive the loss of the certificate, as after a crash between the two")
	}
	if err := os.WriteFile(dir.File("ca.key"), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Authority("ca", "test-ca"); err == nil {
		t.Error("a damaged key is replaced silently: every certificate out there would be void")
	}
}

func TestServersStartingTogetherShareTheirKeys(t *testing.T) {
	dir, _ := open(t)
	keys := make([]string, 8)
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() {
			key, err := dir.SecretKey("secret.key")
			if err != nil {
				t.Error(err)
			}
			keys[i] = key
		})
	}
	all.Wait()
	for _, key := range keys {
		if key != keys[0] || key == "" {
			t.Fatalf("keys differ: %q", keys)
		}
	}
}

func TestModes(t *testing.T) {
	dir, _ := open(t)
	if _, _, err := dir.SigningKey("signing"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := dir.Leaf("leaf", authority(t, dir), pki.Profile{CommonName: "a"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{
		"": 0o700, "signing.key": 0o600, "signing.pub": 0o644, "ca.key": 0o600, "leaf.key": 0o600, "leaf.crt": 0o644,
	} {
		info, err := os.Stat(dir.File(name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%q: %v, %v, want mode %v", name, info.Mode(), err, want)
		}
	}
}
