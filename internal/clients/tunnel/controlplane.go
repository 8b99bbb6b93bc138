package tunnel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

const (
	// idleStreams and idleTimeout are how many streams, and how long, are kept open for further requests.
	idleStreams, idleTimeout = 8, 90 * time.Second
	// checkPeriod is how often the right to a tunnel is checked again.
	checkPeriod = time.Minute
)

// Headers with which an agent opens a tunnel at each of several servers.
const (
	// serverHeader names the server that accepts a tunnel, if there may be others.
	serverHeader = "Flagship-Server"
	// tunnelsHeader has the servers at which the agent that requests a tunnel has one.
	tunnelsHeader = "Flagship-Tunnels"
)

// ErrHasTunnel is why a server refuses a tunnel of an agent that has one there.
var ErrHasTunnel = errors.New("the agent has a tunnel at this server")

// Tunnels are the tunnels that agents opened to this process: for each Cluster one, the newest.
type Tunnels struct {
	clock  clock.WithTicker
	server string
	opened prometheus.Counter

	mu   sync.Mutex
	open map[string]*tunnel
}

// tunnel is the control plane's end of one.
type tunnel struct {
	uid       types.UID
	conn      *upgraded
	client    *http.ClientConn
	transport *http.Transport
}

var (
	openedMetric  = prometheus.CounterOpts{Name: "flagship_tunnel_opened_total", Help: "Tunnels that agents opened."}
	streamsMetric = prometheus.NewDesc("flagship_tunnel_streams", "Open connections through the tunnel of a cluster; those kept for further requests included.", []string{"cluster"}, nil)
)

// NewTunnels makes a Tunnels without any. The name of the server is that of this process if others may share its storage, and else empty:
// agents open a tunnel at each server that has a name. Nil metrics register none.
func NewTunnels(server string, clock clock.WithTicker, metrics prometheus.Registerer) *Tunnels {
	t := &Tunnels{clock: clock, server: server, opened: prometheus.NewCounter(openedMetric), open: map[string]*tunnel{}}
	if metrics != nil {
		metrics.MustRegister(t, t.opened)
	}
	return t
}

// Describe implements prometheus.Collector.
func (t *Tunnels) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- streamsMetric }

// Collect implements prometheus.Collector.
func (t *Tunnels) Collect(samples chan<- prometheus.Metric) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for cluster, open := range t.open {
		samples <- prometheus.MustNewConstMetric(streamsMetric, prometheus.GaugeValue, float64(open.client.InFlight()), cluster)
	}
}

// Has returns whether an agent says, in the header of its request, that it has a tunnel at this server.
func (t *Tunnels) Has(request http.Header) bool {
	return t.server != "" && slices.Contains(request[tunnelsHeader], t.server)
}

// Accept writes the answer to a request for a tunnel. Serve is to be called with the connection then.
func (t *Tunnels) Accept(conn io.Writer) error {
	header := http.Header{"Connection": {"Upgrade"}, "Upgrade": {Protocol}}
	if t.server != "" {
		header.Set(serverHeader, t.server)
	}
	var answer bytes.Buffer
	answer.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	if err := header.Write(&answer); err != nil {
		return err
	}
	answer.WriteString("\r\n")
	_, err := conn.Write(answer.Bytes())
	return err
}

// Serve uses the upgraded connection of an agent until one side closes it, a newer one replaces it, the credential of the agent expires
// (zero: never), or valid, which is called periodically, returns an error. The caller has verified that the agent is that of the Cluster
// with this UID.
func (t *Tunnels) Serve(ctx context.Context, conn io.ReadWriteCloser, cluster string, uid types.UID, expires time.Time, valid func(context.Context) error) error {
	own := &tunnel{uid: uid, conn: newUpgraded(conn)}
	defer func() { _ = own.conn.Close() }()
	client := &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return own.conn, nil },
		Protocols:   plainHTTP2(),
		HTTP2:       &http.HTTP2Config{MaxReceiveBufferPerStream: downWindow, SendPingTimeout: silence, PingTimeout: patience},
	}
	var err error
	if own.client, err = client.NewClientConn(ctx, "http", address); err != nil {
		return fmt.Errorf("beginning HTTP/2 with the agent of cluster %s: %w", cluster, err)
	}
	defer func() { _ = own.client.Close() }()
	own.transport = &http.Transport{
		DialContext: own.dial, DisableCompression: true, // bodies are passed on as they are
		MaxIdleConnsPerHost: idleStreams, IdleConnTimeout: idleTimeout,
	}
	defer own.transport.CloseIdleConnections()

	t.mu.Lock()
	if former := t.open[cluster]; former != nil {
		_ = former.conn.Close()
	}
	t.open[cluster] = own
	t.mu.Unlock()
	t.opened.Inc()
	defer t.forget(cluster, own)

	check := t.clock.NewTicker(checkPeriod)
	defer check.Stop()
	for {
		select {
		case <-own.conn.done:
			return nil
		case <-ctx.Done():
			return nil
		case <-check.C():
			if !expires.IsZero() && t.clock.Now().After(expires) {
				return errors.New("the certificate of the agent has expired")
			}
			if err := valid(ctx); err != nil {
				return err
			}
		}
	}
}

func (t *Tunnels) forget(cluster string, own *tunnel) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[cluster] == own {
		delete(t.open, cluster)
	}
}

// Close ends all tunnels.
func (t *Tunnels) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, open := range t.open {
		_ = open.conn.Close()
	}
}

// Member returns the URL that stands for the API server of a member, and the transport through its tunnel; nil if the agent of the
// Cluster with this UID has none here.
func (t *Tunnels) Member(cluster string, uid types.UID) (*url.URL, *http.Transport) {
	t.mu.Lock()
	defer t.mu.Unlock()
	open := t.open[cluster]
	if open == nil || open.uid != uid {
		return nil, nil
	}
	return &url.URL{Scheme: "http", Host: address}, open.transport
}

// dial opens a stream.
func (t *tunnel) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if err := t.client.Reserve(); err != nil {
		if t.client.Err() != nil {
			return nil, errors.New("the tunnel of the agent has ended")
		}
		return nil, fmt.Errorf("the tunnel of the agent has %d connections open, which is its limit", t.client.InFlight())
	}
	conn, err := dialStream(ctx, t.client)
	if err != nil {
		return nil, fmt.Errorf("opening a stream in the tunnel of the agent: %w", err)
	}
	return conn, nil
}
