package fleettest

import (
	"context"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Misbehaviour may answer a request in the member's place; it returns false for one that is to go through.
type Misbehaviour func(w http.ResponseWriter, r *http.Request) (answered bool)

// Proxy stands in front of a member's API server and can behave badly. Who comes with a token is let through as who that
// is, everybody else is an administrator.
type Proxy struct {
	// Kubeconfig is the file that leads to the member through the proxy.
	Kubeconfig string

	mu      sync.Mutex
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
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
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
	server.EnableHTTP2 = true
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
	defer func() { _ = recover() }() // a stream that ends early panics on purpose, which is no news here
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

// CloseWatches ends all streams at once, in the middle of whatever they say.
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
