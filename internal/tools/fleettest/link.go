package fleettest

import (
	"errors"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// Trouble is what a network does to connections. The zero value is none.
type Trouble struct {
	// Held: nothing arrives at either side until the trouble ends. What was sent meanwhile arrives then, as TCP sends packets again.
	Held bool
	// Lost: connections are lost for good, those that exist and those that begin meanwhile. Nothing arrives any more, also when the trouble
	// has ended, and neither side receives an error, as when a firewall has lost its table.
	Lost bool
	// Delay is how much later everything arrives.
	Delay time.Duration
	// Cut is after how many bytes, of both directions, a connection is reset; 0 for never.
	Cut int64
}

// Link is the network before an API server. It carries bytes, and does not end TLS.
type Link struct {
	// URL is the address of the API server through the link.
	URL string
	// Kubeconfig is the file that leads to the cluster through the link.
	Kubeconfig string

	listener net.Listener
	targets  []string
	running  sync.WaitGroup

	mu      sync.Mutex
	ended   bool
	now     Trouble
	changed chan struct{} // closed when now changes
	conns   map[*linked]struct{}
	sent    int64 // bytes of servers
}

// linked is a connection through a link: one from the client, and one to the server.
type linked struct {
	client, server net.Conn
	// lost and bytes belong to the mutex of the link.
	lost  bool
	bytes int64
}

// StartLink puts a link before a cluster until the test ends. It has no trouble at first.
func StartLink(t testing.TB, c *Cluster) *Link {
	t.Helper()
	target, err := url.Parse(c.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	l := startLink(t, target.Host)
	l.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	config, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server = l.URL
	}
	if err := clientcmd.WriteToFile(*config, l.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	return l
}

// LinkTo puts a link before an address, as host:port, until the test ends. It has no kubeconfig. With several addresses it is a load balancer:
// each connection goes to the next one, or to the first after it that accepts connections.
func LinkTo(t testing.TB, targets ...string) *Link {
	t.Helper()
	return startLink(t, targets...)
}

// Address is the address of the link, as host:port.
func (l *Link) Address() string { return l.listener.Addr().String() }

func startLink(t testing.TB, targets ...string) *Link {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Link{
		URL: "https://" + listener.Addr().String(), listener: listener, targets: targets,
		changed: make(chan struct{}), conns: map[*linked]struct{}{},
	}
	l.running.Go(l.accept)
	t.Cleanup(l.end)
	return l
}

// Set begins a trouble in the place of the one before.
func (l *Link) Set(now Trouble) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = now
	for c := range l.conns {
		c.lost = c.lost || now.Lost
	}
	l.notify()
}

// Sent is how many bytes the server sent through all connections until now.
func (l *Link) Sent() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent
}

// notify has all that waits read what is now. The caller holds the mutex.
func (l *Link) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// end closes all connections and waits for what carries them.
func (l *Link) end() {
	_ = l.listener.Close()
	l.mu.Lock()
	l.ended = true
	for c := range l.conns {
		_ = errors.Join(c.client.Close(), c.server.Close())
	}
	l.notify()
	l.mu.Unlock()
	l.running.Wait()
}

func (l *Link) accept() {
	for first := 0; ; first++ {
		client, err := l.listener.Accept()
		if err != nil {
			return // the link has ended
		}
		server, err := l.dial(first)
		if err != nil { // no server runs
			_ = client.Close()
			continue
		}
		l.mu.Lock()
		if l.ended {
			l.mu.Unlock()
			_ = errors.Join(client.Close(), server.Close())
			return
		}
		c := &linked{client: client, server: server, lost: l.now.Lost}
		l.conns[c] = struct{}{}
		l.running.Go(func() { l.carry(c, client, server) })
		l.running.Go(func() { l.carry(c, server, client) })
		l.mu.Unlock()
	}
}

// dial connects to one of the targets, the first of them by its number.
func (l *Link) dial(first int) (server net.Conn, err error) {
	for i := range l.targets {
		server, err = net.Dial("tcp", l.targets[(first+i)%len(l.targets)]) //nolint:noctx // it is on this machine
		if err == nil {
			return server, nil
		}
	}
	return nil, err
}

// carry carries what one side sends to the other side, and its end.
func (l *Link) carry(c *linked, from, to net.Conn) {
	piece := make([]byte, 16<<10)
	for {
		n, failed := from.Read(piece)
		if from == c.server {
			l.mu.Lock()
			l.sent += int64(n)
			l.mu.Unlock()
		}
		passes, arrives := l.let(c, n)
		if !arrives {
			_, _ = io.Copy(io.Discard, from) // the sender receives no error
			return
		}
		if _, err := to.Write(piece[:passes]); err != nil {
			failed = err
		}
		switch {
		case passes < n, failed != nil && !errors.Is(failed, io.EOF):
			l.reset(c)
			return
		case failed != nil:
			_ = to.(*net.TCPConn).CloseWrite()
			return
		}
	}
}

// let waits for as long as the trouble holds back n bytes of a connection, or its end. It returns how many of them pass before the
// connection is reset, and false if nothing arrives any more.
func (l *Link) let(c *linked, n int) (passes int, arrives bool) {
	delayed := false
	for {
		l.mu.Lock()
		now, changed := l.now, l.changed
		if c.lost && !l.ended {
			l.mu.Unlock()
			return 0, false
		}
		if l.ended || !now.Held && (delayed || now.Delay == 0) {
			defer l.mu.Unlock()
			passes = n
			if now.Cut > 0 {
				passes = int(max(0, min(int64(n), now.Cut-c.bytes)))
			}
			c.bytes += int64(n)
			return passes, true
		}
		l.mu.Unlock()
		if now.Held {
			<-changed
			continue
		}
		timer := time.NewTimer(now.Delay)
		select {
		case <-timer.C:
			delayed = true
		case <-changed:
			timer.Stop()
		}
	}
}

// reset ends a connection at both sides, without the usual exchange.
func (l *Link) reset(c *linked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	for _, side := range []net.Conn{c.client, c.server} {
		_ = side.(*net.TCPConn).SetLinger(0)
		_ = side.Close()
	}
}
