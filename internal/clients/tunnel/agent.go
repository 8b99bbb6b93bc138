package tunnel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
)

const (
	// openTimeout is how long the control plane may take to accept a tunnel.
	openTimeout = 30 * time.Second
	// headerTimeout is how long the header of a request may take, and idleLimit how long a stream may be idle: longer than the
	// control plane keeps it.
	headerTimeout, idleLimit = 30 * time.Second, 2 * idleTimeout
	// maxRefusal is how much is read of the reason of a refusal.
	maxRefusal = 4 << 10
)

// Agent keeps the tunnel of one Cluster open, or one at each of the servers of the control plane. It implements manager.Runnable.
type Agent struct {
	hub     *rest.Config
	cluster string
	handler http.Handler
	clock   clock.WithTicker
	count   prometheus.Gauge
	// ended receives after a tunnel has ended.
	ended chan struct{}

	mu sync.Mutex
	// open has the server of each open tunnel, "" for the only one.
	open    map[*upgraded]string
	problem error // why the last tunnel ended, or was not opened
}

var countMetric = prometheus.GaugeOpts{Name: "flagship_agent_tunnel_connected", Help: "Tunnels of the agent that are open: one at each server of the control plane."}

// NewAgent makes the tunnel of a Cluster to the control plane that hub leads to, as the agent. The handler serves the requests of the
// control plane. Nil metrics register none.
func NewAgent(hub *rest.Config, cluster string, handler http.Handler, clock clock.WithTicker, metrics prometheus.Registerer) *Agent {
	a := &Agent{
		hub: rest.CopyConfig(hub), cluster: cluster, handler: handler, clock: clock, count: prometheus.NewGauge(countMetric),
		ended: make(chan struct{}, 1), open: map[*upgraded]string{}, problem: errors.New("it was not opened yet"),
	}
	a.hub.NextProtos = []string{"http/1.1"} // a connection of HTTP/2 cannot be upgraded
	if metrics != nil {
		metrics.MustRegister(a.count)
	}
	return a
}

// Check returns why there is no tunnel, nil if there is one.
func (a *Agent) Check() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.open) > 0 {
		return nil
	}
	return fmt.Errorf("no tunnel to the control plane: %w", a.problem)
}

// servers are those at which a tunnel is open.
func (a *Agent) servers() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Values(a.open))
}

