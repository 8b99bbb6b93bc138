package credential

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/client-go/util/keyutil"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

const (
	// Lifetime is how long a certificate is requested to be valid. It is renewed at half of that.
	Lifetime = 30 * 24 * time.Hour
	// patience is how long a request waits for its approval and signature, which take a second.
	patience = time.Minute
)

// Request obtains a certificate for the agent of a Cluster with the identity of the client: that of a bootstrap token, or of the agent
// itself. The result is one PEM file with the certificate and a new private key, which never leaves this process otherwise.
func Request(ctx context.Context, kube kubernetes.Interface, cluster string, uid types.UID) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating a key: %w", err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: clusterv1alpha1.AgentUser(cluster), Organization: clusterv1alpha1.AgentGroups(uid)}}
	request, err := cert.MakeCSRFromTemplate(key, template)
	if err != nil {
		return nil, fmt.Errorf("encoding the request of a certificate: %w", err)
	}
	life := Lifetime
	name, id, err := csr.RequestCertificateWithContext(ctx, kube, request, "", certificatesv1.KubeAPIServerClientSignerName, &life,
		[]certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature}, key)
	if err != nil {
		return nil, fmt.Errorf("requesting a certificate: %w", err)
	}
	waiting, cancel := context.WithTimeoutCause(ctx, patience, errors.New("the control plane did not decide about it in time"))
	defer cancel()
	signed, err := csr.WaitForCertificate(waiting, kube, name, id)
	if err != nil {
		return nil, fmt.Errorf("waiting for the certificate that %s requests: %w", name, err)
	}
	return encode(signed, key)
}

// encode joins a certificate and its key, so that a file of both is replaced as one.
func encode(certificate []byte, key crypto.PrivateKey) ([]byte, error) {
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the key: %w", err)
	}
	return bytes.Join([][]byte{bytes.TrimSpace(certificate), bytes.TrimSpace(encoded), nil}, []byte("\n")), nil
}

// renewalTime is when half of the life of the certificate in a PEM file is over.
func renewalTime(content []byte) (time.Time, error) {
	parsed, err := parse(content)
	if err != nil {
		return time.Time{}, err
	}
	return parsed.NotBefore.Add(parsed.NotAfter.Sub(parsed.NotBefore) / 2), nil
}

// Expiry is when the certificate in a PEM file ends.
func Expiry(content []byte) (time.Time, error) {
	parsed, err := parse(content)
	if err != nil {
		return time.Time{}, err
	}
	return parsed.NotAfter, nil
}

func parse(content []byte) (*x509.Certificate, error) {
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != cert.CertificateBlockType {
			continue
		}
		parsed, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parsing the certificate: %w", err)
		}
		return parsed, nil
	}
	return nil, errors.New("there is no certificate in the file")
}
