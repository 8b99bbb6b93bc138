package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"

	"github.com/flagship-k8s/flagship/internal/clients/dial"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/chain"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/clusters"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/credentials"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/datadir"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/definitions"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/drain"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/etcd"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/filters"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/health"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/inprocess"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/replicasets"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/roles"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/search"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/storage"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/versions"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/webhooks"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/works/local"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// Server is a running API server. Make one with Start.
type Server struct {
	cfg      Config
	keys     *credentials.Keyring
	storage  *etcd.Storage
	address  *net.TCPAddr
	loopback *rest.Config // over the network
	tracer   trace.TracerProvider
	local    *rest.Config // without it
	loops    *health.Loops
	// converter converts objects as the server does for its readers.
	converter *versions.Converter
	// services finds the Services that webhooks name.
	services webhook.ServiceResolver
	// works reads and writes Works and bindings without requests.
	works *local.Storage
	// defines returns whether a resource is one of a definition.
	defines func(schema.GroupResource) bool
	// storedVersion is that of a resource whose versions a webhook makes.
	storedVersion func(schema.GroupResource) string

	informers informers.SharedInformerFactory
	// events are those that are not stored; nil for a member.
	events *events.Memory

	rewriteFailures atomic.Int64

	// requests ends what is not served in time when the server stops, and calls makes the requests of this process.
	requests *drain.Requests
	calls    *inprocess.Transport

	stop     context.CancelFunc
	stopping <-chan struct{} // closed by stop
	served   chan struct{}   // closed when everything is served
	drained  chan struct{}   // closed when no request is served any more
	stopped  chan struct{}
	ending   sync.Once
	err      error // set before stopped is closed
}

// Start runs a server and returns when it is ready to serve every kind. The context ends the start
// only; the server runs on until Stop.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	server, err := startReady(ctx, cfg)
	if err != nil {
		return nil, etcd.Full(cfg.DataDir, err)
	}
	return server, nil
}

// startReady runs a server and waits until it is ready.
func startReady(ctx context.Context, cfg Config) (*Server, error) {
	lock, err := datadir.Acquire(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	if err := etcd.TakeOver(ctx, cfg.DataDir, cfg.ExternalEtcd, lock); err != nil {
		lock.Release()
		return nil, err
	}
	listener, err := listen(ctx, cfg)
	if err != nil {
		lock.Release()
		return nil, err
	}
	server, err := start(ctx, cfg, lock, listener)
	if err != nil {
		_ = listener.Close()
		return nil, err
	}
	serving, end := untilClosed(ctx, server.stopped) // its requests wait for storage, which may have failed
	defer end()
	if err := server.awaitServed(serving); err != nil {
		server.stop()
		<-server.stopped
		if server.err != nil {
			return nil, fmt.Errorf("the API server ended while starting: %w", server.err)
		}
		return nil, err
	}
	close(server.served)
	return server, nil
}

// untilClosed returns a context that ends when the channel is closed, too, and a function that ends it and waits for what this takes.
func untilClosed(ctx context.Context, closed <-chan struct{}) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		defer cancel()
		select {
		case <-closed:
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel()
		waiting.Wait()
	}
}

// awaitServed waits until everything is served.
func (s *Server) awaitServed(ctx context.Context) error {
	if err := s.waitReady(ctx); err != nil {
		return err
	}
	if err := storage.Retry(ctx, s.loopback, definitions.EstablishPending); err != nil {
		return err
	}
	if err := s.awaitServiceAddresses(ctx); err != nil {
		return err
	}
	if s.cfg.Role != Hub {
		return nil
	}
	if err := s.keys.WriteBreakGlass(); err != nil {
		return err
	}
	if err := storage.Retry(ctx, s.loopback, roles.BindOperators); err != nil {
		return err
	}
	s.announceControllers()
	if err := storage.Retry(ctx, s.loopback, definitions.Install); err != nil {
		return err
	}
	return storage.Retry(ctx, s.loopback, roles.Install)
}

// causeOf returns why storage has failed, if it has: other errors of a start are consequences then.
func causeOf(err error, stored *etcd.Storage) error {
	if stored == nil {
		return err
	}
	select {
	case <-stored.Failed():
		return stored.Failure()
	default:
		return err
	}
}