// Start opens the tunnel, and opens it again whenever it ends, until ctx is done. Many agents lose theirs at once when the control plane
// is restarted; jitter spreads their attempts.
//
// An address may lead to one of several servers, as that of a load balancer does. A server that has others names itself, and refuses an
// agent that has a tunnel there. The agent attempts again, less and less often, since a server may start at any time.
func (a *Agent) Start(ctx context.Context) error {
	transport, err := rest.TransportFor(a.hub)
	if err != nil {
		return fmt.Errorf("building the transport of the tunnel: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(a.hub)
	if err != nil {
		return fmt.Errorf("reading the address of the control plane: %w", err)
	}
	location := base.JoinPath("apis", clusterv1alpha1.GroupName, clusterv1alpha1.GroupVersion.Version, clusterv1alpha1.ResourcePluralCluster, a.cluster, clusterv1alpha1.TunnelSubresource)
	var running sync.WaitGroup
	defer running.Wait()
	retries, searches := backoff.Connection(time.Second), search()
	for ctx.Err() == nil {
		conn, server, err := open(ctx, transport, location.String(), a.servers())
		var delay time.Duration
		switch {
		case err == nil:
			a.opened(conn, server)
			running.Go(func() { a.keep(ctx, conn) })
			retries, searches = backoff.Connection(time.Second), search()
			if server != "" { // there may be others
				delay = searches.Step()
			}
		case errors.Is(err, ErrHasTunnel):
			retries = backoff.Connection(time.Second)
			delay = searches.Step()
		default:
			delay = retries.Step()
			a.refused(ctx, err)
		}
		if a.wait(ctx, delay) {
			searches = search()
			a.wait(ctx, retries.Step())
		}
	}
	return nil
}

// search is the backoff of attempts to find further servers: each of 1,000 agents makes one in three minutes.
func search() *wait.Backoff {
	return &wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 1, Steps: 8, Cap: 2 * time.Minute}
}

// wait waits for a time, zero for ever. It returns true if a tunnel has ended meanwhile.
func (a *Agent) wait(ctx context.Context, delay time.Duration) bool {
	var over <-chan time.Time
	if delay > 0 {
		timer := a.clock.NewTimer(delay)
		defer timer.Stop()
		over = timer.C()
	}
	select {
	case <-ctx.Done():
	case <-over:
	case <-a.ended:
		return true
	}
	return false
}

func (a *Agent) opened(conn *upgraded, server string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open[conn] = server
	a.count.Set(float64(len(a.open)))
}

func (a *Agent) refused(ctx context.Context, problem error) {
	a.mu.Lock()
	a.problem = problem
	a.mu.Unlock()
	if ctx.Err() == nil {
		log.FromContext(ctx).Info("The tunnel to the control plane could not be opened, trying again", "reason", problem.Error())
	}
}

// keep is the life of one tunnel.
func (a *Agent) keep(ctx context.Context, conn *upgraded) {
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	serve(conn, a.handler)
	a.mu.Lock()
	delete(a.open, conn)
	a.problem = errors.New("the connection was closed")
	a.count.Set(float64(len(a.open)))
	a.mu.Unlock()
	if ctx.Err() == nil {
		log.FromContext(ctx).Info("A tunnel to the control plane is closed, opening it again")
	}
	select {
	case a.ended <- struct{}{}:
	default: // Start has not received the end of an earlier tunnel yet, and one is enough
	}
}

// open requests a tunnel. It returns the name of the server if there may be several.
func open(ctx context.Context, transport http.RoundTripper, location string, servers []string) (_ *upgraded, server string, err error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout) // Its end has no effect on a connection that is upgraded.
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, location, nil)
	if err != nil {
		return nil, "", err
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", Protocol)
	request.Header[tunnelsHeader] = servers
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, "", err
	}
	conn, ok := response.Body.(io.ReadWriteCloser)
	if response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("Upgrade") != Protocol || !ok {
		reason, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusal)) // What was read is enough.
		_ = response.Body.Close()
		utilnet.CloseIdleConnectionsFor(transport) // the next attempt may reach another server
		if response.StatusCode == http.StatusConflict && len(servers) > 0 {
			return nil, "", ErrHasTunnel
		}
		return nil, "", fmt.Errorf("the control plane answers %s: %s", response.Status, strings.TrimSpace(string(bytes.ToValidUTF8(reason, nil))))
	}
	return newUpgraded(conn), response.Header.Get(serverHeader), nil
}

// serve answers the requests of the control plane until the connection ends.
func serve(conn *upgraded, handler http.Handler) {
	var serving sync.WaitGroup
	defer serving.Wait()
	tracked := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			serving.Add(1)
			defer serving.Done()
			next.ServeHTTP(w, r)
		})
	}
	streams := &listener{streams: make(chan net.Conn), done: conn.done}
	inner := &http.Server{Handler: tracked(handler), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleLimit}
	serving.Go(func() { _ = inner.Serve(streams) }) // The listener has the only error: that the connection ended.
	defer func() { _ = inner.Close() }()
	outer := &http.Server{
		Handler: tracked(streams), Protocols: plainHTTP2(), ReadHeaderTimeout: headerTimeout,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerStream: upWindow, MaxReceiveBufferPerConnection: upWindows,
			SendPingTimeout: silence, PingTimeout: patience,
		},
	}
	accepted := &listener{streams: make(chan net.Conn, 1), done: conn.done}
	accepted.streams <- conn
	_ = outer.Serve(accepted)
	_ = outer.Close()
}
