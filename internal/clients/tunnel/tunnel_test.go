package tunnel_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clienttransport "k8s.io/client-go/transport"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/flagship-k8s/flagship/internal/clients/dial"
	"github.com/flagship-k8s/flagship/internal/clients/tunnel"
)

// controlPlane accepts tunnels of the cluster "far".
type controlPlane struct {
	*tunnel.Tunnels
	server *httptest.Server
	// valid is called instead of the periodic check.
	valid   func(context.Context) error
	expires time.Time
	ended   chan error
}

func newControlPlane(t *testing.T, c clock.WithTicker, metrics prometheus.Registerer) *controlPlane {
	t.Helper()
	return newServer(t, "", c, metrics)
}

func newServer(t *testing.T, name string, c clock.WithTicker, metrics prometheus.Registerer) *controlPlane {
	t.Helper()
	cp := &controlPlane{Tunnels: tunnel.NewTunnels(name, c, metrics), ended: make(chan error, 8), valid: func(context.Context) error { return nil }}
	cp.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/apis/cluster.karmada.io/v1alpha1/clusters/far/tunnel" || r.Header.Get("Upgrade") != tunnel.Protocol {
			http.Error(w, "no such tunnel", http.StatusNotFound)
			return
		}
		if cp.Has(r.Header) {
			http.Error(w, "it has one", http.StatusConflict)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			err = cp.Accept(conn)
		}
		if err != nil {
			t.Error(err)
			return
		}
		cp.ended <- cp.Serve(r.Context(), conn, "far", "1", cp.expires, cp.valid)
	}))
	t.Cleanup(cp.server.Close)
	t.Cleanup(cp.Close)
	return cp
}

// agent runs one until the test, or stop, ends.
func (cp *controlPlane) agent(t *testing.T, cluster string, handler http.HandlerFunc) (a *tunnel.Agent, stop func()) {
	t.Helper()
	return startAgent(t, cp.server.URL, cluster, handler)
}

func startAgent(t *testing.T, address, cluster string, handler http.HandlerFunc) (a *tunnel.Agent, stop func()) {
	t.Helper()
	a = tunnel.NewAgent(&rest.Config{Host: address}, cluster, handler, clock.RealClock{}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := a.Start(ctx); err != nil {
			t.Error(err)
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return a, stop
}

// eventually polls, without the clock of the test, until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(3 * time.Minute)
	defer deadline.Stop()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !holds() {
		select {
		case <-poll.C:
		case <-deadline.C:
			t.Fatalf("timed out: %s", what)
		}
	}
}

func (cp *controlPlane) await(t *testing.T) (*url.URL, *http.Transport) {
	t.Helper()
	var location *url.URL
	var transport *http.Transport
	eventually(t, "the agent opens its tunnel", func() bool {
		location, transport = cp.Member("far", "1")
		return transport != nil
	})
	return location, transport
}

// responder answers errors as text.
type responder struct{ w http.ResponseWriter }

func (r responder) Error(err error) { http.Error(r.w, err.Error(), http.StatusServiceUnavailable) }

// front is what users send requests to: it forwards them into the tunnel.
func (cp *controlPlane) front(t *testing.T) *httptest.Server {
	t.Helper()
	location, transport := cp.await(t)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		target := *location
		target.Path, target.RawQuery = r.URL.Path, r.URL.RawQuery
		dial.Forward(w, r, &target, transport, dial.Sender{As: clienttransport.ImpersonationConfig{UserName: "jane"}}, responder{w})
	}))
	t.Cleanup(front.Close)
	return front
}

func body(t *testing.T, method, url, content string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.Status + " " + string(text)
}

// TestRequests: requests, streams and upgraded connections arrive and are answered.
func TestRequests(t *testing.T) {
	cp := newControlPlane(t, clock.RealClock{}, nil)
	cancelled := make(chan struct{})
	a, _ := cp.agent(t, "far", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/watch":
			_, _ = io.WriteString(w, "first\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			close(cancelled)
		case "/upgrade":
			conn, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n")
			for {
				line, err := buffered.ReadString('\n')
				if err != nil {
					return
				}
				fmt.Fprintf(conn, "you wrote %s", line)
			}
		default:
			content, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s %d", r.Method, r.URL.RequestURI(), len(content))
		}
	})
	front := cp.front(t)
	eventually(t, "the agent has its end of the tunnel, too", func() bool { return a.Check() == nil })
	large := strings.Repeat("x", 5<<20)
	if got := body(t, http.MethodPost, front.URL+"/api/v1?limit=1", large); got != fmt.Sprintf("200 OK POST /api/v1?limit=1 %d", len(large)) {
		t.Errorf("got %s", got)
	}

	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, front.URL+"/watch", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(response.Body).ReadString('\n'); line != "first\n" {
		t.Errorf("a watch has %q, %v", line, err)
	}
	cancel() // which ends the request at the other end
	<-cancelled
	_ = response.Body.Close()

	conn, err := net.Dial("tcp", front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	fmt.Fprintf(conn, "GET /upgrade HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n")
	reader := bufio.NewReader(conn)
	upgraded, err := http.ReadResponse(reader, nil)
	if err != nil || upgraded.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgrade: %v, %v", upgraded, err)
	}
	fmt.Fprint(conn, "hello\n")
	if line, err := reader.ReadString('\n'); line != "you wrote hello\n" {
		t.Errorf("got %q, %v", line, err)
	}
}

