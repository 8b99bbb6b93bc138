package dial_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flagship-k8s/flagship/internal/clients/dial"
)

func TestCheckHost(t *testing.T) {
	cases := map[string]bool{
		"10.0.0.1": true, "fd00::1": true, "member.example.com": true, "localhost.example.com": true, "100.64.0.1": true,
		"127.0.0.1": false, "127.8.8.8": false, "::1": false, "0.0.0.0": false, "::": false, "169.254.169.254": false, "fe80::1": false, "fe80::1%eth0": false,
		"::ffff:127.0.0.1": false, "localhost": false, "LOCALHOST.": false, "a.localhost": false, "224.0.0.1": false,
	}
	for host, allowed := range cases {
		t.Run(host, func(t *testing.T) {
			err := (dial.Rules{}).CheckHost(host)
			var refused *dial.AddressError
			if errors.As(err, &refused) == allowed {
				t.Errorf("got %v, want allowed %v", err, allowed)
			}
			if err := (dial.Rules{AllowLoopback: true}).CheckHost(host); err != nil {
				t.Errorf("with the flag: %v", err)
			}
		})
	}
}

// TestANameOfThisMachineIsRefused: names are checked when they have been resolved.
func TestANameOfThisMachineIsRefused(t *testing.T) {
	server := newServer(t, nil)
	for name, target := range map[string]dial.Target{
		"endpoint": {Endpoint: "https://127.0.0.1.nip.invalid"},
		"proxy":    {Endpoint: "https://10.0.0.1", ProxyURL: server.URL},
		"socks":    {Endpoint: "https://10.0.0.1", ProxyURL: "socks5://" + server.Listener.Addr().String()},
	} {
		t.Run(name, func(t *testing.T) {
			way, err := dial.NewWay(target, dial.Rules{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = way.RoundTrip(request(t, way), dial.Identity{})
			var refused *dial.AddressError
			if name != "endpoint" && !errors.As(err, &refused) { // that one cannot be resolved here
				t.Errorf("got %v, want a refusal of the address", err)
			}
		})
	}
}

func TestParseEndpoint(t *testing.T) {
	for text, want := range map[string]string{
		"a": "https://a", "a:1": "https://a:1", "https://a/b/": "https://a/b", "http://a": "", "ftp://a": "", "https://": "",
	} {
		got, err := dial.ParseEndpoint(text)
		if want == "" != (err != nil) || err == nil && got.String() != want {
			t.Errorf("%q: got %v, %v, want %q", text, got, err, want)
		}
	}
}

// server is a member with an identity; it counts connections, and requests other than the question who it is.
type server struct {
	*httptest.Server
	id            atomic.Value
	status        atomic.Int32
	conns         atomic.Int32
	identityReads atomic.Int32
	requests      atomic.Int32
}

func newServer(t *testing.T, edit func(*httptest.Server)) *server {
	t.Helper()
	s := &server{}
	s.id.Store("one")
	s.status.Store(http.StatusOK)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/namespaces/kube-system" {
			s.identityReads.Add(1)
			w.WriteHeader(int(s.status.Load()))
			_, _ = fmt.Fprintf(w, `{"metadata":{"uid":%q}}`, s.id.Load())
			return
		}
		s.requests.Add(1)
		_, _ = fmt.Fprint(w, r.Proto)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.conns.Add(1)
		}
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = true
	if edit != nil {
		edit(s.Server)
	}
	s.StartTLS()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func (s *server) way(t *testing.T) *dial.Way {
	t.Helper()
	way, err := dial.NewWay(dial.Target{Endpoint: s.URL, Insecure: true}, dial.Rules{AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	return way
}

func request(t *testing.T, way *dial.Way) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, way.URL.String()+"/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func send(t *testing.T, way *dial.Way, who dial.Identity) error {
	t.Helper()
	resp, err := way.RoundTrip(request(t, way), who)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

func TestIdentityIsRequestedOncePerConnection(t *testing.T) {
	for _, http2 := range []bool{true, false} {
		t.Run(fmt.Sprintf("http2 %t", http2), func(t *testing.T) {
			s := newServer(t, func(s *httptest.Server) { s.EnableHTTP2 = http2 })
			way := s.way(t)
			for range 5 {
				if err := send(t, way, dial.Identity{ID: "one"}); err != nil {
					t.Fatal(err)
				}
			}
			if s.requests.Load() != 5 || s.identityReads.Load() > s.conns.Load() {
				t.Errorf("%d requests, %d reads of the identity on %d connections", s.requests.Load(), s.identityReads.Load(), s.conns.Load())
			}
			// The member is replaced by another one at the same address.
			s.id.Store("two")
			s.CloseClientConnections()
			err := send(t, way, dial.Identity{ID: "one"})
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = send(t, way, dial.Identity{ID: "one"}) // a request failed by the end of the first connection
			}
			var other *dial.IdentityError
			if !errors.As(err, &other) || !strings.Contains(err.Error(), `"two"`) {
				t.Errorf("got %v, want an IdentityError", err)
			}
			if s.requests.Load() != 5 {
				t.Error("a request reached another member")
			}
		})
	}
}

func TestIdentityThatCannotBeRead(t *testing.T) {
	cases := map[string]struct {
		status    int
		who       dial.Identity
		delivered bool
	}{
		"no identity is wanted":  {http.StatusForbidden, dial.Identity{}, true},
		"another token would be": {http.StatusUnauthorized, dial.Identity{ID: "one", Strict: true}, false},
		"no right":               {http.StatusForbidden, dial.Identity{ID: "one"}, false},
		"trouble":                {http.StatusInternalServerError, dial.Identity{ID: "one"}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, nil)
			s.status.Store(int32(c.status))
			err := send(t, s.way(t), c.who)
			if delivered := s.requests.Load() == 1; delivered != c.delivered || delivered != (err == nil) {
				t.Errorf("delivered %v, error %v", delivered, err)
			}
		})
	}
}