// start brings up storage and the server; both end, in the right order, with the returned Server.
func start(ctx context.Context, cfg Config, lock *datadir.Lock, listener net.Listener) (_ *Server, err error) {
	undo := &cleanups{lock.Release}
	var stored *etcd.Storage
	defer func() {
		if err != nil {
			undo.run()
			err = causeOf(err, stored)
		}
	}()
	address := listener.Addr().(*net.TCPAddr)
	keys, err := openKeys(ctx, cfg, address)
	if err != nil {
		return nil, err
	}
	if err := agreeOnKeys(ctx, cfg, keys); err != nil {
		return nil, err
	}
	stored, err = etcd.Open(ctx, etcd.Options{
		External: cfg.ExternalEtcd, DataDir: cfg.DataDir, Quota: cfg.StorageQuota, NoFsync: cfg.NoFsync, Count: cfg.Role == Hub, Clock: cfg.Clock,
	})
	if err != nil {
		return nil, err
	}
	undo.add(stored.Close)
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var following sync.WaitGroup
	undo.add(following.Wait, cancel)
	following.Go(func() { keys.Run(running) })
	if cfg.Authentication.ConfigFile != "" {
		following.Go(func() { cfg.Authentication.Watch(running, cfg.DataDir, cfg.Clock) })
	}
	services, err := versions.ParseServices(cfg.ConversionServices)
	if err != nil {
		return nil, err
	}
	called := &webhooks.Services{}
	completed, err := build(running, cfg, keys, listener, stored.Transport, called)
	if err != nil {
		return nil, err
	}
	config, err := app.NewConfig(completed)
	if err != nil {
		return nil, fmt.Errorf("configuring the API server: %w", err)
	}
	credentials.Poll(config.KubeAPIs.ControlPlane.Generic.SecureServing, &config.KubeAPIs.ControlPlane.ClusterAuthenticationInfo)
	chain.Authenticate(config)
	if err := chain.Authorize(config, cfg.Authorizer); err != nil {
		return nil, err
	}
	if cfg.DialPods != nil {
		transport := config.KubeAPIs.ControlPlane.ProxyTransport.Clone()
		transport.DialContext = cfg.DialPods
		config.KubeAPIs.ControlPlane.ProxyTransport = transport
	}
	wrap, plain := wrapperOf(stored)
	chain.WrapStorage(config, wrap)
	if cfg.Role == Hub {
		builtin := config.KubeAPIs.ControlPlane.Generic
		builtin.RESTOptionsGetter = replicasets.Derive(builtin.RESTOptionsGetter, plain)
	}
	shared := config.KubeAPIs.ControlPlane.VersionedInformers
	var inMemory *events.Memory
	if stored.Events != nil {
		inMemory = keepEvents(config, shared, stored.Events, cfg.Clock)
	}
	extensions := &config.ApiExtensions.ExtraConfig
	if cfg.Role == Hub {
		called.Read(shared, extensions.ServiceResolver)
	}
	extensions.ServiceResolver = services.Resolver(extensions.ServiceResolver)
	if cfg.Role == Hub {
		extensions.AuthResolverWrapper = webhooks.Within(cfg.WebhookRules(), extensions.AuthResolverWrapper)
	}
	converter, err := versions.NewConverter(extensions.ServiceResolver, extensions.AuthResolverWrapper)
	if err != nil {
		return nil, err
	}
	server := &Server{
		cfg: cfg, keys: keys, storage: stored, loops: health.NewLoops(), converter: converter,
		stop: cancel, stopping: running.Done(), served: make(chan struct{}), drained: make(chan struct{}), stopped: make(chan struct{}),
		informers: shared, events: inMemory, requests: drain.New(running),
		services: extensions.ServiceResolver,
		address:  address,
		loopback: clientConfig(config.KubeAPIs.ControlPlane.Generic.LoopbackClientConfig),
		tracer:   config.KubeAPIs.ControlPlane.Generic.TracerProvider,
	}
	server.AddLoop(startCheck, server.started)
	if cfg.Role == Hub {
		server.AddLoop(storageCheck, server.writable)
	}
	if err := server.serve(running, &following, config, wrap, undo); err != nil {
		return nil, err
	}
	return server, nil
}

