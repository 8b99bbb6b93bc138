package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/datadir"
	"github.com/flagship-k8s/flagship/internal/knowledge/atomicfile"
)

// Dir is a directory of keys and certificates.
type Dir struct {
	path  string
	clock clock.PassiveClock
}

// Pair is a certificate and its key, as files and as their contents.
type Pair struct {
	CertFile, KeyFile string
	Cert, Key         []byte
	// NotAfter is when the certificate ends.
	NotAfter time.Time
	// RenewAt is when Leaf would replace it: two thirds into its life.
	RenewAt time.Time
}

// Open makes the directory, readable by its owner only, unless it exists.
func Open(path string, clk clock.PassiveClock) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("making the key directory: %w", err)
	}
	return &Dir{path: path, clock: clk}, nil
}

// File is the path of a file in the directory.
func (d *Dir) File(name string) string { return filepath.Join(d.path, name) }

// MissingError says which keys are gone that storage with data cannot do without.
type MissingError struct {
	Dir   string
	Files []string
}

// Error implements error.
func (e *MissingError) Error() string {
	return fmt.Sprintf("the storage of this control plane has data, and of its keys in %s these are missing: %s. None is made anew: what the lost keys "+
		"encrypted and signed would be lost with them. Copy the files from another server of this control plane, or restore a backup with "+
		"'flagship restore from': see docs/storage.md", e.Dir, strings.Join(e.Files, ", "))
}

// ExitStatus is the exit code of a process that ends with the error.
func (e *MissingError) ExitStatus() int { return datadir.ExitDamaged }

// Require returns a MissingError unless all files are there.
func (d *Dir) Require(files ...string) error {
	var missing []string
	for _, name := range files {
		switch _, err := os.Stat(d.File(name)); {
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, name)
		case err != nil:
			return fmt.Errorf("looking for a key: %w", err)
		}
	}
	if len(missing) > 0 {
		return &MissingError{Dir: d.path, Files: missing}
	}
	return nil
}

// Authority loads the authority kept as name.crt and name.key, or creates it. Those that are trusted besides it, before and
// after its time, are in Bundle.
func (d *Dir) Authority(name, commonName string) (*Authority, error) {
	key, err := d.signingKey(name + ".key")
	if err != nil {
		return nil, err
	}
	certPEM, err := d.keep(name+".crt", 0o644, func() ([]byte, error) {
		return selfSigned(commonName, key, d.clock.Now())
	})
	if err != nil {
		return nil, err
	}
	cert, err := decodeCert(certPEM)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", d.File(name+".crt"), err)
	}
	trusted, err := d.trusted(name)
	if err != nil {
		return nil, err
	}
	if !samePublicKey(cert.PublicKey, key.Public()) {
		// A successor has taken over: its key is in place, and the certificate of it is trusted already.
		if cert = certOf(trusted, key.Public()); cert == nil {
			return nil, fmt.Errorf("%s does not belong to %s", d.File(name+".crt"), d.File(name+".key"))
		}
		if err := atomicfile.Write(d.File(name+".crt"), encodeCert(cert.Raw), 0o644); err != nil {
			return nil, err
		}
	}
	bundle := encodeAll(trusted)
	if _, err := d.keep(bundleName(name), 0o644, func() ([]byte, error) { return bundle, nil }); err != nil {
		return nil, err
	}
	return &Authority{Certificate: cert, PEM: bundle, key: key, now: d.clock.Now}, nil
}

