package pki

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/flagship-k8s/flagship/internal/knowledge/atomicfile"
)

const (
	// succession is how long before its end an authority gets a successor, which is trusted from then on but does not sign.
	// Until handover it has to be added wherever certificates are verified.
	succession = 2 * 365 * 24 * time.Hour
	// handover is how long before the end of an authority its successor signs instead: longer than a certificate is valid, so
	// that none ends early.
	handover = 400 * 24 * time.Hour
)

// ErrNoSuccessor means that an authority has no successor that could sign.
var ErrNoSuccessor = errors.New("there is no successor: prepare one first")

// bundleName is the file of all certificates that are trusted besides name.crt, and that one.
func bundleName(name string) string { return name + "-bundle.crt" }

// nextName is the key file of a successor that does not sign yet.
func nextName(name string) string { return name + "-next.key" }

// Bundle is the path of the certificates that verify what the authority and those before and after it sign.
func (d *Dir) Bundle(name string) string { return d.File(bundleName(name)) }

// Renew takes the step that is due in the life of an authority: it makes a successor two years before the end, has it sign 400
// days before the end, and removes authorities that have ended. It returns whether anything changed.
func (d *Dir) Renew(name, commonName string) (changed bool, err error) {
	authority, err := d.Authority(name, commonName)
	if err != nil {
		return false, err
	}
	now := d.clock.Now()
	left := authority.Certificate.NotAfter.Sub(now)
	if left < succession {
		made, err := d.Prepare(name, commonName)
		if err != nil {
			return false, err
		}
		changed = made
	}
	if left < handover {
		if err := d.Switch(name); err != nil {
			return changed, err
		}
		changed = true
	}
	dropped, err := d.forget(name, func(cert *x509.Certificate) bool { return now.After(cert.NotAfter) })
	return changed || dropped, err
}

// Prepare makes a successor that is trusted from now on, unless there is one.
func (d *Dir) Prepare(name, commonName string) (made bool, err error) {
	if _, err := d.Authority(name, commonName); err != nil {
		return false, err
	}
	key, err := d.signingKey(nextName(name))
	if err != nil {
		return false, err
	}
	trusted, err := d.trusted(name)
	if err != nil {
		return false, err
	}
	if certOf(trusted, key.Public()) != nil {
		return false, nil
	}
	cert, err := selfSigned(commonName, key, d.clock.Now())
	if err != nil {
		return false, err
	}
	return true, atomicfile.Write(d.Bundle(name), append(encodeAll(trusted), cert...), 0o644)
}

// Switch has the successor that Prepare made sign from now on. What was signed before stays trusted.
func (d *Dir) Switch(name string) error {
	data, err := os.ReadFile(d.File(nextName(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNoSuccessor
	}
	if err != nil {
		return err
	}
	key, err := decodeKey(data)
	if err != nil {
		return fmt.Errorf("reading %s: %w", d.File(nextName(name)), err)
	}
	trusted, err := d.trusted(name)
	if err != nil {
		return err
	}
	if certOf(trusted, key.Public()) == nil {
		return fmt.Errorf("the successor of %s is not trusted: prepare it first", d.File(name+".crt"))
	}
	// This decides it; Authority puts the certificate in its place.
	if err := os.Rename(d.File(nextName(name)), d.File(name+".key")); err != nil {
		return fmt.Errorf("replacing %s: %w", d.File(name+".key"), err)
	}
	_, err = d.Authority(name, "")
	return err
}

// Finish trusts the signing authority only: every certificate that another one signed is void.
func (d *Dir) Finish(name string) error {
	authority, err := d.Authority(name, "")
	if err != nil {
		return err
	}
	if err := os.Remove(d.File(nextName(name))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the successor: %w", err)
	}
	_, err = d.forget(name, func(cert *x509.Certificate) bool { return !cert.Equal(authority.Certificate) })
	return err
}

// forget stops trusting the authorities that are void.
func (d *Dir) forget(name string, void func(*x509.Certificate) bool) (changed bool, err error) {
	trusted, err := d.trusted(name)
	if err != nil {
		return false, err
	}
	var kept []*x509.Certificate
	for _, cert := range trusted {
		if !void(cert) {
			kept = append(kept, cert)
		}
	}
	if len(kept) == len(trusted) || len(kept) == 0 {
		return false, nil
	}
	return true, atomicfile.Write(d.Bundle(name), encodeAll(kept), 0o644)
}

// trusted are the certificates that are trusted for an authority; a directory of an earlier version has only its own.
func (d *Dir) trusted(name string) ([]*x509.Certificate, error) {
	file := d.Bundle(name)
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		file = d.File(name + ".crt")
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, err
	}
	var certs []*x509.Certificate
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		return nil, fmt.Errorf("%s holds no certificate", file)
	}
	return certs, nil
}

// certOf is the certificate for a key; nil if there is none.
func certOf(certs []*x509.Certificate, public any) *x509.Certificate {
	for _, cert := range certs {
		if samePublicKey(cert.PublicKey, public) {
			return cert
		}
	}
	return nil
}

func encodeAll(certs []*x509.Certificate) []byte {
	var all [][]byte
	for _, cert := range certs {
		all = append(all, encodeCert(cert.Raw))
	}
	return bytes.Join(all, nil)
}
