package machine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"time"

	"k8s.io/utils/clock"
)

// Ports are chosen below the range the kernel takes for outgoing connections: one that is ours across restarts would
// sooner or later be lent to a client otherwise.
const (
	firstPort = 20000
	lastPort  = 29999
)

// PortChooser finds ports that are not in use, and reserves them: between the choice of a port and the start of its server, and while
// that restarts, another process could choose it. The reservation is a UDP socket with the number of the port, of which the servers use
// TCP alone: it needs no file, and the kernel ends it with the process.
type PortChooser struct {
	taken    map[int]bool
	reserved []net.PacketConn
}

// NewPortChooser has chosen nothing yet.
func NewPortChooser() *PortChooser { return &PortChooser{taken: map[int]bool{}} }

// Take keeps a port from being chosen here.
func (p *PortChooser) Take(port int) { p.taken[port] = true }

// Close ends the reservations.
func (p *PortChooser) Close() {
	for _, socket := range p.reserved {
		_ = socket.Close()
	}
	p.reserved = nil
}

// Choose returns a port that is free now, outside of the range for clients, and that no other process chooses until Close.
func (p *PortChooser) Choose() (int, error) {
	const tries = 200
	for range tries {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if p.taken[port] {
			continue
		}
		reservation, err := net.ListenPacket("udp", address(port))
		if err != nil {
			continue
		}
		if tryListen(port) != nil {
			_ = reservation.Close()
			continue
		}
		p.Take(port)
		p.reserved = append(p.reserved, reservation)
		return port, nil
	}
	return 0, fmt.Errorf("found no free port between %d and %d in %d tries", firstPort, lastPort, tries)
}

// Handover is how long a process of ours that was just killed may hold its port.
const Handover = 3 * time.Second

// RequireFree returns nil once the port is not in use, and an error if it is in use for longer than the given patience.
func RequireFree(port int, owner string, patience time.Duration, clk clock.Clock) error {
	const pause = 50 * time.Millisecond
	for start := clk.Now(); ; clk.Sleep(pause) {
		err := tryListen(port)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EADDRINUSE):
			return fmt.Errorf("port %d of %s cannot be used: %w", port, owner, err)
		case clk.Since(start) >= patience:
			return fmt.Errorf("port %d of %s is in use by another program", port, owner)
		}
	}
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func tryListen(port int) error {
	l, err := net.Listen("tcp", address(port))
	if err != nil {
		return err
	}
	return l.Close()
}
