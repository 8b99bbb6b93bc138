package tunnel

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// Protocol is what the connection of an agent is upgraded to.
	Protocol = "flagship-tunnel.v1"
	// maxStreams is how many connections to a member are open at a time. Each watch is one.
	maxStreams = 256
	// downWindow and upWindow are how much of one stream is buffered if its reader is slow, at the control plane and at the agent.
	// The agent's buffers of all streams together have the largest size that HTTP/2 of this Go allows.
	downWindow, upWindow, upWindows = 256 << 10, 128 << 10, 4<<20 - 1
	// silence is how long a tunnel may be quiet before it is pinged, which also keeps it in the tables of firewalls; patience is how
	// long the answer may take.
	silence, patience = 30 * time.Second, 15 * time.Second
	// address stands for the API server of the member in URLs.
	address = "member.tunnel:80"
)

// plainHTTP2 is HTTP/2 on a connection that is encrypted already.
func plainHTTP2() *http.Protocols {
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	return protocols
}

// upgraded is a connection after its upgrade. It has no deadlines: pings end it, and contexts end the streams in it.
type upgraded struct {
	io.ReadWriteCloser
	once sync.Once
	done chan struct{} // closed by Close
}

func newUpgraded(conn io.ReadWriteCloser) *upgraded {
	return &upgraded{ReadWriteCloser: conn, done: make(chan struct{})}
}

// Read implements net.Conn.
func (u *upgraded) Read(p []byte) (int, error) {
	n, err := u.ReadWriteCloser.Read(p)
	return n, u.after(err)
}

// Write implements net.Conn.
func (u *upgraded) Write(p []byte) (int, error) {
	n, err := u.ReadWriteCloser.Write(p)
	return n, u.after(err)
}

// after returns the error that callers of a net.Conn expect once it was closed.
func (u *upgraded) after(err error) error {
	select {
	case <-u.done:
		if err != nil && !errors.Is(err, io.EOF) {
			return net.ErrClosed
		}
	default:
	}
	return err
}

// Close implements net.Conn.
func (u *upgraded) Close() error {
	u.once.Do(func() { close(u.done) })
	return u.ReadWriteCloser.Close()
}

// LocalAddr implements net.Conn.
func (*upgraded) LocalAddr() net.Addr { return noAddr{} }

// RemoteAddr implements net.Conn.
func (*upgraded) RemoteAddr() net.Addr { return noAddr{} }

// SetDeadline implements net.Conn.
func (*upgraded) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (*upgraded) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (*upgraded) SetWriteDeadline(time.Time) error { return nil }

// noAddr is the address of a connection within another one.
type noAddr struct{}

// Network implements net.Addr.
func (noAddr) Network() string { return "tunnel" }

// String implements net.Addr.
func (noAddr) String() string { return address }

// dialStream opens a stream as a connection. It is open until it is closed, not only as long as ctx.
func dialStream(ctx context.Context, client *http.ClientConn) (net.Conn, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	dialled := context.AfterFunc(ctx, end)
	body, in := io.Pipe()
	request, err := http.NewRequestWithContext(life, http.MethodPost, "http://"+address+"/", body)
	if err != nil {
		client.Release()
		end()
		return nil, err
	}
	response, err := client.RoundTrip(request) //nolint:bodyclose // The stream that is returned closes it.
	if err == nil && response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		err = errors.New("the agent answers " + response.Status)
	}
	if err == nil && !dialled() {
		_ = response.Body.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		end()
		return nil, err
	}
	return newUpgraded(&clientStream{Reader: response.Body, Writer: in, close: func() {
		_ = in.Close()
		_ = response.Body.Close()
		end()
	}}), nil
}

// clientStream is the control plane's end of a stream.
type clientStream struct {
	io.Reader
	io.Writer
	close func()
}

// Close implements io.Closer.
func (s *clientStream) Close() error {
	s.close()
	return nil
}

// listener accepts the agent's ends of streams. It implements http.Handler for the streams, and net.Listener for the server behind it.
type listener struct {
	streams chan net.Conn
	done    <-chan struct{}
}

// ServeHTTP serves one stream until it ends. A pipe has the deadlines that the server behind it needs to upgrade connections; the writer of a
// response has none that can be set twice.
func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	near, far := net.Pipe()
	defer func() { _ = near.Close() }()
	select {
	case l.streams <- far:
	case <-r.Context().Done():
		return
	}
	out := flushing{w, http.NewResponseController(w)}
	if err := out.controller.Flush(); err != nil {
		return
	}
	var copying sync.WaitGroup
	copying.Go(func() {
		_, _ = io.Copy(near, r.Body)
		_ = near.Close()
	})
	_, _ = io.Copy(out, near)
	_ = near.Close()
	_ = r.Body.Close()
	copying.Wait()
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.streams:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (*listener) Close() error { return nil }

// Addr implements net.Listener.
func (*listener) Addr() net.Addr { return noAddr{} }

// flushing sends everything at once.
type flushing struct {
	io.Writer
	controller *http.ResponseController
}

// Write implements io.Writer.
func (f flushing) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	if err == nil {
		err = f.controller.Flush()
	}
	return n, err
}