// wrapperOf returns what changes how objects are stored, and how storage without a watch cache is made.
func wrapperOf(stored *etcd.Storage) (wrap chain.Wrapper, plain generic.StorageDecorator) {
	plain = generic.UndecoratedStorage
	if stored.Direct != nil {
		plain = stored.Direct.Plain
	}
	return func(getter generic.RESTOptionsGetter) generic.RESTOptionsGetter {
		if stored.Direct != nil {
			getter = stored.Direct.Wrap(getter)
		}
		getter = storage.AwaitCaches(getter)
		if stored.Usage != nil {
			getter = stored.Usage.Wrap(getter)
		}
		return getter
	}, plain
}

// serve builds the servers and runs them until the context ends, then everything in undo, which waits for following.
func (s *Server) serve(running context.Context, following *sync.WaitGroup, config *app.Config, wrap chain.Wrapper, undo *cleanups) error {
	var own *chain.Groups
	host := chain.Host(config, wrap)
	if s.cfg.Role == Hub {
		client, err := kubernetes.NewForConfig(s.loopback)
		if err != nil {
			return fmt.Errorf("making the loopback client: %w", err)
		}
		secret := func(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
			return client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		}
		searching := search.New(s.cfg.Search, func() *inprocess.Transport { return s.calls })
		own = &chain.Groups{Answers: s.cfg.Answers, Search: searching, Options: clusters.Options{
			Host: host, Secret: secret, Rules: dial.Rules{AllowLoopback: s.cfg.AllowLoopbackMembers}, Tunnels: s.cfg.Tunnels,
			Everywhere: searching.Everywhere,
		}}
	}
	var further chain.Builder
	if s.cfg.Group != nil {
		further = func(next genericapiserver.DelegationTarget) (*genericapiserver.GenericAPIServer, error) {
			return s.cfg.Group(host, next)
		}
	}
	linked, err := chain.Link(config, own, further, s.wrap) //nolint:contextcheck // the hooks of a server get its context when it starts
	if err != nil {
		return err
	}
	s.defines, s.storedVersion, s.works = linked.Defines, linked.StoredVersion, linked.Works
	linked.Front.GenericAPIServer.ShutdownTimeout = hangUp
	prepared, err := linked.Front.PrepareRun()
	if err != nil {
		return fmt.Errorf("preparing the API server: %w", err)
	}
	if s.local, err = s.inProcess(linked.Front.GenericAPIServer.Handler); err != nil {
		return err
	}
	if err := linked.PublishDocuments(running, following); err != nil {
		return err
	}
	following.Go(func() { s.requests.Run(s.stopping, s.drained) })
	following.Go(func() {
		<-s.stopping
		s.informers.Shutdown()
	})
	var watching sync.WaitGroup
	undone := make(chan struct{})
	watching.Go(func() {
		select {
		case <-s.storage.Failed():
			s.end(s.storage.Failure()) // at once: the requests that are served wait for storage
		case <-undone:
		}
	})
	go func() { // Wait waits for it, unless storage has failed: then it may never end
		err := prepared.Run(running)
		close(s.drained)
		s.calls.Close()
		undo.run()
		close(undone)
		watching.Wait()
		s.end(err)
	}()
	return nil
}

// end is called when the server has ended, or cannot end in order.
func (s *Server) end(err error) {
	s.ending.Do(func() {
		s.err = err
		close(s.stopped)
	})
}

// inProcess is the loopback configuration without the network.
func (s *Server) inProcess(handler http.Handler) (*rest.Config, error) {
	network, err := rest.TransportFor(s.loopback)
	if err != nil {
		return nil, fmt.Errorf("making the loopback transport: %w", err)
	}
	config := rest.CopyConfig(s.loopback)
	config.TLSClientConfig = rest.TLSClientConfig{}
	s.calls = inprocess.NewTransport(handler, network)
	config.Transport = s.calls
	return config, nil
}

// cleanups undo what was done, the last first.
type cleanups []func()

func (c *cleanups) add(steps ...func()) { *c = append(*c, steps...) }

func (c *cleanups) run() {
	for i := len(*c) - 1; i >= 0; i-- {
		(*c)[i]()
	}
}

// wrap adds this package's own handlers in front of upstream's.
func (s *Server) wrap(api http.Handler, linked *chain.Chain) http.Handler {
	api = filters.RefuseProtobuf(api, linked.IsCustomResource)
	if s.cfg.Role == Hub {
		api = filters.Narrow(filters.RefusePodWatch(api))
	}
	if s.cfg.Front != nil {
		api = s.cfg.Front(api)
	}
	return s.requests.Handler(s.loops.Handler(withPages(s.cfg.Pages, api)))
}

