package dial

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/proxy"
)

// dialFunc opens a connection.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dialThrough opens connections through an http, https or socks5 proxy. Several values of one header
// are separated by commas.
func dialThrough(proxyURL string, headers map[string]string, dialer *net.Dialer) (dialFunc, error) {
	location, err := url.Parse(proxyURL)
	if err != nil {
		return nil, errors.New("spec.proxyURL is not a URL") // The text may hold a password.
	}
	if location.Scheme == "socks5" {
		socks, err := proxy.FromURL(location, dialer)
		if err != nil {
			return nil, fmt.Errorf("reading spec.proxyURL: %w", err)
		}
		return socks.(proxy.ContextDialer).DialContext, nil
	}
	if location.Scheme != "http" && location.Scheme != "https" {
		return nil, fmt.Errorf("spec.proxyURL has the scheme %q, not http, https or socks5", location.Scheme)
	}
	header := http.Header{}
	for name, values := range headers {
		for value := range strings.SplitSeq(values, ",") {
			header.Add(name, strings.TrimSpace(value))
		}
	}
	if location.User != nil {
		password, _ := location.User.Password()
		credential := base64.StdEncoding.EncodeToString([]byte(location.User.Username() + ":" + password))
		header.Set("Proxy-Authorization", "Basic "+credential)
	}
	tunnel := &tunnel{proxy: location, header: header, dialer: dialer}
	return tunnel.dial, nil
}

// tunnel connects to an address through an HTTP proxy, with CONNECT.
type tunnel struct {
	proxy  *url.URL
	header http.Header
	dialer *net.Dialer
}

func (t *tunnel) dial(ctx context.Context, _, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, t.dialer.Timeout)
	defer cancel()
	conn, err := t.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("dialing proxy %s: %w", t.proxy.Host, err)
	}
	if err := t.handshake(ctx, conn, address); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("connecting to %[2]s through proxy %[1]s: %[3]w", t.proxy.Host, address, err)
	}
	return conn, nil
}

func (t *tunnel) connect(ctx context.Context) (net.Conn, error) {
	if t.proxy.Scheme != "https" {
		return t.dialer.DialContext(ctx, "tcp", withPort(t.proxy, "80"))
	}
	secure := &tls.Dialer{NetDialer: t.dialer, Config: &tls.Config{ServerName: t.proxy.Hostname(), MinVersion: tls.VersionTLS12}}
	return secure.DialContext(ctx, "tcp", withPort(t.proxy, "443"))
}

func (t *tunnel) handshake(ctx context.Context, conn net.Conn, address string) error {
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: t.header}
	if err := request.Write(conn); err != nil {
		return err
	}
	// The member sends nothing before the client does, so the reader's buffer has nothing of it.
	response, err := http.ReadResponse(bufio.NewReader(conn), request)
	if err != nil {
		return err
	}
	// The body is not closed: what follows the header of a tunnel is the member's, and closing reads it.
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("it answered %s", response.Status)
	}
	return conn.SetDeadline(time.Time{})
}

func withPort(location *url.URL, standard string) string {
	port := location.Port()
	if port == "" {
		port = standard
	}
	return net.JoinHostPort(location.Hostname(), port)
}
