package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/utils/clock"

	searchv1alpha1 "github.com/flagship-k8s/flagship/api/search/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/inprocess"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/search/budget"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/search/merge"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/search/resources"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/search/waits"
)

// Registries are the ResourceRegistries of the control plane.
type Registries interface {
	// Clusters returns in which clusters a resource is read, each with its namespaces; nil namespaces are all.
	Clusters(ctx context.Context, resource schema.GroupVersionResource) (map[string][]string, error)
	// Kind returns the kind of a resource that a cluster serves, whether a registry selects it or not; "" if none serves it.
	Kind(ctx context.Context, resource schema.GroupVersionResource) (string, error)
	// Changed returns a channel that is closed when Clusters may return something else than it returns after this call.
	Changed() <-chan struct{}
	// Ready returns whether a cluster is recorded as ready.
	Ready(ctx context.Context, cluster string) bool
}

// Config is what the server needs.
type Config struct {
	// Registries returns the registries, nil while the control plane starts; a function, since their caches are built after the server.
	Registries func() Registries
	// Metrics are those of the control plane.
	Metrics prometheus.Registerer
	// Clock measures how long lists wait for members; nil is the real one.
	Clock clock.PassiveClock
	// Short returns whether the process is short of memory: requests that read members are refused then. Nil: it never is. It is a function
	// because the process measures it.
	Short func() bool
}

// Server serves the search API. Make one with New.
type Server struct {
	registries func() Registries
	// process calls this server in the process, as the caller. It is a function since it calls the handler that this server is a part of.
	process func() *inprocess.Transport

	requests *prometheus.CounterVec
	watches  prometheus.Gauge
	waits    *waits.Waits
	budget   *budget.Budget
	short    func() bool
	// openWatches are those of members.
	openWatches *budget.Watches
	// patience is how long a member may take to answer.
	patience time.Duration
	// pause is how long a watch of a member that failed is not begun again, at first.
	pause time.Duration
}

// New makes a Server. process returns what calls the API server in this process.
func New(config Config, process func() *inprocess.Transport) *Server {
	registries := config.Registries
	if registries == nil {
		registries = func() Registries { return nil }
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	s := &Server{
		registries: registries, process: process, waits: waits.New(config.Clock), budget: &budget.Budget{}, short: config.Short, openWatches: &budget.Watches{}, patience: memberPatience, pause: time.Second,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "flagship_search_requests_total", Help: "Requests to the search API that read or write members, by verb.",
		}, []string{"verb"}),
		watches: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "flagship_search_member_watches", Help: "Watches of members that are open for users of the search API.",
		}),
	}
	if config.Metrics != nil {
		config.Metrics.MustRegister(s.requests, s.watches)
	}
	return s
}

// InFront lets the server answer what is below its paths, and the local servers everything else.
func (s *Server) InFront(local genericapiserver.DelegationTarget) genericapiserver.DelegationTarget {
	return front{local, s}
}

type front struct {
	genericapiserver.DelegationTarget
	search *Server
}

// UnprotectedHandler serves requests that are authenticated and authorized already.
func (f front) UnprotectedHandler() http.Handler {
	others := f.DelegationTarget.UnprotectedHandler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if below(r.URL.Path, searchv1alpha1.ProxyingPath) || below(r.URL.Path, searchv1alpha1.SearchCachePath) {
			f.search.ServeHTTP(w, r)
			return
		}
		if r.Method == http.MethodGet && strings.TrimSuffix(r.URL.Path, "/") == resources.Path {
			resources.Serve(w, r, others)
			return
		}
		others.ServeHTTP(w, r)
	})
}

func below(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// ServeHTTP serves requests that are authenticated and authorized already.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := s.serve(w, r); err != nil {
		fail(w, err)
	}
}

// fail answers with an error.
func fail(w http.ResponseWriter, err error) {
	status := responsewriters.ErrorToAPIStatus(err)
	status.APIVersion, status.Kind = "v1", "Status"
	w.Header().Set("Content-Type", "application/json")
	if delay := status.Details; delay != nil && delay.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(delay.RetryAfterSeconds))
	}
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status) // the client is gone if this fails
}

// call is one request.
type call struct {
	*Server
	request *http.Request
	writer  http.ResponseWriter
	caller  user.Info
	// path is what follows that of the API, and info what it means to an API server.
	path   string
	info   *request.RequestInfo
	accept string
	// clusters have the resource, each with the namespaces that are read, nil for all.
	clusters map[string][]string
	// reduced objects have no fields that only writers need.
	reduced bool
	// share is how many answers of members the request may hold.
	share *budget.Share
	// plain objects have the version of their own cluster, and a list has none: in answers to clusters/*/proxy.
	plain bool
}

