package member_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
)

// authority issues certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{t, cert, key}
}

// bundle is the certificate of the authority as PEM.
func (a *authority) bundle() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// issue returns a certificate and its key, as PEM, that ends after a time, which may be over.
func (a *authority) issue(ends time.Duration) (cert, key []byte) {
	a.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "leaf"}, NotBefore: time.Now().Add(-24 * time.Hour),
		NotAfter: time.Now().Add(ends), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &private.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

func (a *authority) pair(ends time.Duration) *tls.Certificate {
	a.t.Helper()
	cert, key := a.issue(ends)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		a.t.Fatal(err)
	}
	return &pair
}

// TestCertificatesThatEnd: a certificate that has expired, or that another authority issued, on either side, is an outage of that member,
// of which the cause says what is wrong. It ends when the certificate is replaced: the connection stays the same.
func TestCertificatesThatEnd(t *testing.T) {
	const valid, over = time.Hour, -time.Hour
	one, two := newAuthority(t, "one"), newAuthority(t, "two")
	var presented atomic.Pointer[tls.Certificate]
	presented.Store(one.pair(valid))
	var ahead atomic.Int64 // by how much the clock of the member is ahead
	clients := x509.NewCertPool()
	clients.AddCert(one.cert)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	s.TLS = &tls.Config{
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return &tls.Config{Certificates: []tls.Certificate{*presented.Load()}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
				Time: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }}, nil
		},
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })

	var current atomic.Pointer[member.Credential]
	hold := func(a *authority, ends time.Duration) {
		cert, key := one.issue(ends)
		current.Store(&member.Credential{CABundle: a.bundle(), Certificate: cert, Key: key})
	}
	hold(one, valid)
	clock := clocktesting.NewFakeClock(time.Now())
	fleet, conn := connect(t, s.URL, func(c *member.Config) {
		c.Clock = clock
		c.Credentials = func(context.Context, *clusterv1alpha1.Cluster) (member.Credential, error) {
			return *current.Load(), nil
		}
	})
	trusting := cluster(s.URL)
	trusting.Spec.InsecureSkipTLSVerification = false
	if err := fleet.Upsert(t.Context(), trusting); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		begin, end func()
		cause      string
	}{
		"the member's has expired": {func() { presented.Store(one.pair(over)) }, func() { presented.Store(one.pair(valid)) }, "certificate has expired"},
		"the member's is of another authority": {func() { presented.Store(two.pair(valid)) }, func() { presented.Store(one.pair(valid)) },
			"signed by unknown authority"},
		"the member has another authority": {func() { presented.Store(two.pair(valid)) }, func() { hold(two, valid); fleet.Refresh("member1") },
			"signed by unknown authority"},
		"the control plane's has expired": {func() { presented.Store(one.pair(valid)); hold(one, over); fleet.Refresh("member1") },
			func() { hold(one, valid); fleet.Refresh("member1") }, "certificate"},
		"the control plane's has expired by the clock of the member, which is an hour ahead": {
			func() { hold(one, valid/2); fleet.Refresh("member1"); ahead.Store(int64(time.Hour)) },
			func() { hold(one, 2*valid); fleet.Refresh("member1") }, "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			ahead.Store(0)
			presented.Store(one.pair(valid))
			hold(one, valid)
			fleet.Refresh("member1")
			reachable := func() bool {
				if clock.HasWaiters() {
					clock.Step(2 * time.Minute) // the next probe
				}
				_, err := get(t.Context(), conn.HTTPClient(), "/x")
				return err == nil
			}
			s.CloseClientConnections() // once: a handshake takes longer than the pause between two tries
			eventually(t, "it is reached", reachable)
			tc.begin()
			s.CloseClientConnections()
			// Before, a handshake may have been too slow.
			eventually(t, fmt.Sprintf("the breaker opens with the cause %q", tc.cause), func() bool {
				_, err := get(t.Context(), conn.HTTPClient(), "/x")
				health := conn.Health()
				if health.Down && clock.HasWaiters() {
					clock.Step(2 * time.Minute) // the next probe
				}
				return err != nil && health.Down && strings.Contains(health.Cause.Error(), tc.cause)
			})
			tc.end()
			s.CloseClientConnections()
			eventually(t, "it is reached again", reachable)
			if now, _ := fleet.Get("member1"); now != conn {
				t.Error("it is another connection")
			}
		})
	}
}