// TestOneTunnelOfOneCluster: a tunnel serves the Cluster object that its agent was registered for, and the newest replaces others.
func TestOneTunnelOfOneCluster(t *testing.T) {
	registry := prometheus.NewRegistry()
	cp := newControlPlane(t, clock.RealClock{}, registry)
	answer := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
	}
	_, stop := cp.agent(t, "far", answer("first"))
	front := cp.front(t)
	if got := body(t, http.MethodGet, front.URL, ""); got != "200 OK first" {
		t.Errorf("got %s", got)
	}
	for _, other := range []struct {
		cluster string
		uid     types.UID
	}{{"far", "2"}, {"near", "1"}} {
		if _, transport := cp.Member(other.cluster, other.uid); transport != nil {
			t.Errorf("the tunnel of far (1) is used for %s (%s)", other.cluster, other.uid)
		}
	}
	if n, err := testutil.GatherAndCount(registry, "flagship_tunnel_streams"); n != 1 || err != nil {
		t.Errorf("%d samples, %v", n, err)
	}
	stop()
	if err := <-cp.ended; err != nil {
		t.Error(err)
	}
	if got := body(t, http.MethodGet, front.URL, ""); !strings.HasPrefix(got, "503 ") || !strings.Contains(got, "the tunnel of the agent has ended") {
		t.Errorf("without a tunnel: %s", got)
	}

	cp.agent(t, "far", answer("second"))
	_, second := cp.await(t)
	cp.agent(t, "far", answer("third"))
	if err := <-cp.ended; err != nil { // the second
		t.Error(err)
	}
	eventually(t, "the newest tunnel is used", func() bool {
		_, transport := cp.Member("far", "1")
		return transport != nil && transport != second
	})
}

// TestATunnelAtEachServer: behind one address an agent finds all servers, keeps a tunnel at each, and opens what ends.
func TestATunnelAtEachServer(t *testing.T) {
	servers := []*controlPlane{newServer(t, "one", clock.RealClock{}, nil), newServer(t, "two", clock.RealClock{}, nil)}
	var requests atomic.Int64
	balancer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		servers[requests.Add(1)/2%2].server.Config.Handler.ServeHTTP(w, r) // each twice
	}))
	t.Cleanup(balancer.Close)
	a, stop := startAgent(t, balancer.URL, "far", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") })
	for range 2 {
		for i, cp := range servers {
			if got := body(t, http.MethodGet, cp.front(t).URL, ""); got != "200 OK here" {
				t.Errorf("server %d answers %s", i, got)
			}
		}
		if err := a.Check(); err != nil {
			t.Error(err)
		}
		_, before := servers[1].await(t)
		servers[1].Close()
		<-servers[1].ended
		if _, now := servers[0].await(t); now == nil {
			t.Error("the tunnel at the other server ended, too")
		}
		eventually(t, "the tunnel that ended is opened again", func() bool {
			_, now := servers[1].Member("far", "1")
			return now != nil && now != before
		})
	}
	stop()
	if err := a.Check(); err == nil {
		t.Error("without tunnels the agent is in order")
	}
	if <-servers[0].ended; len(servers[0].ended) > 0 {
		t.Error("the tunnel at the first server was replaced")
	}
}

// TestRefusedAgent: the reason of a refusal is in the state of the agent.
func TestRefusedAgent(t *testing.T) {
	cp := newControlPlane(t, clock.RealClock{}, nil)
	a, _ := cp.agent(t, "near", nil)
	eventually(t, "the state has the reason", func() bool {
		err := a.Check()
		return err != nil && strings.Contains(err.Error(), "404 Not Found: no such tunnel")
	})
}

// TestTunnelsEndWithTheRightToThem: a tunnel ends when the periodic check fails, or the certificate of its agent expires.
func TestTunnelsEndWithTheRightToThem(t *testing.T) {
	for name, prepare := range map[string]func(*controlPlane, time.Time){
		"Invalid": func(cp *controlPlane, _ time.Time) {
			cp.valid = func(context.Context) error { return errors.New("the Cluster is gone") }
		},
		"Expired": func(cp *controlPlane, now time.Time) { cp.expires = now.Add(time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			fake := clocktesting.NewFakeClock(time.Now())
			cp := newControlPlane(t, fake, nil)
			prepare(cp, fake.Now())
			cp.agent(t, "far", nil)
			cp.await(t)
			eventually(t, "the tunnel is checked", fake.HasWaiters)
			fake.Step(2 * time.Minute)
			if err := <-cp.ended; err == nil {
				t.Error("the tunnel ended without a reason")
			}
		})
	}
}

// TestLimit: there is a bound on open connections, and a request beyond it is refused at once.
func TestLimit(t *testing.T) {
	cp := newControlPlane(t, clock.RealClock{}, nil)
	cp.agent(t, "far", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	location, transport := cp.await(t)
	get := func() (*http.Response, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, location.String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return transport.RoundTrip(request)
	}
	for n := 1; ; n++ {
		response, err := get()
		if err != nil {
			if n != 257 || !strings.Contains(err.Error(), "256 connections open") {
				t.Errorf("request %d: %v", n, err)
			}
			break
		}
		defer func() { _ = response.Body.Close() }()
		if n > 300 {
			t.Fatal("there is no limit")
		}
	}
}
