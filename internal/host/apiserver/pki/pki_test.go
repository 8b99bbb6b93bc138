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

	"github.com/flagship-k8s/flagship/internal/host/apiserver/pki"
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

func TestADamagedLeafIsReplaced(t *testing.T) {
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
			text, err := dir.SecretKeys("secret.key")
			if err != nil {
				t.Error(err)
			}
			keys[i] = string(text)
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

// verifies returns whether a certificate is valid for a client that trusts the bundle, at a time.
func verifies(t *testing.T, bundle, cert []byte, at time.Time) error {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		t.Fatal("the bundle holds no certificate")
	}
	_, err := certificate(t, cert).Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err
}

// TestAuthoritiesSucceedEachOther goes through twenty-five years in steps of 100 days. A client that takes the bundle once a
// year always trusts the certificate that a server shows, and the server always trusts one that it signed a year ago.
func TestAuthoritiesSucceedEachOther(t *testing.T) {
	dir, clock := open(t)
	const step = 100 * 24 * time.Hour
	server := pki.Profile{CommonName: "server", DNSNames: []string{"localhost"}}
	var taken []byte     // the bundle of a client
	var held, key []byte // the certificate of a client, and the key of the authority that signed it
	signers := map[string]bool{}
	for i := range 25 * 365 / 100 {
		if _, err := dir.Renew("ca", "test-ca"); err != nil {
			t.Fatal(err)
		}
		a := authority(t, dir)
		leaf, _, err := dir.Leaf("server", a, server)
		if err != nil {
			t.Fatal(err)
		}
		now := clock.Now()
		if i%3 == 0 {
			taken = a.PEM
			if held, key, err = a.Issue(pki.Profile{CommonName: "client"}); err != nil || key == nil {
				t.Fatal(err)
			}
		}
		if err := verifies(t, taken, leaf.Cert, now); err != nil {
			t.Errorf("after %v days, a client does not trust the server: %v", i*100, err)
		}
		if err := verifies(t, a.PEM, held, now); err != nil {
			t.Errorf("after %v days, the server does not trust a client: %v", i*100, err)
		}
		if leaf.NotAfter.After(a.Certificate.NotAfter) {
			t.Errorf("after %v days, a certificate lives longer than its authority", i*100)
		}
		signers[a.Certificate.SerialNumber.String()] = true
		clock.Step(step)
	}
	if len(signers) != 3 {
		t.Errorf("in twenty-five years %d authorities have signed, want 3", len(signers))
	}
	if bundle := authority(t, dir).PEM; len(bundle) > 3*1024 {
		t.Errorf("authorities that have ended are still trusted: %d bytes", len(bundle))
	}
}

func TestAnAuthorityIsReplacedByCommand(t *testing.T) {
	dir, clock := open(t)
	before := authority(t, dir)
	old, _, err := before.Issue(pki.Profile{CommonName: "old"})
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.Switch("ca"); err == nil {
		t.Error("an authority without a successor is replaced")
	}
	for range 2 { // a second time changes nothing
		if _, err := dir.Prepare("ca", "test-ca"); err != nil {
			t.Fatal(err)
		}
	}
	prepared := authority(t, dir)
	if !prepared.Certificate.Equal(before.Certificate) {
		t.Error("a successor signs before the switch")
	}
	if err := dir.Switch("ca"); err != nil {
		t.Fatal(err)
	}
	after := authority(t, dir)
	if after.Certificate.Equal(before.Certificate) {
		t.Error("the old authority still signs")
	}
	fresh, _, err := after.Issue(pki.Profile{CommonName: "fresh"})
	if err != nil {
		t.Fatal(err)
	}
	if err := verifies(t, prepared.PEM, fresh, clock.Now()); err != nil {
		t.Errorf("who has taken the bundle before the change does not trust the successor: %v", err)
	}
	if err := verifies(t, after.PEM, old, clock.Now()); err != nil {
		t.Errorf("a certificate from before is void too early: %v", err)
	}
	if err := dir.Finish("ca"); err != nil {
		t.Fatal(err)
	}
	if err := verifies(t, authority(t, dir).PEM, old, clock.Now()); err == nil {
		t.Error("a certificate of the replaced authority still counts")
	}
}

// TestAnInterruptedSuccessionIsFinished stops between the two files that a change of the authority writes.
func TestAnInterruptedSuccessionIsFinished(t *testing.T) {
	dir, _ := open(t)
	authority(t, dir)
	if _, err := dir.Prepare("ca", "test-ca"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir.File("ca-next.key"), dir.File("ca.key")); err != nil {
		t.Fatal(err)
	}
	a := authority(t, dir)
	cert, err := os.ReadFile(dir.File("ca.crt"))
	if err != nil || !certificate(t, cert).Equal(a.Certificate) {
		t.Errorf("ca.crt is not that of ca.key: %v", err)
	}
}
