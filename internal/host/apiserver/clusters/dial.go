package clusters

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/dial"
	"github.com/flagship-k8s/flagship/internal/clients/tunnel"
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
	rules       dial.Rules
	tunnels     *tunnel.Tunnels // nil for none

	mu    sync.Mutex
	known map[string]connection
}

// connection is a way and what it was made from.
type connection struct {
	from dial.Target
	way  *dial.Way
}

// NewDialer makes a Dialer. Nil tunnels are none.
func NewDialer(cluster ClusterReader, secret SecretReader, rules dial.Rules, tunnels *tunnel.Tunnels) *Dialer {
	return &Dialer{readCluster: cluster, readSecret: secret, rules: rules, tunnels: tunnels, known: map[string]connection{}}
}

// Dial finds the endpoint of a cluster. Its error is an API status for the user.
func (d *Dialer) Dial(ctx context.Context, name string) (Endpoint, error) {
	cluster, err := d.readCluster(ctx, name)
	if err != nil {
		if apierrors.IsNotFound(err) {
			d.forget(name)
		}
		return Endpoint{}, err
	}
	spec := &cluster.Spec
	if spec.SyncMode == clusterv1alpha1.Pull {
		if location, transport := d.tunnel(cluster); transport != nil {
			return Endpoint{URL: location, Transport: transport}, nil
		}
		// Agents of Karmada open no tunnel, and may report an address and credentials instead.
		if spec.APIEndpoint == "" || spec.ImpersonatorSecretRef == nil {
			return Endpoint{}, noTunnel(cluster)
		}
	}
	if spec.APIEndpoint == "" {
		return Endpoint{}, apierrors.NewServiceUnavailable(fmt.Sprintf("cluster %q has no spec.apiEndpoint", name))
	}
	main, err := d.main(ctx, cluster)
	if err != nil {
		return Endpoint{}, err
	}
	token, err := d.token(ctx, cluster, main.authority)
	if err != nil {
		return Endpoint{}, err
	}
	target := dial.Target{
		Endpoint: spec.APIEndpoint, ProxyURL: spec.ProxyURL, ProxyHeader: spec.ProxyHeader,
		Insecure: spec.InsecureSkipTLSVerification, CABundle: main.authority,
	}
	way, err := d.way(name, target)
	if err != nil {
		return Endpoint{}, apierrors.NewServiceUnavailable(fmt.Sprintf("cluster %q: %v", name, err))
	}
	return Endpoint{URL: way.URL, Transport: verified{way, main.identity(spec.ID)}, Token: token}, nil
}

func (d *Dialer) tunnel(cluster *clusterv1alpha1.Cluster) (*url.URL, *http.Transport) {
	if d.tunnels == nil {
		return nil, nil
	}
	return d.tunnels.Member(cluster.Name, cluster.UID)
}

// noTunnel is the answer for a member that cannot be reached because its agent has not opened a tunnel.
func noTunnel(cluster *clusterv1alpha1.Cluster) error {
	return apierrors.NewServiceUnavailable(fmt.Sprintf("cluster %[1]q is in Pull mode and its agent has no tunnel to this server: "+
		"check that the agent runs, by \"kubectl get cluster %[1]s\" and its /readyz, and that nothing between the two refuses to upgrade connections; "+
		"an agent opens a tunnel at each of several servers, within four minutes after a server started", cluster.Name))
}

// verified is a transport that checks who answers before it sends a request on a new connection.
type verified struct {
	way *dial.Way
	who dial.Identity
}

var _ utilnet.RoundTripperWrapper = verified{}

// RoundTrip implements http.RoundTripper.
func (v verified) RoundTrip(req *http.Request) (*http.Response, error) {
	return v.way.RoundTrip(req, v.who)
}

// WrappedRoundTripper has requests that upgrade their connection find the dialer; they call check themselves.
func (v verified) WrappedRoundTripper() http.RoundTripper { return v.way.Transport }

