package clusters

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/transport"
	"k8s.io/streaming/pkg/httpstream"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/dial"
	"github.com/flagship-k8s/flagship/internal/knowledge/impersonate"
)

// proxyREST serves clusters/NAME/proxy/PATH: the member's own API, as the same user; with the name *, that of all members.
type proxyREST struct {
	dial       *Dialer
	holders    Holders
	authorizer authorizer.Authorizer
	// names returns the names of all Clusters, sorted.
	names func(context.Context) ([]string, error)
	// everywhere returns the handler of a path in several members.
	everywhere func(path string, clusters []string) http.Handler
}

// everywhereName stands for all clusters in clusters/NAME/proxy.
const everywhereName = "*"

// Holders returns who may be impersonated in a cluster.
type Holders func(cluster string) (impersonate.Subjects, error)

var _ rest.Connecter = &proxyREST{}

// New returns the kind of the subresource.
func (*proxyREST) New() runtime.Object { return &ProxyOptions{} }

// Destroy has nothing to close.
func (*proxyREST) Destroy() {}

// ConnectMethods are all of HTTP: which are sensible is up to the member.
func (*proxyREST) ConnectMethods() []string {
	return []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut,
		http.MethodPatch, http.MethodDelete, http.MethodOptions,
	}
}

// NewConnectOptions has the rest of the URL put into Path.
func (*proxyREST) NewConnectOptions() (options runtime.Object, hasPath bool, pathParameter string) {
	return &ProxyOptions{}, true, "path"
}

// Connect returns the handler that carries one request to the member.
func (r *proxyREST) Connect(ctx context.Context, name string, options runtime.Object, responder rest.Responder) (http.Handler, error) {
	parameters, ok := options.(*ProxyOptions)
	if !ok {
		return nil, fmt.Errorf("unexpected proxy options %T", options)
	}
	caller, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewInternalError(errors.New("no user found for the request"))
	}
	if name == everywhereName {
		clusters, err := r.reachable(ctx, caller)
		if err != nil {
			return nil, err
		}
		return r.everywhere(parameters.Path, clusters), nil
	}
	who, err := r.identity(name, caller)
	if err != nil {
		return nil, err
	}
	endpoint, err := r.dial.Dial(ctx, name)
	if err != nil {
		return nil, err
	}
	return &forwarder{endpoint: endpoint, path: parameters.Path, who: who, responder: responder}, nil
}

// identity returns who the caller is in a cluster.
func (r *proxyREST) identity(cluster string, caller user.Info) (impersonate.Identity, error) {
	holders, err := r.holders(cluster)
	if err != nil {
		return impersonate.Identity{}, apierrors.NewInternalError(err)
	}
	who, err := holders.Identity(caller.GetName(), caller.GetGroups())
	if err != nil {
		return impersonate.Identity{}, apierrors.NewForbidden(clusterv1alpha1.Resource(clusterv1alpha1.ResourcePluralCluster+"/proxy"), cluster, err)
	}
	return who, nil
}

// reachable are the clusters that the caller may reach through the proxy by their names.
func (r *proxyREST) reachable(ctx context.Context, caller user.Info) ([]string, error) {
	all, err := r.names(ctx)
	if err != nil {
		return nil, err
	}
	allowed := []string{}
	for _, name := range all {
		decision, _, err := r.authorizer.Authorize(ctx, authorizer.AttributesRecord{
			User: caller, Verb: "get", APIGroup: clusterv1alpha1.GroupName, APIVersion: clusterv1alpha1.GroupVersion.Version,
			Resource: clusterv1alpha1.ResourcePluralCluster, Subresource: "proxy", Name: name, ResourceRequest: true,
		})
		if err != nil && decision != authorizer.DecisionAllow {
			return nil, apierrors.NewInternalError(err)
		}
		if decision != authorizer.DecisionAllow {
			continue
		}
		if _, err := r.identity(name, caller); err == nil {
			allowed = append(allowed, name)
		} else if !apierrors.IsForbidden(err) {
			return nil, err
		}
	}
	if len(allowed) == 0 {
		return nil, apierrors.NewForbidden(clusterv1alpha1.Resource(clusterv1alpha1.ResourcePluralCluster+"/proxy"), everywhereName,
			errors.New("there is no cluster whose proxy you may use"))
	}
	return allowed, nil
}

// forwarder carries one request.
type forwarder struct {
	endpoint  Endpoint
	path      string
	who       impersonate.Identity
	responder rest.Responder
}

// ServeHTTP replaces what the caller used to prove who it is by our own credential and the caller's
// name, and forwards everything else both ways, upgraded connections included.
func (f *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	location := *f.endpoint.URL
	location.Path = utilnet.JoinPreservingTrailingSlash(location.Path, f.path)
	location.RawQuery = queryOf(r)

	if checked, ok := f.endpoint.Transport.(verified); ok && httpstream.IsUpgradeRequest(r) {
		// It gets a connection of its own, past the transport's.
		if err := checked.check(r.Context()); err != nil {
			failure{f}.Error(err)
			return
		}
	}
	// Without a token the agent of the member adds its own.
	dial.Forward(w, r, &location, f.endpoint.Transport, dial.Sender{Token: f.endpoint.Token, As: as(f.who)}, failure{f})
}

// failure turns a failed request to a member into an API status.
type failure struct{ *forwarder }

// Error answers 503 for a member that could not be reached.
func (f failure) Error(err error) {
	if urlErr, ok := errors.AsType[*url.Error](err); ok {
		err = urlErr.Err
	}
	if !apierrors.IsServiceUnavailable(err) {
		err = apierrors.NewServiceUnavailable("cluster is not reachable: " + err.Error())
	}
	f.responder.Error(err)
}

// as is who in a member is impersonated.
func as(who impersonate.Identity) transport.ImpersonationConfig {
	config := transport.ImpersonationConfig{UserName: who.User, Groups: who.Groups}
	if who.Extra != "" {
		config.Extra = map[string][]string{impersonate.UserExtra: {who.Extra}}
	}
	return config
}
