package apiserver

import (
	"cmp"
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
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/clusters"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/inprocess"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/pki"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/storage"
)

// readyPoll is how often a starting server is asked whether it is ready.
const readyPoll = 25 * time.Millisecond

// Server is a running API server. Make one with Start.
type Server struct {
	cfg      Config
	keys     *keyring
	address  *net.TCPAddr
	loopback *rest.Config // over the network
	local    *rest.Config // without it
	loops    *loops
	// converters convert custom resources as the server does for its readers.
	converters *conversion.CRConverterFactory
	// services finds the Services that webhooks name.
	services webhook.ServiceResolver
	// usage knows what is stored; nil for a member.
	usage *storage.Usage
	// namespaces counts what is stored in each namespace; nil for a member.
	namespaces *storage.Namespaces
	// size is the size of the database and its quota, in bytes; nil for a member.
	size func(context.Context) (used, quota int64, err error)
	// defines tells whether a resource is one of a definition.
	defines func(schema.GroupResource) bool

	informers informers.SharedInformerFactory

	rewriteFailures atomic.Int64

	stop     context.CancelFunc
	stopping <-chan struct{} // closed by stop
	drained  chan struct{}   // closed when no request is served any more
	stopped  chan struct{}
	err      error // set before stopped is closed

	mu          sync.Mutex
	kubeconfigs map[string]struct{}
}

// Start runs a server and returns when it is ready to serve every kind. The context ends the start
// only; the server runs on until Stop.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	lock, err := lockDir(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	listener, err := listen(ctx, cfg)
	if err != nil {
		lock.release()
		return nil, err
	}
	server, err := start(ctx, cfg, lock, listener)
	if err != nil {
		_ = listener.Close()
		return nil, err
	}
	if err := server.settle(ctx); err != nil {
		server.stop()
		<-server.stopped
		return nil, err
	}
	return server, nil
}

// settle waits until everything is served.
func (s *Server) settle(ctx context.Context) error {
	if err := s.waitReady(ctx); err != nil {
		return err
	}
	if err := establishPending(ctx, s.loopback); err != nil {
		return err
	}
	if s.cfg.Role != Hub {
		return nil
	}
	if err := s.writeBreakGlass(); err != nil {
		return err
	}
	if err := bindOperators(ctx, s.loopback); err != nil {
		return err
	}
	s.announceControllers()
	if err := installKinds(ctx, s.loopback); err != nil {
		return err
	}
	return installRoles(ctx, s.loopback)
}

// start brings up storage and the server; both end, in the right order, with the returned Server.
func start(ctx context.Context, cfg Config, lock *dirLock, listener net.Listener) (_ *Server, err error) {
	undo := &cleanups{lock.release}
	defer func() {
		if err != nil {
			undo.run()
		}
	}()
	keys, err := openKeyring(cfg)
	if err != nil {
		return nil, err
	}
	stored, err := openStorage(ctx, cfg, undo)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	undo.add(cancel)
	if stored.usage != nil {
		noticing, done := context.WithCancel(running)
		var following sync.WaitGroup
		following.Go(func() { stored.usage.Run(noticing) })
		following.Go(func() { stored.namespaces.Run(noticing) })
		undo.add(stored.usage.Stop, stored.namespaces.Stop, following.Wait, done)
	}
	if cfg.Authentication.ConfigFile != "" {
		var following sync.WaitGroup
		noticing, done := context.WithCancel(running)
		following.Go(func() { followAuthentication(noticing, cfg) })
		undo.add(following.Wait, done)
	}
	services, err := parseServices(cfg.ConversionServices)
	if err != nil {
		return nil, err
	}
	completed, err := build(running, cfg, keys, listener, stored.transport)
	if err != nil {
		return nil, err
	}
	config, err := app.NewConfig(completed)
	if err != nil {
		return nil, fmt.Errorf("configuring the API server: %w", err)
	}
	if stored.direct != nil {
		storeDirectly(config, stored.direct)
	}
	extensions := &config.ApiExtensions.ExtraConfig
	extensions.ServiceResolver = fixedServices{services, extensions.ServiceResolver}
	converters, err := conversion.NewCRConverterFactory(extensions.ServiceResolver, extensions.AuthResolverWrapper)
	if err != nil {
		return nil, fmt.Errorf("preparing conversions: %w", err)
	}
	server := &Server{
		cfg: cfg, keys: keys, loops: newLoops(), converters: converters, usage: stored.usage, namespaces: stored.namespaces, size: stored.size,
		stop: cancel, stopping: running.Done(), drained: make(chan struct{}), stopped: make(chan struct{}),
		informers:   config.KubeAPIs.ControlPlane.VersionedInformers,
		services:    extensions.ServiceResolver,
		address:     listener.Addr().(*net.TCPAddr),
		loopback:    clientConfig(config.KubeAPIs.ControlPlane.Generic.LoopbackClientConfig),
		kubeconfigs: map[string]struct{}{},
	}
	if err := server.serve(running, config, stored.direct, undo); err != nil {
		return nil, err
	}
	go server.renewCertificates(running)
	return server, nil
}