func (c *call) resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: c.info.APIGroup, Version: c.info.APIVersion, Resource: c.info.Resource}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) error {
	c := &call{Server: s, request: r, writer: w, reduced: below(r.URL.Path, searchv1alpha1.SearchCachePath)}
	root := searchv1alpha1.ProxyingPath
	if c.reduced {
		root = searchv1alpha1.SearchCachePath
	}
	c.path = "/" + strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, root), "/")
	if below(c.path, searchv1alpha1.ProxyingPath) || below(c.path, searchv1alpha1.SearchCachePath) {
		return apierrors.NewBadRequest("the search API is not part of what it serves")
	}
	var ok bool
	if c.caller, ok = request.UserFrom(r.Context()); !ok {
		return apierrors.NewInternalError(errors.New("no user found for the request"))
	}
	var err error
	if c.info, err = parse(r, c.path); err != nil {
		return err
	}
	if c.info.IsResourceRequest {
		registries := s.registries()
		if registries == nil {
			return starting(errors.New("its loops are not built yet"))
		}
		if c.clusters, err = c.selected(r.Context(), registries); err != nil {
			return starting(err)
		}
	}
	if len(c.clusters) == 0 {
		return c.toControlPlane(r.Context())
	}
	s.requests.WithLabelValues(c.info.Verb).Inc()
	return c.bounded(r.Context(), c.toMembers)
}

// bounded answers a request with a share of the budget, which a request that lasts ends itself. Every other request has a deadline, for the
// client, too: one that does not read would keep its share.
func (c *call) bounded(ctx context.Context, answer func(context.Context) error) (err error) {
	if c.short != nil && c.short() {
		return apierrors.NewTooManyRequests("the control plane is short of memory, and reads no members for the search API: send the request again later", shortSeconds)
	}
	if c.share, err = c.budget.Begin(budget.Tenant(c.caller.GetName()), min(len(c.clusters), memberConcurrency)); err != nil {
		return err
	}
	defer c.share.End()
	if c.lasts() {
		return answer(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, requestPatience)
	defer cancel()
	defer c.writeUntil(requestPatience)()
	return answer(ctx)
}

// lasts returns whether the request has no deadline: a watch, and what is carried on to one member.
func (c *call) lasts() bool { return c.info.Verb == "watch" || !c.isObject() }

// isObject returns whether the request is about an object itself.
func (c *call) isObject() bool {
	return c.info.Subresource == "" || c.info.Subresource == "status" || c.info.Subresource == "scale"
}

// writeUntil fails what is written to the client after this time, until the returned function is called.
func (c *call) writeUntil(patience time.Duration) (undo func()) {
	controller := http.NewResponseController(c.writer)
	_ = controller.SetWriteDeadline(time.Now().Add(patience)) // a client in this process has none, and reads
	return func() { _ = controller.SetWriteDeadline(time.Time{}) }
}

// starting is the answer while the caches of the control plane are not filled. Clients of client-go send the request again.
func starting(err error) error {
	return waits.Later("the control plane is starting: " + err.Error())
}

// parse returns what a path below that of the API means.
func parse(r *http.Request, path string) (*request.RequestInfo, error) {
	resolver := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	info, err := resolver.NewRequestInfo(&http.Request{Method: r.Method, URL: &url.URL{Path: path, RawQuery: r.URL.RawQuery}})
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return info, nil
}

// selected are the clusters in which registries select the resource, in the namespace of the request if it has one.
func (c *call) selected(ctx context.Context, registries Registries) (map[string][]string, error) {
	all, err := registries.Clusters(ctx, c.resource())
	if err != nil || c.info.Namespace == "" {
		return all, err
	}
	own := map[string][]string{}
	for cluster, namespaces := range all {
		if namespaces == nil || slices.Contains(namespaces, c.info.Namespace) {
			own[cluster] = nil // the path has the namespace
		}
	}
	return own, nil
}

// toControlPlane answers what no registry selects: proxying serves the control plane's own objects, as the caller.
func (c *call) toControlPlane(ctx context.Context) error {
	if c.reduced {
		if !c.info.IsResourceRequest {
			return apierrors.NewNotFound(schema.GroupResource{}, c.path)
		}
		kind, err := c.registries().Kind(ctx, c.resource())
		if err != nil {
			return starting(err)
		}
		return merge.Unselected(ctx, c.writer, c.resource(), kind, c.info.Verb)
	}
	if c.info.IsResourceRequest && merge.IsVersion(c.request.URL.Query().Get("resourceVersion")) {
		return expired("the objects are those of the control plane now")
	}
	c.forward(c.path)
	return nil
}

// expired has a client list again.
func expired(why string) error {
	return apierrors.NewResourceExpired("list again: " + why)
}

func (c *call) toMembers(ctx context.Context) error {
	group := c.resource().GroupResource()
	var err error
	if c.accept, err = merge.Readable(c.request.Header.Values("Accept")); err != nil {
		return err
	}
	switch verb := c.info.Verb; {
	case c.reduced && (c.info.Subresource != "" || verb != "get" && verb != "list"):
		return apierrors.NewMethodNotSupported(group, verb+" (objects can be read here; use "+searchv1alpha1.ProxyingPath+")")
	case verb == "list":
		return c.list(ctx)
	case verb == "watch" && c.info.Subresource == "" && c.request.URL.Query().Has("watch"):
		return c.watch(ctx)
	case c.info.Name == "" || verb == "deletecollection" || verb == "watch":
		return apierrors.NewMethodNotSupported(group, verb+" (a request that changes an object in a member has to name it)")
	case verb == "get" && c.info.Subresource == "":
		return c.get(ctx)
	default:
		return c.toOwner(ctx)
	}
}