// TestATokenThatIsNotAccepted: kube-apiserver ends an HTTP/2 connection after a 401. The request is answered, not tried again
// and again on new connections. A request that gets the closed connection of the one before has the same answer without a
// question.
func TestATokenThatIsNotAccepted(t *testing.T) {
	s := newServer(t, func(s *httptest.Server) {
		inner := s.Config.Handler
		s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Connection", "close")
			inner.ServeHTTP(w, r)
		})
	})
	s.status.Store(http.StatusUnauthorized)
	way := s.way(t)
	const requests = 20
	for range requests {
		resp, err := way.RoundTrip(request(t, way), dial.Identity{ID: "one", Token: "expired"})
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Fatalf("the answer is %s", resp.Status)
		}
	}
	if reads, sent := s.identityReads.Load(), s.requests.Load(); reads == 0 || reads > requests || sent != 0 {
		t.Errorf("%d requests read the identity %d times, and %d were sent", requests, reads, sent)
	}
}

// slowToEnd is a connection whose reader receives its end late, so that the transport hands it out after it was closed.
type slowToEnd struct {
	net.Conn
	ended <-chan struct{}
}

func (c slowToEnd) NetConn() net.Conn { return c.Conn }

func (c slowToEnd) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		<-c.ended
	}
	return n, err
}

// TestAConnectionThatWasRefused: a request that gets the closed connection of the one before has the same answer, and
// nothing is sent.
func TestAConnectionThatWasRefused(t *testing.T) {
	s := newServer(t, nil)
	s.status.Store(http.StatusUnauthorized)
	way := s.way(t)
	ended := make(chan struct{})
	dialMarked := way.Transport.DialContext
	way.Transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialMarked(ctx, network, address)
		return slowToEnd{conn, ended}, err
	}
	defer close(ended)
	for range 3 {
		resp, err := way.RoundTrip(request(t, way), dial.Identity{ID: "one", Token: "expired"})
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Fatalf("the answer is %s", resp.Status)
		}
	}
	if sent := s.requests.Load(); sent != 0 {
		t.Errorf("%d requests were sent", sent)
	}
}

// TestTheNewestTLSIsUsed: TLS 1.3 with a server that has it, 1.2 with one that does not, nothing older.
func TestTheNewestTLSIsUsed(t *testing.T) {
	for name, c := range map[string]struct{ most, want uint16 }{
		"new":     {tls.VersionTLS13, tls.VersionTLS13},
		"old":     {tls.VersionTLS12, tls.VersionTLS12},
		"ancient": {tls.VersionTLS11, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, func(s *httptest.Server) {
				s.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: c.most} //nolint:gosec // on purpose
			})
			way := s.way(t)
			resp, err := way.RoundTrip(request(t, way), dial.Identity{})
			if err != nil {
				if c.want != 0 {
					t.Error(err)
				}
				return
			}
			_ = resp.Body.Close()
			if resp.TLS.Version != c.want {
				t.Errorf("TLS %x was spoken, want %x", resp.TLS.Version, c.want)
			}
		})
	}
}

// TestTheEnvironmentNamesNoProxy: the proxy of a member is the one of its Cluster.
func TestTheEnvironmentNamesNoProxy(t *testing.T) {
	way, err := dial.NewWay(dial.Target{Endpoint: "https://10.0.0.1"}, dial.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	if way.Transport.Proxy != nil {
		t.Error("the transport reads a proxy from the environment")
	}
}

// TestProxyHeader: commas separate values, for every client of a member.
func TestProxyHeader(t *testing.T) {
	got := make(chan []string, 1)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Values("X-Team")
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(proxy.Close)
	way, err := dial.NewWay(dial.Target{Endpoint: "https://10.0.0.1", ProxyURL: proxy.URL, ProxyHeader: map[string]string{"X-Team": "a, b"}},
		dial.Rules{AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := send(t, way, dial.Identity{}); err == nil {
		t.Error("a proxy that refuses was passed")
	}
	if values := <-got; strings.Join(values, "|") != "a|b" {
		t.Errorf("the proxy received %q", values)
	}
}

// TestAnIdentityHasABound: neither an answer without end nor a long uid is kept or shown.
func TestAnIdentityHasABound(t *testing.T) {
	for name, uid := range map[string]string{"a long uid": strings.Repeat("x", 100<<10), "an answer without end": strings.Repeat("x", 8<<20)} {
		s := newServer(t, nil)
		s.id.Store(uid)
		err := send(t, s.way(t), dial.Identity{ID: "one"})
		if err == nil || len(err.Error()) > 1<<10 || s.requests.Load() != 0 {
			t.Errorf("%s: an error of %d bytes, %d requests", name, len(fmt.Sprint(err)), s.requests.Load())
		}
	}
}
