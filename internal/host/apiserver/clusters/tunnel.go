package clusters

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/tunnel"
)

// tunnelREST serves clusters/NAME/tunnel, at which the agent of a Cluster opens its tunnel.
type tunnelREST struct {
	tunnels *tunnel.Tunnels
	// cached reads a Cluster from the watch cache.
	cached ClusterReader
}

var _ rest.Connecter = &tunnelREST{}

// New returns a kind that discovery can show.
func (*tunnelREST) New() runtime.Object { return &clusterv1alpha1.Cluster{} }

// Destroy ends all tunnels: they are no requests any more, so the server does not end them.
func (r *tunnelREST) Destroy() { r.tunnels.Close() }

// ConnectMethods is POST: to open a tunnel is to create it.
func (*tunnelREST) ConnectMethods() []string { return []string{http.MethodPost} }

// NewConnectOptions has none.
func (*tunnelREST) NewConnectOptions() (options runtime.Object, hasPath bool, pathParameter string) {
	return nil, false, ""
}

// IsTunnel returns whether a request opens a tunnel. It takes as long as the tunnel is open.
func IsTunnel(info *request.RequestInfo) bool {
	return info.IsResourceRequest && info.APIGroup == clusterv1alpha1.GroupName &&
		info.Resource == clusterv1alpha1.ResourcePluralCluster && info.Subresource == clusterv1alpha1.TunnelSubresource
}

// Connect refuses everybody but the agent of this very Cluster, whatever other rights a user has: who opens the tunnel of a Cluster
// receives what users send to the member.
func (r *tunnelREST) Connect(ctx context.Context, name string, _ runtime.Object, responder rest.Responder) (http.Handler, error) {
	caller, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewInternalError(errors.New("no user found for the request"))
	}
	cluster, uid, ok := clusterv1alpha1.ClusterOfAgent(caller.GetName(), caller.GetGroups())
	if !ok || cluster != name {
		return nil, forbiddenTunnel(name, errors.New("only the agent of a cluster opens its tunnel"))
	}
	valid := func(ctx context.Context) error { return r.valid(ctx, name, uid) }
	if err := valid(ctx); err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Upgrade") != tunnel.Protocol {
			responder.Error(apierrors.NewBadRequest("a tunnel is opened by a request that upgrades its connection to " + tunnel.Protocol))
			return
		}
		if r.tunnels.Has(req.Header) {
			responder.Error(apierrors.NewConflict(clusterv1alpha1.Resource(clusterv1alpha1.ResourcePluralCluster+"/"+clusterv1alpha1.TunnelSubresource), name, tunnel.ErrHasTunnel))
			return
		}
		conn, err := r.switchProtocols(w)
		if err != nil {
			responder.Error(apierrors.NewInternalError(fmt.Errorf("upgrading the connection of an agent: %w", err)))
			return
		}
		var expires time.Time
		if req.TLS != nil && len(req.TLS.PeerCertificates) > 0 {
			expires = req.TLS.PeerCertificates[0].NotAfter
		}
		if err := r.tunnels.Serve(req.Context(), conn, name, uid, expires, valid); err != nil {
			log.FromContext(req.Context()).Info("Closed the tunnel of an agent", "cluster", name, "reason", err.Error())
		}
	}), nil
}

// valid returns an error if the agent of a Cluster with this UID may not have a tunnel (any more).
func (r *tunnelREST) valid(ctx context.Context, name string, uid types.UID) error {
	cluster, err := r.cached(ctx, name)
	switch {
	case apierrors.IsNotFound(err) || err == nil && cluster.UID != uid:
		return forbiddenTunnel(name, errors.New("the Cluster that this agent was registered for does not exist any more"))
	case err != nil:
		return nil //nolint:nilerr // The cache is not ready. The authorizer has allowed the request, and each use of the tunnel reads the Cluster.
	case cluster.Spec.SyncMode != clusterv1alpha1.Pull:
		return forbiddenTunnel(name, errors.New("the cluster is not in Pull mode"))
	}
	return nil
}

func forbiddenTunnel(name string, reason error) error {
	return apierrors.NewForbidden(clusterv1alpha1.Resource(clusterv1alpha1.ResourcePluralCluster+"/"+clusterv1alpha1.TunnelSubresource), name, reason)
}

// switchProtocols takes over the connection of a request. What the client sent early is not lost.
func (r *tunnelREST) switchProtocols(w http.ResponseWriter) (net.Conn, error) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(r.tunnels.Accept(conn), conn.SetDeadline(time.Time{})); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return bufferedConn{conn, buffered.Reader}, nil
}

// bufferedConn reads through a buffer.
type bufferedConn struct {
	net.Conn
	reader *bufio.Reader
}

// Read implements net.Conn.
func (c bufferedConn) Read(p []byte) (int, error) { return c.reader.Read(p) }
