package dial

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
)

// The flags that set Rules.AllowLoopback.
const (
	// LoopbackFlag is that of flagship server.
	LoopbackFlag = "--allow-loopback-members"
	// AgentLoopbackFlag is that of flagship agent. It is about webhooks: the agent's member is at whatever address its kubeconfig has.
	AgentLoopbackFlag = "--allow-loopback-webhooks"
)

// Rules are which addresses may be connected to.
type Rules struct {
	// AllowLoopback allows loopback and link-local addresses, which lead to services of the machine of the control plane
	// and to the metadata service of its cloud. Set it only if everyone who may write Clusters may also use these.
	AllowLoopback bool
	// Flag is the one that sets AllowLoopback, for errors; empty for LoopbackFlag.
	Flag string
	// Named are further addresses that are allowed, as HOST:PORT: those that whoever runs the process has named.
	Named []string
	// MayWrite is called before each write to a connection, at the last moment, and its error ends the connection. Nil allows all. It is a
	// function because the lease of the control plane belongs to its host.
	MayWrite func() error
}

// AddressError means that an address is not connected to.
type AddressError struct{ message string }

// Error implements error.
func (e *AddressError) Error() string { return e.message }

// CheckHost refuses a host that is an address that is not allowed, or a name of this machine. Other names are checked when
// they are resolved.
func (r Rules) CheckHost(host string) error {
	if r.AllowLoopback {
		return nil
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return r.refused(host)
	}
	if ip, err := netip.ParseAddr(host); err == nil && isLocal(ip) {
		return r.refused(host)
	}
	return nil
}

// DialContext connects to an address that is allowed.
func (r Rules) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: silence}
	if !slices.Contains(r.Named, address) {
		dialer.ControlContext = r.control
	}
	return dialer.DialContext(ctx, network, address)
}

// control is called with the address of every connection before it is made, after names have been resolved.
func (r Rules) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	if r.AllowLoopback {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return &AddressError{fmt.Sprintf("address %q is not connected to: %v", address, err)}
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || isLocal(ip) {
		return r.refused(host)
	}
	return nil
}

func (r Rules) refused(host string) error {
	return &AddressError{fmt.Sprintf("%s is a loopback or link-local address: members and webhooks at such addresses are connected to only with the flag %s",
		host, cmp.Or(r.Flag, LoopbackFlag))}
}

// isLocal returns whether an address leads to this machine or its link. The unspecified address leads to this machine, too.
func isLocal(ip netip.Addr) bool {
	ip = ip.Unmap()
	return ip.IsLoopback() || ip.IsUnspecified() || ip.IsLinkLocalUnicast() || ip.IsMulticast()
}
