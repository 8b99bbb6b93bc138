package fleettest

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/pki"
)

// Misbehaviour may answer a request in the member's place; it returns false for one that is to go through.
type Misbehaviour func(w http.ResponseWriter, r *http.Request) (answered bool)

// Proxy stands in front of a member's API server and can answer in its place. Requests with a token go through with it, others as
// an administrator's.
type Proxy struct {
	// Kubeconfig is the file that leads to the member through the proxy.
	Kubeconfig string

	server    *httptest.Server
	presented atomic.Pointer[tls.Certificate] // nil: its own

	mu      sync.Mutex
	ahead   time.Duration
	bad     Misbehaviour
	streams map[*http.Request]context.CancelFunc
	counts  map[string]int
}

// StartProxy puts a proxy in front of a member until the test ends. It behaves well at first.
func StartProxy(t testing.TB, member *Cluster) *Proxy {
	t.Helper()
	target, err := url.Parse(member.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	asAdmin, err := rest.TransportFor(member.Config)
	if err != nil {
		t.Fatal(err)
	}
	asWhoTheyAre, err := rest.TransportFor(rest.AnonymousClientConfig(member.Config))
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), streams: map[*http.Request]context.CancelFunc{}, counts: map[string]int{}}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			if p.shift() != 0 { // of the other encodings the times cannot be replaced
				r.Out.Header.Del("Accept-Encoding")
				r.Out.Header.Set("Accept", withoutProtobuf(r.Out.Header.Get("Accept")))
			}
		},
		ModifyResponse: func(resp *http.Response) error {
			if ahead := p.shift(); ahead != 0 {
				shiftTimes(resp, ahead)
			}
			return nil
		},
		Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Header.Get("Authorization") != "" {
				return asWhoTheyAre.RoundTrip(r)
			}
			return asAdmin.RoundTrip(r)
		}),
		FlushInterval: -1, // watches
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, forward) }))
	p.server = server
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if other := p.presented.Load(); other != nil {
			return &tls.Config{Certificates: []tls.Certificate{*other}, NextProtos: []string{"h2", "http/1.1"}}, nil
		}
		return nil, nil
	}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(func() { p.CloseWatches(); server.CloseClientConnections(); server.Close() })
	config := clientcmdapi.NewConfig()
	config.Clusters["member"] = &clientcmdapi.Cluster{
		Server:                   server.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
	config.AuthInfos["member"] = &clientcmdapi.AuthInfo{}
	config.Contexts["member"] = &clientcmdapi.Context{Cluster: "member", AuthInfo: "member"}
	config.CurrentContext = "member"
	if err := clientcmd.WriteToFile(*config, p.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	return p
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	r = r.WithContext(ctx)
	p.mu.Lock()
	bad := p.bad
	if IsWatch(r) {
		p.streams[r] = cancel
	}
	p.counts[kindOfRequest(r)]++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.streams, r)
	}()
	if bad != nil && bad(w, r) {
		return
	}
	defer func() { _ = recover() }() // a stream that ends early panics on purpose, which is expected
	forward.ServeHTTP(w, r)
}

// IsWatch returns whether a request is a watch.
func IsWatch(r *http.Request) bool {
	watch := r.URL.Query().Get("watch")
	return watch == "true" || watch == "1"
}

func kindOfRequest(r *http.Request) string {
	if IsWatch(r) {
		return "WATCH"
	}
	return r.Method
}

// Misbehave sets how the proxy answers from now on; nil: as the server does.
func (p *Proxy) Misbehave(bad Misbehaviour) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bad = bad
}

// ExpectCertificates has the proxy present certificates that no client may accept, and waits until the condition Ready of the cluster has
// the cause, and is True again with the proxy's own certificate.
func (p *Proxy) ExpectCertificates(t testing.TB, hub *Cluster, cluster *clusterv1alpha1.Cluster) {
	t.Helper()
	keys, err := pki.Open(t.TempDir(), clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := keys.Authority("other", "other")
	if err != nil {
		t.Fatal(err)
	}
	for cause, life := range map[string]time.Duration{"certificate has expired": time.Nanosecond, "certificate signed by unknown authority": time.Hour} {
		cert, key, err := other.Issue(pki.Profile{CommonName: "other", IPs: []string{"127.0.0.1"}, Life: life})
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		p.presented.Store(&pair)
		p.server.CloseClientConnections()
		expect := func(status metav1.ConditionStatus, reason, message string) {
			t.Helper()
			ExpectEventually(t, hub, cluster, func(c *clusterv1alpha1.Cluster) error {
				ready := meta.FindStatusCondition(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
				if ready == nil || ready.Status != status || ready.Reason != reason || !strings.Contains(ready.Message, message) {
					return fmt.Errorf("its condition is %+v, want %s with %q", ready, reason, message)
				}
				return nil
			})
		}
		expect(metav1.ConditionFalse, clusterv1alpha1.ClusterNotReachableReason, cause)
		p.presented.Store(nil)
		expect(metav1.ConditionTrue, clusterv1alpha1.ClusterReadyReason, "")
	}
}

// CloseWatches ends all streams at once, in the middle of an event.
func (p *Proxy) CloseWatches() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, end := range p.streams {
		end()
	}
}

// Count is how many requests of a method came so far; streams count as "WATCH".
func (p *Proxy) Count(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[method]
}
