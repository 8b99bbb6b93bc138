package member

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

const (
	dialTimeout      = 5 * time.Second
	handshakeTimeout = 5 * time.Second
	// silence is how long a connection may be quiet before it is pinged, and patience how long the answer may take.
	// Together they bound how long a stopped process can pass for an idle one.
	silence  = 10 * time.Second
	patience = 5 * time.Second
)

// address is where a Cluster says that it can be reached.
type address struct {
	endpoint    string
	proxy       string
	proxyHeader map[string]string
	insecure    bool
}

func addressOf(cluster *clusterv1alpha1.Cluster) address {
	return address{
		endpoint:    cluster.Spec.APIEndpoint,
		proxy:       cluster.Spec.ProxyURL,
		proxyHeader: cluster.Spec.ProxyHeader,
		insecure:    cluster.Spec.InsecureSkipTLSVerification,
	}
}

func (a address) equal(b address) bool {
	return a.endpoint == b.endpoint && a.proxy == b.proxy && a.insecure == b.insecure && maps.Equal(a.proxyHeader, b.proxyHeader)
}

// route is an address made usable: a base URL and a transport that trusts what is at its end.
type route struct {
	address    address
	credential Credential // its token is of no interest here
	url        *url.URL
	transport  *http.Transport
}

// plan builds the route to an address with the trust of a credential. It does not connect.
func plan(a address, c Credential) (*route, error) {
	endpoint := a.endpoint
	if c.Endpoint != "" {
		endpoint = c.Endpoint
	}
	target, err := url.Parse(endpoint)
	if err != nil {
		return nil, fmt.Errorf("parsing the API endpoint: %w", err)
	}
	if target.Host == "" || target.Scheme != "https" && target.Scheme != "http" {
		return nil, fmt.Errorf("API endpoint %q is no http or https URL", endpoint)
	}
	target.Path = strings.TrimSuffix(target.Path, "/")
	trust, err := trustOf(a, c)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: silence}
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		TLSClientConfig:       trust,
		TLSHandshakeTimeout:   handshakeTimeout,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       90 * time.Second,
		ForceAttemptHTTP2:     true,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: patience},
		ResponseHeaderTimeout: 0, // the deadline of the request decides
	}
	if a.proxy != "" {
		proxy, err := url.Parse(a.proxy)
		if err != nil {
			return nil, fmt.Errorf("parsing the proxy URL: %w", err)
		}
		transport.Proxy = http.ProxyURL(proxy)
		transport.ProxyConnectHeader = http.Header{}
		for name, value := range a.proxyHeader {
			transport.ProxyConnectHeader.Set(name, value)
		}
	}
	return &route{address: a, credential: c, url: target, transport: transport}, nil
}

func trustOf(a address, c Credential) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: a.insecure}
	if len(c.CABundle) > 0 && !a.insecure {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(c.CABundle) {
			return nil, errors.New("the CA bundle of the member holds no certificate")
		}
	}
	if len(c.Certificate) > 0 {
		pair, err := tls.X509KeyPair(c.Certificate, c.Key)
		if err != nil {
			return nil, fmt.Errorf("reading the client certificate for the member: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// leads tells whether the route still goes where it should.
func (r *route) leads(a address, c Credential) bool {
	return r != nil && r.address.equal(a) && r.credential.sameTrust(c)
}

// redirect turns a request for the member, whatever host it names, into one along the route.
func (r *route) redirect(req *http.Request) {
	req.URL.Scheme, req.URL.Host, req.Host = r.url.Scheme, r.url.Host, ""
	if r.url.Path != "" {
		req.URL.Path = r.url.Path + req.URL.Path
		if req.URL.RawPath != "" {
			req.URL.RawPath = r.url.EscapedPath() + req.URL.RawPath
		}
	}
}
