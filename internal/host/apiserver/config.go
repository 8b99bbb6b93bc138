package apiserver

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	kubeletclient "k8s.io/kubernetes/pkg/kubelet/client"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/clients/dial"
	"github.com/flagship-k8s/flagship/internal/clients/tunnel"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/access"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/etcd"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/native"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/questions"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/search"
)

// Role is what a server is for.
type Role string

const (
	// Hub is the control plane: it stores workloads meant for other clusters and runs none, so nothing
	// that changes or refuses pods for the sake of the local cluster is on.
	Hub Role = "Hub"
	// Member is an ordinary cluster's API server, with upstream's own defaults.
	Member Role = "Member"
)

// Config is what to run. Only DataDir is required.
type Config struct {
	// Role is Hub or Member; empty means Hub.
	Role Role
	// Name is that of the cluster, the user and the context in kubeconfigs; empty means "flagship".
	Name string
	// DataDir holds etcd's data, keys and the lock file. It is created with mode 0700 if missing.
	DataDir string
	// PKIDir holds keys and certificates; empty means DataDir/pki. Servers that share one etcd need
	// the same authorities, service account key and encryption key: see package pki.
	PKIDir string

	// BindAddress is the IP to listen on; empty means 127.0.0.1.
	BindAddress string
	// Port is the port to listen on; 0 takes a free one. Whoever wants to keep a chosen port across
	// restarts reads it from Server.Port and passes it the next time.
	Port int
	// AdvertiseAddress is the IP that clients elsewhere use; empty means BindAddress, or an address of
	// this machine if that one is unspecified.
	AdvertiseAddress string
	// ServerNames are further DNS names and IPs the serving certificate is valid for.
	ServerNames []string

	// ExternalEtcd uses an etcd that runs elsewhere; nil means one inside this process.
	ExternalEtcd *etcd.External
	// NoFsync lets the embedded etcd trust the kernel to write its data: nothing is lost when the
	// process is killed, something may be when the machine is. For throw-away clusters.
	NoFsync bool
	// StorageQuota bounds the embedded etcd's database, in bytes; 0 means 8 GiB. Beyond it nothing can be written, only
	// read and deleted, until enough was deleted: a hub then accepts writes again, a member's API server after its next start.
	StorageQuota int64

	// ServiceCIDR is the range cluster IPs come from, or two of different families separated by a comma; empty means
	// 10.96.0.0/16,fd00:10:96::/112: a Service of either family, or both, can be a template.
	ServiceCIDR string
	// TracingConfigFile is the path of a TracingConfiguration, as for kube-apiserver; empty means no traces.
	TracingConfigFile string
	// Profiling serves /debug/pprof to users who may get it.
	Profiling bool
	// PlainSecrets stores Secrets of a hub, and the other resources of package encryption, as they are. By default they are
	// encrypted with a key generated into PKIDir; what was written before stays readable either way. A member's are never
	// encrypted.
	PlainSecrets bool
	// EncryptionConfig is the path of an EncryptionConfiguration that a hub loads instead of the built-in one; KMS plugins are
	// possible. It must be able to read what is stored.
	EncryptionConfig string
	// EncryptionConfigReload loads EncryptionConfig again when the file changes.
	EncryptionConfigReload bool
	// Audit is what is recorded of requests to a hub.
	Audit access.Audit
	// Authentication is who else is known to a hub.
	Authentication access.Authentication

	// ConversionServices leads conversion webhooks that name a Service, as NAMESPACE/NAME[:PORT] with port 443 as the default,
	// to HOST:PORT. Services that are not in it are looked up on the server: they need no selector, but EndpointSlices.
	ConversionServices map[string]string
	// RuntimeConfig turns versions of built-in kinds on and off, such as autoscaling/v2=false, as the flag --runtime-config
	// of kube-apiserver does. Without resource.k8s.io/v1 there is neither quota nor an authorizer for nodes: they
	// watch claims in that version.
	RuntimeConfig map[string]string

	// Admission are further plugins, called before the admission webhooks in the given order.
	Admission []access.AdmissionPlugin
	// Authorizer decides before RBAC; nil means that RBAC alone decides.
	Authorizer authorizer.Authorizer
	// Front handles requests before everything else; nil for nothing.
	Front func(http.Handler) http.Handler
	// Pages are answered by path, to whoever may get that path, besides what an API server answers.
	Pages map[string]http.Handler

	// Kubelets sets how a member reaches the kubelets of its nodes; nil means at the addresses of the nodes.
	Kubelets func(*kubeletclient.KubeletClientConfig)
	// DialPods connects to addresses of pods for pods/proxy and services/proxy; nil means through the network.
	DialPods utilnet.DialFunc
	// Group builds the server of a further group of a member, in front of those of custom resources; nil means none.
	Group func(native.Host, genericapiserver.DelegationTarget) (*genericapiserver.GenericAPIServer, error)

	// Answers answer the kinds that are not stored. Hub only.
	Answers questions.Answers

	// Search is what the search API needs. Hub only.
	Search search.Config

	// AllowLoopbackMembers lets Clusters and webhooks have loopback and link-local addresses. Hub only.
	AllowLoopbackMembers bool

	// Tunnels are those that agents of members open; nil refuses them. Hub only.
	Tunnels *tunnel.Tunnels

	// Started is closed when the caller has added its loops: until then /readyz fails. Nil means that it has none.
	Started <-chan struct{}

	// Clock decides when certificates are renewed; nil means the real one.
	Clock clock.WithTicker
}

