package dial

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

const (
	dialTimeout      = 5 * time.Second
	handshakeTimeout = 5 * time.Second
	idleTimeout      = 90 * time.Second
	idlePerHost      = 16
	// silence is how long a connection may be quiet before it is pinged, and patience how long the answer may take.
	// Together they bound how long a stopped process can pass for an idle one.
	silence  = 10 * time.Second
	patience = 5 * time.Second
	// streamBuffer bounds what a member may send of one answer before it is read; Go's default is 4 MiB. A member a tenth of a second away
	// still sends 5 MB a second in each answer.
	streamBuffer = 512 << 10
)

// Target is an API server and how to reach and verify it.
type Target struct {
	// Endpoint is host, host:port or an https URL. Required.
	Endpoint string
	// ProxyURL is the http, https or socks5 proxy to go through; empty for none.
	ProxyURL string
	// ProxyHeader goes to an http or https proxy with the request for a tunnel. A comma separates several values.
	ProxyHeader map[string]string
	// Insecure skips the verification of the server's certificate.
	Insecure bool
	// CABundle, PEM, verifies the server. Empty means the roots of this machine.
	CABundle []byte
	// Certificate and Key, PEM, are a client certificate; both or none.
	Certificate, Key []byte
}

// Way is a target made usable.
type Way struct {
	// URL is the server, with a path prefix if it has one, without a slash at the end.
	URL *url.URL
	// Transport connects and verifies, and adds no credential. RoundTrip of the Way also checks who answers.
	Transport *http.Transport
}

// NewWay returns the way to a target. It does not connect. A target that is not allowed is an AddressError.
func NewWay(t Target, rules Rules) (*Way, error) {
	location, err := ParseEndpoint(t.Endpoint)
	if err != nil {
		return nil, err
	}
	if err := rules.CheckHost(location.Hostname()); err != nil {
		return nil, err
	}
	trust, err := t.trust()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: silence, ControlContext: rules.control}
	dial := dialer.DialContext
	if t.ProxyURL != "" {
		// Not Transport.Proxy: requests that upgrade their connection dial by DialContext alone.
		if dial, err = dialThrough(t.ProxyURL, t.ProxyHeader, dialer); err != nil {
			return nil, err
		}
	}
	return &Way{URL: location, Transport: &http.Transport{
		DialContext:            markConns(rules.guard(dial)),
		TLSClientConfig:        trust,
		MaxResponseHeaderBytes: bounds.HeaderBytes,
		TLSHandshakeTimeout:    handshakeTimeout,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        idleTimeout,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: patience, MaxReceiveBufferPerStream: streamBuffer},
	}}, nil
}

// trust uses TLS 1.3 with every server that supports it: the newest version of both sides is negotiated, and TLS 1.3 itself
// detects a downgrade by an attacker. Older members use TLS 1.2.
func (t Target) trust() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: t.Insecure} //nolint:gosec // The Cluster sets insecureSkipTLSVerification.
	if len(t.CABundle) > 0 && !t.Insecure {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(t.CABundle) {
			return nil, errors.New("the CA bundle of the member holds no certificate")
		}
	}
	if len(t.Certificate) > 0 {
		pair, err := tls.X509KeyPair(t.Certificate, t.Key)
		if err != nil {
			return nil, fmt.Errorf("reading the client certificate for the member: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// ParseEndpoint reads host, host:port or an https URL.
func ParseEndpoint(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	endpoint, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("API endpoint %q is neither host:port nor a URL", text)
	case endpoint.Hostname() == "":
		return nil, fmt.Errorf("API endpoint %q names no host", text)
	case endpoint.Scheme == "http":
		return nil, &AddressError{fmt.Sprintf("API endpoint %q is not https, and credentials are not sent in plain text", text)}
	case endpoint.Scheme != "https":
		return nil, fmt.Errorf("API endpoint %q is not an https URL", text)
	}
	endpoint.Path = strings.TrimSuffix(endpoint.Path, "/")
	return endpoint, nil
}