// SigningKey makes sure that a private key (name.key) and its public half (name.pub) exist and returns
// their paths.
func (d *Dir) SigningKey(name string) (private, public string, err error) {
	key, err := d.signingKey(name + ".key")
	if err != nil {
		return "", "", err
	}
	_, err = d.keep(name+".pub", 0o644, func() ([]byte, error) {
		der, err := x509.MarshalPKIXPublicKey(key.Public())
		if err != nil {
			return nil, fmt.Errorf("encoding public key: %w", err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
	})
	return d.File(name + ".key"), d.File(name + ".pub"), err
}

// SecretKeys returns the content of a file of keys, and makes it with one key, of 32 random bytes in base64, if it is
// missing.
func (d *Dir) SecretKeys(name string) ([]byte, error) {
	return d.keep(name, 0o600, func() ([]byte, error) {
		key := make([]byte, 32)
		if _, err := rand.Read(key); err != nil {
			return nil, fmt.Errorf("drawing a secret key: %w", err)
		}
		return base64.StdEncoding.AppendEncode(nil, key), nil
	})
}

// Leaf returns the certificate kept as name.crt and name.key. It is issued anew when it is missing,
// past two thirds of its life, signed by another authority or made for other names; renewed is true then.
func (d *Dir) Leaf(name string, issuer *Authority, profile Profile) (pair Pair, renewed bool, err error) {
	pair, err = d.readPair(name)
	if err == nil && d.fits(pair, issuer, profile) {
		return pair, false, nil
	}
	certPEM, keyPEM, err := issuer.Issue(profile)
	if err != nil {
		return Pair{}, false, err
	}
	// The key first: a reader that reads the new key beside the old certificate finds a mismatch and
	// keeps what it has, whichever of the two files it was watching.
	if err := atomicfile.Write(d.File(name+".key"), keyPEM, 0o600); err != nil {
		return Pair{}, false, err
	}
	if err := atomicfile.Write(d.File(name+".crt"), certPEM, 0o644); err != nil {
		return Pair{}, false, err
	}
	pair, err = d.readPair(name)
	return pair, true, err
}

// Ends is when the certificate in name.crt ends, of an authority or of a leaf.
func (d *Dir) Ends(name string) (time.Time, error) {
	text, err := os.ReadFile(d.File(name + ".crt"))
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the certificate: %w", err)
	}
	cert, err := decodeCert(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading %s: %w", d.File(name+".crt"), err)
	}
	return cert.NotAfter, nil
}

func (d *Dir) readPair(name string) (Pair, error) {
	pair := Pair{CertFile: d.File(name + ".crt"), KeyFile: d.File(name + ".key")}
	var err error
	if pair.Cert, err = os.ReadFile(pair.CertFile); err != nil {
		return pair, err
	}
	if pair.Key, err = os.ReadFile(pair.KeyFile); err != nil {
		return pair, err
	}
	cert, err := decodeCert(pair.Cert)
	if err != nil {
		return pair, err
	}
	key, err := decodeKey(pair.Key)
	if err != nil {
		return pair, err
	}
	if !samePublicKey(cert.PublicKey, key.Public()) {
		return pair, errors.New("certificate and key differ")
	}
	pair.NotAfter = cert.NotAfter
	pair.RenewAt = cert.NotAfter.Add(-cert.NotAfter.Sub(cert.NotBefore) / 3)
	return pair, nil
}

func (d *Dir) fits(pair Pair, issuer *Authority, profile Profile) bool {
	cert, err := decodeCert(pair.Cert)
	if err != nil || cert.CheckSignatureFrom(issuer.Certificate) != nil {
		return false
	}
	now := d.clock.Now()
	if !now.Before(pair.RenewAt) || now.Before(cert.NotBefore) {
		return false
	}
	if cert.Subject.CommonName != profile.CommonName || !sameSet(cert.Subject.Organization, profile.Groups) {
		return false
	}
	ips := make([]string, len(cert.IPAddresses))
	for i, ip := range cert.IPAddresses {
		ips[i] = ip.String()
	}
	return sameSet(cert.DNSNames, profile.DNSNames) && sameSet(ips, profile.IPs)
}

func (d *Dir) signingKey(file string) (crypto.Signer, error) {
	data, err := d.keep(file, 0o600, func() ([]byte, error) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("generating a key: %w", err)
		}
		return encodeKey(key)
	})
	if err != nil {
		return nil, err
	}
	key, err := decodeKey(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", d.File(file), err)
	}
	return key, nil
}

// keep returns the content of a file, creating it first if need be. The file appears whole or not at
// all and is never replaced, so several servers may start in one directory at the same time.
func (d *Dir) keep(name string, mode fs.FileMode, create func() ([]byte, error)) ([]byte, error) {
	path := d.File(name)
	data, err := os.ReadFile(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	if data, err = create(); err != nil {
		return nil, err
	}
	if err := atomicfile.Create(path, data, mode); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

func parseIPs(texts []string) ([]net.IP, error) {
	ips := make([]net.IP, 0, len(texts))
	for _, text := range texts {
		ip := net.ParseIP(text)
		if ip == nil {
			return nil, fmt.Errorf("%q is not an IP address", text)
		}
		ips = append(ips, ip)
	}
	return ips, nil
}

func samePublicKey(a, b crypto.PublicKey) bool {
	comparable, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && comparable.Equal(b)
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}
