package faults_test

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

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// trouble is what a network does to connections. The zero value is none.
type trouble struct {
	// held: nothing arrives at either side until the trouble ends. What was sent meanwhile arrives then, as TCP sends packets again.
	held bool
	// lost: connections are lost for good, those that exist and those that begin meanwhile. Nothing arrives any more, also when the trouble
	// has ended, and neither side notices. A firewall that lost its table does that.
	lost bool
	// delay is how much later everything arrives.
	delay time.Duration
	// cut is after how many bytes, of both directions, a connection is reset; 0 for never.
	cut int64
}

// link is the network between a control plane and the API server of a member. It carries bytes, and does not end TLS.
type link struct {
	// Kubeconfig is the file that leads to the member through the link.
	Kubeconfig string

	listener net.Listener
	target   string
	running  sync.WaitGroup

	mu      sync.Mutex
	ended   bool
	now     trouble
	changed chan struct{} // closed when now changes
	conns   map[*connection]struct{}
}

// connection is a connection through a link: one from the control plane, and one to the member.
type connection struct {
	near, far net.Conn
	// lost and bytes belong to the mutex of the link.
	lost  bool
	bytes int64
}

// newLink puts a link before a member until the test ends.
func newLink(t *testing.T, member *fleettest.Cluster) *link {
	t.Helper()
	target, err := url.Parse(member.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	l := &link{Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), target: target.Host, changed: make(chan struct{}), conns: map[*connection]struct{}{}}
	if l.listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	l.running.Go(l.accept)
	t.Cleanup(l.end)
	config, err := clientcmd.LoadFromFile(member.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server = "https://" + l.listener.Addr().String()
	}
	if err := clientcmd.WriteToFile(*config, l.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	return l
}

// set begins a trouble in the place of the one before.
func (l *link) set(now trouble) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = now
	for c := range l.conns {
		c.lost = c.lost || now.lost
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// end closes all connections.
func (l *link) end() {
	_ = l.listener.Close()
	l.mu.Lock()
	l.ended = true
	for c := range l.conns {
		_ = errors.Join(c.near.Close(), c.far.Close())
	}
	close(l.changed)
	l.changed = make(chan struct{})
	l.mu.Unlock()
	l.running.Wait()
}

func (l *link) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return // the link has ended
		}
		far, err := net.Dial("tcp", l.target)
		if err != nil { // the member does not run
			_ = near.Close()
			continue
		}
		c := &connection{near: near, far: far}
		l.mu.Lock()
		if l.ended {
			l.mu.Unlock()
			_ = errors.Join(near.Close(), far.Close())
			return
		}
		c.lost = l.now.lost
		l.conns[c] = struct{}{}
		l.running.Go(func() { l.carry(c, near, far) })
		l.running.Go(func() { l.carry(c, far, near) })
		l.mu.Unlock()
	}
}

// carry carries what one side sends to the other side, and its end.
func (l *link) carry(c *connection, from, to net.Conn) {
	piece := make([]byte, 16<<10)
	for {
		n, failed := from.Read(piece)
		passes, arrives := l.let(c, n)
		if !arrives {
			_, _ = io.Copy(io.Discard, from) // so that the sender does not notice
			return
		}
		if _, err := to.Write(piece[:passes]); err != nil {
			failed = err
		}
		if passes < n {
			reset(c)
			return
		}
		if failed != nil {
			_ = to.(*net.TCPConn).CloseWrite()
			if !errors.Is(failed, io.EOF) {
				reset(c)
			}
			return
		}
	}
}

// let waits for as long as the trouble holds n bytes, or the end, of a connection back. It returns how many of them pass before the
// connection is reset, and false if nothing arrives any more.
func (l *link) let(c *connection, n int) (passes int, arrives bool) {
	delayed := false
	for {
		l.mu.Lock()
		now, changed, ended := l.now, l.changed, l.ended
		if ended || c.lost || !now.held && (delayed || now.delay == 0) {
			defer l.mu.Unlock()
			if c.lost {
				return 0, false
			}
			passes = n
			if now.cut > 0 {
				passes = int(max(0, min(int64(n), now.cut-c.bytes)))
			}
			c.bytes += int64(n)
			return passes, true
		}
		l.mu.Unlock()
		if now.held {
			<-changed
			continue
		}
		timer := time.NewTimer(now.delay)
		select {
		case <-timer.C:
			delayed = true
		case <-changed:
			timer.Stop()
		}
	}
}

// reset ends a connection without the usual farewell.
func reset(c *connection) {
	for _, side := range []net.Conn{c.near, c.far} {
		_ = side.(*net.TCPConn).SetLinger(0)
		_ = side.Close()
	}
}
