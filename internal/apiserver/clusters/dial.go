package clusters

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

const (
	dialTimeout = 10 * time.Second
	idleTimeout = 90 * time.Second
)

// ClusterReader returns a Cluster, or an API error.
type ClusterReader func(ctx context.Context, name string) (*clusterv1alpha1.Cluster, error)

// SecretReader returns a Secret, or an API error.
type SecretReader func(ctx context.Context, namespace, name string) (*corev1.Secret, error)

// Dialer reaches members by what their Cluster and its Secrets say at the moment of the request. It
// keeps connections open between requests.
type Dialer struct {
	readCluster ClusterReader
	readSecret  SecretReader

	mu    sync.Mutex
	known map[string]connection
}

// connection is a transport and what it was made from.
type connection struct {
	from      address
	transport *http.Transport
}

type address struct {
	endpoint, proxy string
	proxyHeader     map[string]string
	insecure        bool
	ca              string
}

// NewDialer makes a Dialer.
func NewDialer(cluster ClusterReader, secret SecretReader) *Dialer {
	return &Dialer{readCluster: cluster, readSecret: secret, known: map[string]connection{}}
}

// Dial is a Dial.
func (d *Dialer) Dial(ctx context.Context, name string) (Endpoint, error) {
	cluster, err := d.readCluster(ctx, name)
	if err != nil {
		if apierrors.IsNotFound(err) {
			d.forget(name)
		}
		return Endpoint{}, err
	}
	spec := &cluster.Spec
	if spec.APIEndpoint == "" {
		return Endpoint{}, apierrors.NewServiceUnavailable(fmt.Sprintf("cluster %q has no spec.apiEndpoint", name))
	}
	location, err := parseEndpoint(spec.APIEndpoint)
	if err != nil {
		return Endpoint{}, apierrors.NewServiceUnavailable(fmt.Sprintf("cluster %q: %v", name, err))
	}
	token, err := d.token(ctx, cluster)
	if err != nil {
		return Endpoint{}, err
	}
	from := address{
		endpoint: spec.APIEndpoint, proxy: spec.ProxyURL, proxyHeader: spec.ProxyHeader,
		insecure: spec.InsecureSkipTLSVerification,
	}
	if !from.insecure {
		if from.ca, err = d.authority(ctx, cluster); err != nil {
			return Endpoint{}, err
		}
	}
	transport, err := d.transport(name, from)
	if err != nil {
		return Endpoint{}, apierrors.NewServiceUnavailable(fmt.Sprintf("cluster %q: %v", name, err))
	}
	return Endpoint{URL: location, Transport: transport, Token: token}, nil
}

func (d *Dialer) token(ctx context.Context, cluster *clusterv1alpha1.Cluster) (string, error) {
	ref := cluster.Spec.ImpersonatorSecretRef
	if ref == nil {
		return "", apierrors.NewServiceUnavailable(fmt.Sprintf("cluster %q has no spec.impersonatorSecretRef", cluster.Name))
	}
	secret, err := d.secret(ctx, cluster.Name, ref)
	if err != nil {
		return "", err
	}
	token := string(secret.Data[clusterv1alpha1.SecretTokenKey])
	if token == "" {
		return "", apierrors.NewServiceUnavailable(fmt.Sprintf("cluster %q: Secret %s/%s has no token", cluster.Name, ref.Namespace, ref.Name))
	}
	return token, nil
}

// authority is the certificate that verifies the member; without one the machine's own are trusted.
func (d *Dialer) authority(ctx context.Context, cluster *clusterv1alpha1.Cluster) (string, error) {
	ref := cluster.Spec.SecretRef
	if ref == nil {
		return "", nil
	}
	secret, err := d.secret(ctx, cluster.Name, ref)
	if err != nil {
		return "", err
	}
	return string(secret.Data[clusterv1alpha1.SecretCADataKey]), nil
}

// secret hides from the user, who need not have the right to know, why a credential is not there.
func (d *Dialer) secret(ctx context.Context, cluster string, ref *clusterv1alpha1.LocalSecretReference) (*corev1.Secret, error) {
	secret, err := d.readSecret(ctx, ref.Namespace, ref.Name)
	if apierrors.IsNotFound(err) {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("cluster %q: Secret %s/%s does not exist", cluster, ref.Namespace, ref.Name))
	}
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("reading the credential of cluster %q: %w", cluster, err))
	}
	return secret, nil
}

func (d *Dialer) transport(name string, from address) (*http.Transport, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.known[name]
	if ok && reflect.DeepEqual(known.from, from) {
		return known.transport, nil
	}
	transport, err := newTransport(from)
	if err != nil {
		return nil, err
	}
	if ok {
		known.transport.CloseIdleConnections()
	}
	d.known[name] = connection{from: from, transport: transport}
	return transport, nil
}

func (d *Dialer) forget(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, ok := d.known[name]; ok {
		known.transport.CloseIdleConnections()
		delete(d.known, name)
	}
}

func newTransport(from address) (*http.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: from.insecure} //nolint:gosec // The Cluster asks for it.
	if from.ca != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(from.ca)) {
			return nil, errors.New("the caBundle holds no certificate")
		}
	}
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	dial := dialer.DialContext
	if from.proxy != "" {
		// Not Transport.Proxy: requests that upgrade their connection dial by DialContext alone.
		through, err := dialThrough(from.proxy, from.proxyHeader, dialer)
		if err != nil {
			return nil, err
		}
		dial = through
	}
	return &http.Transport{
		DialContext:         dial,
		TLSClientConfig:     config,
		TLSHandshakeTimeout: dialTimeout,
		IdleConnTimeout:     idleTimeout,
		MaxIdleConnsPerHost: 16,
		ForceAttemptHTTP2:   true,
		// Bodies are passed on as they are.
		DisableCompression: true,
	}, nil
}

// parseEndpoint reads host, host:port or a URL.
func parseEndpoint(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	endpoint, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("is neither host:port nor a URL")
	case endpoint.Scheme != "https" && endpoint.Scheme != "http":
		return nil, errors.New("must be reached by https or http")
	case endpoint.Hostname() == "":
		return nil, errors.New("must name a host")
	}
	return endpoint, nil
}