// check reads the identity of the member, whatever connections there are.
func (v verified) check(ctx context.Context) error { return v.way.Check(ctx, v.who) }

// mainCredential is what the Secret of spec.secretRef holds.
type mainCredential struct {
	authority []byte
	token     string
}

// identity is which member has to answer. The impersonator may not read what identifies it, so the controllers' credential
// does; a Cluster without one, as some agents register it, cannot be checked.
func (c mainCredential) identity(id string) dial.Identity {
	if c.token == "" {
		return dial.Identity{}
	}
	return dial.Identity{ID: id, Token: c.token, Strict: true}
}

// main reads the certificate that verifies the member, and the token that identifies it. Without a Secret the machine's own
// roots are trusted.
func (d *Dialer) main(ctx context.Context, cluster *clusterv1alpha1.Cluster) (mainCredential, error) {
	ref := cluster.Spec.SecretRef
	if ref == nil {
		return mainCredential{}, nil
	}
	secret, err := d.secret(ctx, cluster, ref)
	if err != nil {
		return mainCredential{}, err
	}
	found := mainCredential{authority: secret.Data[clusterv1alpha1.SecretCADataKey]}
	if err := clusterv1alpha1.CheckCredential(cluster, clusterv1alpha1.ControllerCredential, secret, found.authority); err != nil {
		return mainCredential{}, unavailable(cluster, err)
	}
	found.token = string(secret.Data[clusterv1alpha1.SecretTokenKey])
	return found, nil
}

func (d *Dialer) token(ctx context.Context, cluster *clusterv1alpha1.Cluster, authority []byte) (string, error) {
	ref := cluster.Spec.ImpersonatorSecretRef
	if ref == nil {
		return "", apierrors.NewServiceUnavailable(fmt.Sprintf("cluster %q has no spec.impersonatorSecretRef", cluster.Name))
	}
	secret, err := d.secret(ctx, cluster, ref)
	if err != nil {
		return "", err
	}
	if err := clusterv1alpha1.CheckCredential(cluster, clusterv1alpha1.ImpersonatorCredential, secret, authority); err != nil {
		return "", unavailable(cluster, err)
	}
	token := string(secret.Data[clusterv1alpha1.SecretTokenKey])
	if token == "" {
		return "", apierrors.NewServiceUnavailable(fmt.Sprintf("cluster %q: Secret %s/%s has no token", cluster.Name, ref.Namespace, ref.Name))
	}
	return token, nil
}

func unavailable(cluster *clusterv1alpha1.Cluster, err error) error {
	return apierrors.NewServiceUnavailable(fmt.Sprintf("cluster %q: %v", cluster.Name, err))
}

// secret hides from the user, who need not have the right to know, why a credential is not there.
func (d *Dialer) secret(ctx context.Context, cluster *clusterv1alpha1.Cluster, ref *clusterv1alpha1.LocalSecretReference) (*corev1.Secret, error) {
	if err := clusterv1alpha1.CheckCredentialRef(cluster, ref); err != nil {
		return nil, unavailable(cluster, err)
	}
	secret, err := d.readSecret(ctx, ref.Namespace, ref.Name)
	if apierrors.IsNotFound(err) {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("cluster %q: Secret %s/%s does not exist", cluster.Name, ref.Namespace, ref.Name))
	}
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("reading the credential of cluster %q: %w", cluster.Name, err))
	}
	return secret, nil
}

func (d *Dialer) way(name string, target dial.Target) (*dial.Way, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.known[name]
	if ok && reflect.DeepEqual(known.from, target) {
		return known.way, nil
	}
	way, err := dial.NewWay(target, d.rules)
	if err != nil {
		return nil, err
	}
	// Bodies are passed on as they are.
	way.Transport.DisableCompression = true
	if ok {
		known.way.Transport.CloseIdleConnections()
	}
	d.known[name] = connection{from: target, way: way}
	return way, nil
}

func (d *Dialer) forget(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, ok := d.known[name]; ok {
		known.way.Transport.CloseIdleConnections()
		delete(d.known, name)
	}
}
