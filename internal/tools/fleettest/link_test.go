package fleettest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// silence is how long a test waits for what must not arrive.
const silence = 50 * time.Millisecond

// echo is a server that sends back what it receives.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	return listener.Addr().String()
}

// caller is a connection through a link.
type caller struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func call(t *testing.T, l *Link) *caller {
	t.Helper()
	conn, err := net.Dial("tcp", l.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &caller{t, conn, bufio.NewReader(conn)}
}

func (c *caller) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *caller) receives(want string) {
	c.t.Helper()
	if err := c.conn.SetReadDeadline(time.Time{}); err != nil {
		c.t.Fatal(err)
	}
	if got, err := c.in.ReadString('\n'); err != nil || got != want+"\n" {
		c.t.Fatalf("received %q, %v, want %q", got, err, want)
	}
}

func (c *caller) receivesNothing() {
	c.t.Helper()
	if err := c.conn.SetReadDeadline(time.Now().Add(silence)); err != nil {
		c.t.Fatal(err)
	}
	if got, err := c.in.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("received %q, %v, want nothing", got, err)
	}
}

func TestALinkHoldsAndDelivers(t *testing.T) {
	l := startLink(t, echo(t))
	before := call(t, l)
	before.send("one")
	before.receives("one")
	l.Set(Trouble{Held: true})
	before.send("two")
	meanwhile := call(t, l)
	meanwhile.send("three")
	before.receivesNothing()
	meanwhile.receivesNothing()
	l.Set(Trouble{Delay: time.Millisecond})
	before.receives("two")
	meanwhile.receives("three")
	l.Set(Trouble{})
	before.send("four")
	before.receives("four")
	if err := before.conn.Close(); err != nil {
		t.Error(err)
	}
}

func TestALinkLosesForGood(t *testing.T) {
	l := startLink(t, echo(t))
	before := call(t, l)
	before.send("one")
	before.receives("one")
	l.Set(Trouble{Lost: true})
	meanwhile := call(t, l)
	meanwhile.send("two")
	Eventually(t, "the second connection is lost, too", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.conns) == 2
	})
	l.Set(Trouble{})
	before.send("three")
	before.receivesNothing()
	meanwhile.receivesNothing()
	after := call(t, l)
	after.send("four")
	after.receives("four")
}

func TestALinkCuts(t *testing.T) {
	l := startLink(t, echo(t))
	l.Set(Trouble{Cut: 1000})
	for range 2 { // each connection has its own count
		c := call(t, l)
		c.send(strings.Repeat("a", 99))
		c.receives(strings.Repeat("a", 99))
		c.send(strings.Repeat("b", 999))
		if rest, err := io.ReadAll(c.in); err == nil || len(rest) > 900 {
			t.Errorf("a connection that is cut receives %d more bytes, and its end is %v", len(rest), err)
		}
	}
}
