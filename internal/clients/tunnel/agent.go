package tunnel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
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

// Agent keeps the tunnel of one Cluster open. It implements manager.Runnable.
type Agent struct {
	hub       *rest.Config
	cluster   string
	handler   http.Handler
	clock     clock.WithTicker
	connected prometheus.Gauge
	problem   atomic.Pointer[error] // why there is no tunnel; nil for one that is open
}

var connectedMetric = prometheus.GaugeOpts{Name: "flagship_agent_tunnel_connected", Help: "1 while the tunnel of the agent to the control plane is open."}

// NewAgent makes the tunnel of a Cluster to the control plane that hub leads to, as the agent. The handler serves the requests of the
// control plane. Nil metrics register none.
func NewAgent(hub *rest.Config, cluster string, handler http.Handler, clock clock.WithTicker, metrics prometheus.Registerer) *Agent {
	a := &Agent{hub: rest.CopyConfig(hub), cluster: cluster, handler: handler, clock: clock, connected: prometheus.NewGauge(connectedMetric)}
	a.hub.NextProtos = []string{"http/1.1"} // a connection of HTTP/2 cannot be upgraded
	a.ended(errors.New("it was not opened yet"))
	if metrics != nil {
		metrics.MustRegister(a.connected)
	}
	return a
}

// Check returns why there is no tunnel, nil if there is one.
func (a *Agent) Check() error {
	if problem := a.problem.Load(); problem != nil {
		return fmt.Errorf("no tunnel to the control plane: %w", *problem)
	}
	return nil
}

func (a *Agent) ended(problem error) {
	a.problem.Store(&problem)
	a.connected.Set(0)
}

// Start opens the tunnel, and opens it again whenever it ends, until ctx is done. Many agents lose theirs at once when the control plane
// is restarted; jitter spreads their attempts.
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
	delays := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 1, Steps: 6, Cap: 30 * time.Second}
	err = delays.DelayWithReset(a.clock, 2*time.Minute).Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err := a.keep(ctx, transport, location.String())
		a.ended(err)
		if ctx.Err() == nil {
			log.FromContext(ctx).Info("The tunnel to the control plane is closed, opening it again", "reason", err.Error())
		}
		return false, nil
	})
	if ctx.Err() == nil {
		return fmt.Errorf("keeping the tunnel open: %w", err)
	}
	return nil
}

// keep is the life of one tunnel. It returns why it ended.
func (a *Agent) keep(ctx context.Context, transport http.RoundTripper, location string) error {
	conn, err := open(ctx, transport, location)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	a.problem.Store(nil)
	a.connected.Set(1)
	serve(conn, a.handler)
	return errors.New("the connection was closed")
}

// open requests a tunnel.
func open(ctx context.Context, transport http.RoundTripper, location string) (*upgraded, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout) // Its end has no effect on a connection that is upgraded.
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, location, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", Protocol)
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	conn, ok := response.Body.(io.ReadWriteCloser)
	if response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("Upgrade") != Protocol || !ok {
		reason, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusal)) // What was read is enough.
		_ = response.Body.Close()
		return nil, fmt.Errorf("the control plane answers %s: %s", response.Status, strings.TrimSpace(string(bytes.ToValidUTF8(reason, nil))))
	}
	return newUpgraded(conn), nil
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
