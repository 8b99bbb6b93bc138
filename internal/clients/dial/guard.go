package dial

import (
	"context"
	"fmt"
	"net"
)

// guard makes connections that send nothing unless MayWrite allows it. The check is as late as this process can make it: after
// compression, HTTP/2 and TLS, right before the system call. A process that was stopped for a time goes on at any instruction, so a check
// of the request alone would let pass what was on its way through these.
func (r Rules) guard(dial dialFunc) dialFunc {
	if r.MayWrite == nil {
		return dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			// What the kernel has not sent when the connection is closed is dropped, instead of sent once the network is back.
			if err := tcp.SetLinger(0); err != nil {
				_ = conn.Close()
				return nil, fmt.Errorf("preparing the connection to %s: %w", address, err)
			}
		}
		return &guarded{Conn: conn, may: r.MayWrite}, nil
	}
}

// guarded is a connection of guard.
type guarded struct {
	net.Conn
	may func() error
}

// Write implements net.Conn.
func (g *guarded) Write(p []byte) (int, error) {
	if err := g.may(); err != nil {
		_ = g.Conn.Close()
		return 0, fmt.Errorf("nothing is sent to the member: %w", err)
	}
	return g.Conn.Write(p)
}
