package credential

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/atomicfile"
)

// issued is a file with a certificate for the agent that is valid for ten days from the time given.
func issued(t *testing.T, from time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	content, err := encode(sign(t, &key.PublicKey, key, from), key)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func sign(t *testing.T, subject any, signer *ecdsa.PrivateKey, from time.Time) []byte {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(from.Unix()), NotBefore: from, NotAfter: from.Add(10 * 24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, subject, signer)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// signing is a control plane that signs every request at once, as of a time.
func signing(t *testing.T, now func() time.Time) (kube *kubefake.Clientset, requests *int) {
	t.Helper()
	authority, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	kube, requests = kubefake.NewClientset(), new(int)
	kube.PrependReactor("create", "certificatesigningrequests", func(action clienttesting.Action) (bool, runtime.Object, error) {
		*requests++
		request := action.(clienttesting.CreateAction).GetObject().(*certificatesv1.CertificateSigningRequest)
		block, _ := pem.Decode(request.Spec.Request)
		parsed, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			return true, nil, err
		}
		if parsed.Subject.CommonName != clusterv1alpha1.AgentUser("eu") || len(parsed.Subject.Organization) != 2 {
			return true, nil, errors.New("the request is not for the agent")
		}
		request.Name, request.UID = "csr", "1"
		request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved}}
		request.Status.Certificate = sign(t, parsed.PublicKey, authority, now())
		return true, request, kube.Tracker().Add(request)
	})
	return kube, requests
}

// shared is a place in memory that replicas share. It stores first and then fails, if it has an error.
type shared struct {
	content []byte
	err     error
}

func (s *shared) Load(context.Context) ([]byte, error) { return s.content, nil }

func (s *shared) Store(_ context.Context, content []byte) error {
	s.content = content
	return s.err
}

func TestRenewalAtHalfOfTheLife(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		age     time.Duration
		renewed bool
	}{
		"new":            {0, false},
		"before half":    {5*24*time.Hour - time.Second, false},
		"after half":     {5*24*time.Hour + time.Second, true},
		"after its life": {11 * 24 * time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			clk := clocktesting.NewFakeClock(start.Add(tc.age))
			kube, requests := signing(t, clk.Now)
			file := filepath.Join(t.TempDir(), "agent.pem")
			before := issued(t, start)
			if err := atomicfile.Write(file, before, 0o600); err != nil {
				t.Fatal(err)
			}
			kept := &shared{content: before}
			r := &Renewal{Kube: kube, Cluster: "eu", UID: "1", File: file, Clock: clk, Shared: kept}
			if err := r.renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			after, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if renewed := string(after) != string(before); renewed != tc.renewed || (*requests > 0) != tc.renewed {
				t.Fatalf("renewed=%v with %d requests, want %v", renewed, *requests, tc.renewed)
			}
			if !tc.renewed {
				return
			}
			if string(kept.content) != string(after) {
				t.Error("what is stored elsewhere is not what is in the file")
			}
			if due, err := renewalTime(after); err != nil || !due.After(clk.Now()) {
				t.Errorf("the new certificate is due at %v, %v", due, err)
			}
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the file has the mode %v, %v", info.Mode(), err)
			}
		})
	}
}

// TestRenewalThatFailsKeepsTheCertificate: half of its life is left for further attempts.
func TestRenewalThatFailsKeepsTheCertificate(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clk := clocktesting.NewFakeClock(start.Add(6 * 24 * time.Hour))
	kube, _ := signing(t, clk.Now)
	file := filepath.Join(t.TempDir(), "agent.pem")
	before := issued(t, start)
	if err := atomicfile.Write(file, before, 0o600); err != nil {
		t.Fatal(err)
	}
	r := &Renewal{Kube: kube, Cluster: "eu", UID: "1", File: file, Clock: clk, Shared: &shared{content: before, err: errors.New("no space left")}}
	if err := r.renew(t.Context()); err == nil {
		t.Error("a failure to store the certificate is not reported")
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("the file changed, %v", err)
	}
	if left, err := filepath.Glob(file + ".*"); err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
}

// TestARenewalThatStopsIsRepeated: the process is killed after each of the writes. The file has a certificate at all times, and the next
// renewal brings file and Secret together.
func TestARenewalThatStopsIsRepeated(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	killed := errors.New("killed")
	for _, after := range []string{"the request", "the Secret", "the file"} {
		t.Run(after, func(t *testing.T) {
			clk := clocktesting.NewFakeClock(start.Add(6 * 24 * time.Hour))
			file := filepath.Join(t.TempDir(), "agent.pem")
			before := issued(t, start)
			if err := atomicfile.Write(file, before, 0o600); err != nil {
				t.Fatal(err)
			}
			secret := &shared{content: before}
			renew := func(dies string) error {
				kube, _ := signing(t, clk.Now)
				for _, verb := range []string{"get", "list", "watch"} {
					if dies == "the request" {
						kube.PrependReactor(verb, "certificatesigningrequests", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, killed })
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if dies == "the request" {
					cancel()
				}
				if secret.err = nil; dies == "the Secret" {
					secret.err = killed
				}
				r := &Renewal{Kube: kube, Cluster: "eu", UID: "1", File: file, Clock: clk, Shared: secret}
				return r.renew(ctx)
			}
			if err := renew(after); (err != nil) != (after != "the file") {
				t.Fatalf("the renewal that is killed after %s ends with %v", after, err)
			}
			if content, err := os.ReadFile(file); err != nil || (string(content) == string(before)) != (after != "the file") {
				t.Errorf("the file has neither the old nor the new certificate: %v", err)
			}
			if err := renew(""); err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(file)
			if err != nil || string(content) != string(secret.content) || string(content) == string(before) {
				t.Errorf("after the next renewal, the file and the Secret are not the same: %v", err)
			}
		})
	}
}

// TestReplicasShareACertificate: the first replica whose certificate is due requests one, and the others load it. What is no certificate
// is replaced.
func TestReplicasShareACertificate(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clk := clocktesting.NewFakeClock(start.Add(6 * 24 * time.Hour))
	kube, requests := signing(t, clk.Now)
	secret := &shared{}
	var files [3]string
	for i := range files {
		files[i] = filepath.Join(t.TempDir(), "agent.pem")
		if err := atomicfile.Write(files[i], issued(t, start), 0o600); err != nil {
			t.Fatal(err)
		}
		r := &Renewal{Kube: kube, Cluster: "eu", UID: "1", File: files[i], Clock: clk, Shared: secret}
		if err := r.renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		if content, err := os.ReadFile(files[i]); err != nil || string(content) != string(secret.content) {
			t.Errorf("replica %d has another certificate than the one they share: %v", i, err)
		}
	}
	if *requests != 1 {
		t.Errorf("%d certificates were requested", *requests)
	}
}