// serve builds the servers and runs them until the context ends, then everything in undo.
func (s *Server) serve(running context.Context, config *app.Config, direct *storage.Direct, undo *cleanups) error {
	var own *clusters.Options
	if s.cfg.Role == Hub {
		client, err := kubernetes.NewForConfig(s.loopback)
		if err != nil {
			return fmt.Errorf("making the loopback client: %w", err)
		}
		own = clusterOptions(config, direct, s.cfg, func(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
			return client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		})
	}
	linked, err := link(config, own, s.wrap)
	if err != nil {
		return err
	}
	s.defines = linked.defines
	prepared, err := linked.front.PrepareRun()
	if err != nil {
		return fmt.Errorf("preparing the API server: %w", err)
	}
	if s.local, err = s.inProcess(linked.front.GenericAPIServer.Handler); err != nil {
		return err
	}
	linked.publishDocuments(running)
	go func() {
		defer close(s.stopped)
		s.err = prepared.Run(running)
		close(s.drained)
		undo.run()
	}()
	return nil
}

// inProcess is the loopback configuration without the network.
func (s *Server) inProcess(handler http.Handler) (*rest.Config, error) {
	network, err := rest.TransportFor(s.loopback)
	if err != nil {
		return nil, fmt.Errorf("making the loopback transport: %w", err)
	}
	config := rest.CopyConfig(s.loopback)
	config.TLSClientConfig = rest.TLSClientConfig{}
	config.Transport = inprocess.NewTransport(handler, network, s.drained)
	return config, nil
}

// storageSetup is how the API server reaches its storage.
type storageSetup struct {
	transport storagebackend.TransportConfig
	direct    *storage.Direct // nil for an external etcd
	usage     *storage.Usage  // nil for a member, like what follows
	// namespaces and size are as in Server.
	namespaces *storage.Namespaces
	size       func(context.Context) (used, quota int64, err error)
}

// openStorage starts the embedded etcd, unless there is an external one.
func openStorage(ctx context.Context, cfg Config, undo *cleanups) (storageSetup, error) {
	if cfg.ExternalEtcd != nil {
		return openExternal(cfg)
	}
	etcd, err := startEtcd(ctx, filepath.Join(cfg.DataDir, "etcd"), cmp.Or(cfg.StorageQuota, etcdQuota), cfg.NoFsync)
	if err != nil {
		return storageSetup{}, err
	}
	direct := storage.New(etcd.server.Server, cfg.Clock, uncached()...)
	undo.add(etcd.stop, direct.Stop)
	if cfg.Role == Hub {
		compacting, done := context.WithCancel(context.WithoutCancel(ctx))
		var running sync.WaitGroup
		running.Go(func() { (&history{etcd: etcd}).run(compacting, cfg.Clock) })
		undo.add(running.Wait, done)
	}
	setup := storageSetup{
		transport: storagebackend.TransportConfig{ServerList: []string{etcd.endpoint()}},
		direct:    direct,
	}
	if cfg.Role == Hub {
		setup.usage = storage.NewUsage(v3client.New(etcd.server.Server), cfg.Clock, etcdPrefix)
		setup.namespaces = storage.NewNamespaces(v3client.New(etcd.server.Server), cfg.Clock, etcdPrefix, notOfNamespaces)
		setup.size = etcd.size
	}
	return setup, nil
}

// openExternal connects to an etcd elsewhere.
func openExternal(cfg Config) (storageSetup, error) {
	setup := storageSetup{transport: cfg.ExternalEtcd.transport()}
	if cfg.Role != Hub {
		return setup, nil
	}
	client, err := cfg.ExternalEtcd.client()
	if err != nil {
		return setup, err
	}
	counting, err := cfg.ExternalEtcd.client()
	if err != nil {
		_ = client.Close()
		return setup, err
	}
	prefix := cmp.Or(cfg.ExternalEtcd.Prefix, etcdPrefix)
	setup.usage = storage.NewUsage(client, cfg.Clock, prefix)
	setup.namespaces = storage.NewNamespaces(counting, cfg.Clock, prefix, notOfNamespaces)
	setup.size = func(ctx context.Context) (used, quota int64, err error) { return largest(ctx, counting) }
	return setup, nil
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
func (s *Server) wrap(api http.Handler, linked *chain) http.Handler {
	return s.loops.reportedBy(withPages(s.cfg.Pages, refuseProtobuf(api, linked.isCustomResource)))
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

// clientConfig is the loopback configuration as clients of the hub want it: JSON, because custom
// resources know nothing else, and without a limit of their own.
func clientConfig(loopback *rest.Config) *rest.Config {
	config := rest.CopyConfig(loopback)
	config.ContentType, config.AcceptContentTypes = "", ""
	config.QPS, config.Burst = -1, -1
	config.DisableCompression = true
	return config
}

func (s *Server) waitReady(ctx context.Context) error {
	client, err := rest.HTTPClientFor(s.loopback)
	if err != nil {
		return fmt.Errorf("making the loopback client: %w", err)
	}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.loopback.Host+"/readyz", nil)
		if err != nil {
			return fmt.Errorf("asking for readiness: %w", err)
		}
		if response, err := client.Do(request); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-s.stopped:
			return fmt.Errorf("API server ended while starting: %w", s.Wait())
		case <-ctx.Done():
			return fmt.Errorf("waiting for the API server: %w", ctx.Err())
		}
	}
}