// WebhookRules are at which addresses webhooks are called: where members may be, and those of ConversionServices.
func (c *Config) WebhookRules() dial.Rules {
	return dial.Rules{AllowLoopback: c.AllowLoopbackMembers, Named: slices.Collect(maps.Values(c.ConversionServices))}
}

// complete checks the config and fills in defaults.
func (c Config) complete() (Config, error) {
	if c.Role == "" {
		c.Role = Hub
	}
	if c.Role != Hub && c.Role != Member {
		return c, fmt.Errorf("unknown role %q", c.Role)
	}
	if c.Name == "" {
		c.Name = "flagship"
	}
	if c.DataDir == "" {
		return c, errors.New("no data directory given")
	}
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return c, fmt.Errorf("resolving the data directory: %w", err)
	}
	c.DataDir = dir
	if c.PKIDir == "" {
		c.PKIDir = filepath.Join(c.DataDir, "pki")
	}
	if c.BindAddress == "" {
		c.BindAddress = "127.0.0.1"
	}
	if c.Audit, err = c.Audit.Complete(c.DataDir); err != nil {
		return c, err
	}
	if c.ServiceCIDR == "" {
		c.ServiceCIDR = "10.96.0.0/16,fd00:10:96::/112"
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if net.ParseIP(c.BindAddress) == nil {
		return c, fmt.Errorf("bind address %q is not an IP address", c.BindAddress)
	}
	if c.AdvertiseAddress == "" {
		c.AdvertiseAddress = advertised(c.BindAddress)
	}
	if net.ParseIP(c.AdvertiseAddress) == nil {
		return c, fmt.Errorf("advertise address %q is not an IP address", c.AdvertiseAddress)
	}
	if c.ExternalEtcd != nil && len(c.ExternalEtcd.Endpoints) == 0 {
		return c, errors.New("external etcd has no endpoints")
	}
	return c, nil
}

// advertised is the bind address itself, or for an unspecified one some address of this machine that
// others can reach, or loopback on a machine without a network.
func advertised(bind string) string {
	ip := net.ParseIP(bind)
	if ip == nil || !ip.IsUnspecified() {
		return bind
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "127.0.0.1"
	}
	for _, address := range addresses {
		network, ok := address.(*net.IPNet)
		if ok && network.IP.IsGlobalUnicast() && (ip.To4() == nil || network.IP.To4() != nil) {
			return network.IP.String()
		}
	}
	return "127.0.0.1"
}