func withPages(pages map[string]http.Handler, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if page, ok := pages[r.URL.Path]; ok {
			page.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func listen(ctx context.Context, cfg Config) (net.Listener, error) {
	address := net.JoinHostPort(cfg.BindAddress, strconv.Itoa(cfg.Port))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		if opErr, ok := errors.AsType[*net.OpError](err); ok {
			err = opErr.Err
		}
		return nil, fmt.Errorf("listening on %s: %w", address, err)
	}
	return listener, nil
}

// clientConfig is the loopback configuration as clients of the hub need it: JSON, because custom
// resources have no other encoding, and without a limit of their own.
func clientConfig(loopback *rest.Config) *rest.Config {
	config := rest.CopyConfig(loopback)
	config.ContentType, config.AcceptContentTypes = "", ""
	config.QPS, config.Burst = -1, -1
	config.DisableCompression = true
	return config
}

// LoopbackConfig is a client configuration with all rights for clients in this process. Its requests call
// the server directly; it holds no certificates, so it is of no use to another process.
func (s *Server) LoopbackConfig() *rest.Config { return rest.CopyConfig(s.local) }

// ConfigAs is a client configuration for clients in this process whose requests are those of a user: authorized, limited and audited as if the
// user had sent them. They have no other rights.
func (s *Server) ConfigAs(who user.Info) *rest.Config {
	config := s.LoopbackConfig()
	config.BearerToken, config.Transport = "", s.calls.As(who)
	return config
}

// TracerProvider makes the spans of this server; nil if Config has no TracingConfigFile. Requests of the LoopbackConfig are spans, too.
func (s *Server) TracerProvider() trace.TracerProvider {
	if s.cfg.TracingConfigFile == "" {
		return nil
	}
	return s.tracer
}

// Port is the port the server listens on.
func (s *Server) Port() int { return s.address.Port }

// ResolveService finds where a Service answers that a webhook names: at the address of Config.ConversionServices, or one of
// the EndpointSlices of a Service on this server.
func (s *Server) ResolveService(namespace, name string, port int32) (*url.URL, error) {
	return s.services.ResolveEndpoint(namespace, name, port)
}

// URL is where clients on this machine, or elsewhere if the server listens there, reach it.
func (s *Server) URL() string { return urlOf(s.cfg, s.address) }

func urlOf(cfg Config, address *net.TCPAddr) string {
	return "https://" + net.JoinHostPort(cfg.AdvertiseAddress, strconv.Itoa(address.Port))
}

// CA are the certificates, as PEM, that verify the server. Years before an authority ends there are those of its successor, too.
func (s *Server) CA() []byte { return s.keys.CA() }

// PKIDir is the directory of the server's keys and certificates.
func (s *Server) PKIDir() string { return s.cfg.PKIDir }

// AdminKubeconfig is the kubeconfig of an administrator. That of a hub is one of a user whose rights come from RBAC and can
// be taken away there: all of them, at first. That of a member has all rights for good. Its client certificate ends within a
// year: take a new one then, or use WriteKubeconfig.
func (s *Server) AdminKubeconfig() ([]byte, error) { return s.keys.Kubeconfig() }

// WriteKubeconfig writes the admin kubeconfig to a file readable by its owner only, in one step, and
// again whenever the client certificate in it is renewed.
func (s *Server) WriteKubeconfig(path string) error {
	return etcd.Full(filepath.Dir(path), s.keys.WriteKubeconfig(path))
}

// Versions converts objects between the versions of their kinds as the server does for its readers.
func (s *Server) Versions() *versions.Converter { return s.converter }

// AddLoop names a control loop in /readyz. The server is ready only while healthy returns nil; it is
// called for every request and must not block.
func (s *Server) AddLoop(name string, healthy func() error) { s.loops.Add(name, healthy) }

// Done is closed when the server has ended, for whatever reason.
func (s *Server) Done() <-chan struct{} { return s.stopped }

// Wait blocks until the server has ended and returns why: nil after Stop.
func (s *Server) Wait() error {
	<-s.stopped
	return s.err
}

// Stop ends the server, then its storage, and lets go of the data directory. It returns early if the
// context ends first.
func (s *Server) Stop(ctx context.Context) error {
	s.stop()
	select {
	case <-s.stopped:
		return s.err
	case <-ctx.Done():
		return fmt.Errorf("stopping the API server: %w", ctx.Err())
	}
}
