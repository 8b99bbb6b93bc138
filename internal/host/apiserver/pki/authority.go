package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

const (
	// authorityLife is how long a certificate authority is valid. Its successor has to be added to every kubeconfig, so it
	// outlives any certificate it signs by far.
	authorityLife = 10 * 365 * 24 * time.Hour
	// skew is taken off the start of every certificate, for peers whose clock is behind, by a wrong time zone for example.
	skew = 24 * time.Hour
)

// Authority signs certificates.
type Authority struct {
	// Certificate is the authority's own certificate.
	Certificate *x509.Certificate
	// PEM are the certificates that others need to verify what it signed, and what those signed that came before it and will
	// come after it.
	PEM []byte

	key crypto.Signer
	now func() time.Time
}

// Profile is what a leaf certificate contains about its holder.
type Profile struct {
	// CommonName is the user name of a client, or a name for people on a server.
	CommonName string
	// Groups become the organization, which the API server reads as the user's groups.
	Groups []string
	// DNSNames and IPs are where a server is reached. Both empty means a client certificate.
	DNSNames []string
	IPs      []string
	// Life is how long the certificate is valid; zero means one year.
	Life time.Duration
}

func (p Profile) life() time.Duration {
	if p.Life > 0 {
		return p.Life
	}
	return 365 * 24 * time.Hour
}

func (p Profile) isServer() bool { return len(p.DNSNames)+len(p.IPs) > 0 }

// Issue signs a new certificate for a new key and returns both as PEM.
func (a *Authority) Issue(p Profile) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generating key for %q: %w", p.CommonName, err)
	}
	certPEM, err = a.sign(p, &key.PublicKey)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err = encodeKey(key)
	return certPEM, keyPEM, err
}

func (a *Authority) sign(p Profile, public crypto.PublicKey) ([]byte, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	ips, err := parseIPs(p.IPs)
	if err != nil {
		return nil, err
	}
	usage := x509.ExtKeyUsageClientAuth
	if p.isServer() {
		usage = x509.ExtKeyUsageServerAuth
	}
	now := a.now()
	end := now.Add(p.life())
	if end.After(a.Certificate.NotAfter) {
		end = a.Certificate.NotAfter // no client would trust it any longer
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: p.CommonName, Organization: p.Groups},
		DNSNames:              p.DNSNames,
		IPAddresses:           ips,
		NotBefore:             now.Add(-skew).UTC(),
		NotAfter:              end.UTC(),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:           []x509.ExtKeyUsage{usage},
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Certificate, public, a.key)
	if err != nil {
		return nil, fmt.Errorf("signing certificate for %q: %w", p.CommonName, err)
	}
	return encodeCert(der), nil
}

func selfSigned(commonName string, key crypto.Signer, now time.Time) ([]byte, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: commonName},
		NotBefore:             now.Add(-skew).UTC(),
		NotAfter:              now.Add(authorityLife).UTC(),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing authority %q: %w", commonName, err)
	}
	return encodeCert(der), nil
}

func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("drawing a serial number: %w", err)
	}
	return serial.Add(serial, big.NewInt(1)), nil
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func decodeCert(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("no PEM certificate found")
	}
	return x509.ParseCertificate(block.Bytes)
}

// decodeKey accepts the encodings other tools write, so that an operator may bring an authority.
func decodeKey(data []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("no PEM private key found")
	}
	switch block.Type {
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(block.Bytes)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a %T cannot sign", key)
	}
	return signer, nil
}