// renewCertificates replaces certificates before they end. The serving certificate is picked up from
// its file by the running server; kubeconfigs are written again.
func (s *Server) renewCertificates(ctx context.Context) {
	logger := log.FromContext(ctx).WithName("apiserver")
	for {
		renewed, next, err := s.keys.renew()
		if err != nil {
			logger.Error(err, "Certificate renewal failed, trying again")
		}
		for _, name := range renewed {
			logger.Info("Renewed certificate", "name", name)
		}
		if len(renewed) > 0 {
			s.rewriteKubeconfigs(ctx)
		}
		timer := s.cfg.Clock.NewTimer(napUntil(s.cfg.Clock, next))
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// LoopbackConfig is a client configuration with all rights for clients in this process. Its requests call
// the server directly; it holds no certificates, so it is of no use to another process.
func (s *Server) LoopbackConfig() *rest.Config { return rest.CopyConfig(s.local) }

// Port is the port the server listens on.
func (s *Server) Port() int { return s.address.Port }

// ResolveService finds where a Service answers that a webhook names: at the address of Config.ConversionServices, or one of
// the EndpointSlices of a Service on this server.
func (s *Server) ResolveService(namespace, name string, port int32) (*url.URL, error) {
	return s.services.ResolveEndpoint(namespace, name, port)
}

// URL is where clients on this machine, or elsewhere if the server listens there, reach it.
func (s *Server) URL() string {
	return "https://" + net.JoinHostPort(s.cfg.AdvertiseAddress, strconv.Itoa(s.address.Port))
}

// CA are the certificates, as PEM, that verify the server. Years before an authority ends there are those of its successor, too.
func (s *Server) CA() []byte { return s.keys.authority().PEM }

// PKIDir is the directory of the server's keys and certificates.
func (s *Server) PKIDir() string { return s.cfg.PKIDir }

// AdminKubeconfig is the kubeconfig of an administrator. That of a hub is one of a user whose rights come from RBAC and can
// be taken away there: all of them, at first. That of a member has all rights for good. Its client certificate ends within a
// year: take a new one then, or use WriteKubeconfig.
func (s *Server) AdminKubeconfig() ([]byte, error) {
	if s.cfg.Role == Hub {
		return s.keys.kubeconfig(s.URL(), operatorName)
	}
	return s.keys.kubeconfig(s.URL(), adminName)
}

// writeBreakGlass writes the kubeconfig that RBAC does not bound, for the day when the rights of everybody else are lost.
func (s *Server) writeBreakGlass() error {
	data, err := s.keys.kubeconfig(s.URL(), adminName)
	if err != nil {
		return err
	}
	if err := pki.WriteFile(s.keys.dir.File(breakGlassFile), data, 0o600); err != nil {
		return fmt.Errorf("writing the break-glass kubeconfig: %w", err)
	}
	return nil
}

// WriteKubeconfig writes the admin kubeconfig to a file readable by its owner only, in one step, and
// again whenever the client certificate in it is renewed.
func (s *Server) WriteKubeconfig(path string) error {
	data, err := s.AdminKubeconfig()
	if err != nil {
		return err
	}
	if err := pki.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("writing kubeconfig: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kubeconfigs[path] = struct{}{}
	return nil
}

func (s *Server) rewriteKubeconfigs(ctx context.Context) {
	s.mu.Lock()
	paths := make([]string, 0, len(s.kubeconfigs))
	for path := range s.kubeconfigs {
		paths = append(paths, path)
	}
	s.mu.Unlock()
	for _, path := range paths {
		if err := s.WriteKubeconfig(path); err != nil {
			log.FromContext(ctx).Error(err, "Kubeconfig was not renewed", "path", path)
		}
	}
	if s.cfg.Role == Hub {
		if err := s.writeBreakGlass(); err != nil {
			log.FromContext(ctx).Error(err, "Kubeconfig was not renewed", "path", breakGlassFile)
		}
	}
}

// AddLoop names a control loop in /readyz. The server is ready only while healthy returns nil; it is
// called for every request and must not block.
func (s *Server) AddLoop(name string, healthy func() error) { s.loops.add(name, healthy) }

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
