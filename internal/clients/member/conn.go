package member

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/utils/clock"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/dial"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
	"github.com/flagship-k8s/flagship/internal/clients/member/objectcache"
	"github.com/flagship-k8s/flagship/internal/clients/member/schemas"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
	"github.com/flagship-k8s/flagship/internal/knowledge/skew"
)

// Conn is the connection to one member. It lives as long as its Cluster does, through changes of token, trust and
// address; only a Cluster that was deleted and created again gets another one. All methods may be called from many
// goroutines.
type Conn struct {
	name  string
	uid   types.UID
	clock clock.Clock
	gate  *gate

	config  *rest.Config
	dynamic dynamic.Interface
	meta    metadata.Interface
	disco   *discovery.DiscoveryClient
	patient memberwatch.Client
	mapper  *mapper
	schemas *schemas.Schemas
	control ownership.ControlPlane
	wrap    transport.WrapperFunc

	// Cache has the managed objects of the member.
	*objectcache.Cache
	group    *memberwatch.Group
	accounts *bounds.Accounts

	mu      sync.Mutex
	cluster *clusterv1alpha1.Cluster
	probing bool
	skew    skew.Skew
	wake    chan struct{} // cuts the pause between two probes short
}

// connect makes a connection without using it yet. It ends with ctx or close, whichever comes first.
func connect(ctx context.Context, cluster *clusterv1alpha1.Cluster, cfg Config, turned func(), changed func(objectcache.Change)) (*Conn, error) {
	c := &Conn{name: cluster.Name, uid: cluster.UID, clock: cfg.Clock, cluster: cluster, control: cfg.ControlPlane,
		wake: make(chan struct{}, 1), group: memberwatch.NewGroup(ctx), accounts: bounds.NewAccounts()}
	c.gate = &gate{
		tokens: &tokenCache{clock: cfg.Clock, fetch: func(ctx context.Context) (issued, error) {
			cluster := c.Cluster()
			credential, err := cfg.Credentials(ctx, cluster)
			return issued{credential, addressOf(cluster)}, err
		}},
		timeout: cfg.RequestTimeout,
		slots:   make(chan struct{}, cfg.MaxInFlight),
		rate:    bounds.NewRate(),
		rules:   dial.Rules{AllowLoopback: cfg.AllowLoopback, MayWrite: cfg.mayWrite(cluster.Name)},
	}
	c.gate.breaker = &breaker{cluster: c.name, clock: cfg.Clock, threshold: cfg.FailureThreshold, turned: func() {
		c.probeWhileDown()
		turned()
	}}
	c.wrap = cfg.Wrap
	// The host is only a name in messages: the gate has the real one.
	c.config = &rest.Config{Host: "https://" + cluster.Name, UserAgent: cfg.UserAgent, QPS: -1, WarningHandler: rest.NoWarnings{}}
	var err error
	if c.dynamic, err = dynamic.NewForConfigAndClient(c.config, c.HTTPClient()); err != nil {
		return nil, fmt.Errorf("building the dynamic client: %w", err)
	}
	disco, err := discovery.NewDiscoveryClientForConfigAndClient(c.config, c.HTTPClient())
	if err != nil {
		return nil, fmt.Errorf("building the discovery client: %w", err)
	}
	if c.meta, err = metadata.NewForConfigAndClient(c.config, c.HTTPClient()); err != nil {
		return nil, fmt.Errorf("building the metadata client: %w", err)
	}
	c.disco = disco
	c.mapper = &mapper{
		clock: cfg.Clock, served: disco.ServerResourcesForGroupVersionWithContext,
		described: func(ctx context.Context, group string) (*metav1.APIGroup, error) {
			found := &metav1.APIGroup{}
			return found, disco.RESTClient().Get().AbsPath("/apis", group).Do(ctx).Into(found)
		},
	}
	c.schemas = &schemas.Schemas{Clock: cfg.Clock, Index: func(ctx context.Context) ([]byte, error) {
		raw, err := disco.RESTClient().Get().AbsPath("/openapi/v3").DoRaw(ctx)
		if apierrors.IsNotFound(err) {
			return []byte("{}"), nil
		}
		return raw, err
	}}
	decoding := rest.CopyConfig(c.config)
	decoding.GroupVersion, decoding.NegotiatedSerializer = &corev1.SchemeGroupVersion, scheme.Codecs.WithoutConversion()
	patient, err := rest.RESTClientForConfigAndClient(decoding, c.PatientHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("building the client for watches: %w", err)
	}
	c.patient = memberwatch.NewClient(patient, cfg.lists, c.accounts)
	c.Cache = objectcache.New(objectcache.Config{
		Cluster: c.name, Client: c.patient, Clock: cfg.Clock, Codec: cfg.codec, Group: c.group, Changed: changed, Lost: c.gate.breaker.lost, ControlPlane: cfg.ControlPlane,
		Ordered: cfg.HasWork, Account: c.accounts.Of(bounds.Managed, func() bounds.Amount { return managedBound(cfg.ordered(c.name)) }),
		Get: func(ctx context.Context, resource schema.GroupVersionResource, key types.NamespacedName) (*unstructured.Unstructured, error) {
			return c.dynamic.Resource(resource).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		},
	})
	return c, nil
}

// managedBound is how much of the managed objects of a member is kept whose Works order so much.
func managedBound(ordered bounds.Amount) bounds.Amount {
	most := bounds.Managed.Kept.Plus(ordered.Times(bounds.OfWorks))
	most.Bytes += ordered.Objects * bounds.PerObject
	return most
}

// Accounts are what is kept of what the member sends, and what it has too much of.
func (c *Conn) Accounts() *bounds.Accounts { return c.accounts }

// Name is the name of the Cluster.
func (c *Conn) Name() string { return c.name }

// ControlPlane is the identity under which objects in the member are written.
func (c *Conn) ControlPlane() ownership.ControlPlane { return c.control }

// Cluster is the Cluster as the Fleet read it last. It must not be changed.
func (c *Conn) Cluster() *clusterv1alpha1.Cluster {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cluster
}

// Dynamic is a client for objects of any kind. While the member is unavailable every call fails with an
// UnavailableError; a call without a deadline gets one.
func (c *Conn) Dynamic() dynamic.Interface { return c.dynamic }

// Patient is the client for watches. It holds requests back while the member is unavailable and sends them when it is back. A kind has no
// client of its own: those of all kinds of Kubernetes would be a tenth of what an idle member costs.
func (c *Conn) Patient() memberwatch.Client { return c.patient }

// PatientKube is a client with the properties of Patient. It is made for one use: every call makes a new one, for what needs client-go's.
func (c *Conn) PatientKube() (kubernetes.Interface, error) {
	config := rest.CopyConfig(c.config)
	config.ContentType = runtime.ContentTypeJSON // the values of protobuf are not counted before client-go decodes it
	client, err := kubernetes.NewForConfigAndClient(config, c.PatientHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("building the client for watches: %w", err)
	}
	return client, nil
}

// Discovery is a client for what the member serves, with the properties of Dynamic.
func (c *Conn) Discovery() discovery.DiscoveryInterfaceWithContext { return c.disco }

// Metadata is a client for the metadata of objects of any kind, with the properties of Dynamic.
func (c *Conn) Metadata() metadata.Interface { return c.meta }

// NamespacedKinds reads from the member which namespaced kinds it serves, each in its preferred version. If some groups cannot be
// asked for, the answer has the others, and the error is a discovery.ErrGroupDiscoveryFailed.
func (c *Conn) NamespacedKinds(ctx context.Context) ([]*metav1.APIResourceList, error) {
	lists, err := discovery.ServerPreferredNamespacedResourcesWithContext(ctx, c.disco)
	if err != nil {
		return lists, fmt.Errorf("reading from the member what it serves: %w", err)
	}
	return lists, nil
}

// Schema stands for the fields that the member serves in the kinds of a group version; see schemas.Schemas.ID.
func (c *Conn) Schema(ctx context.Context, gv schema.GroupVersion) (string, error) {
	return c.schemas.ID(ctx, gv)
}

// DynamicAs is Dynamic for requests that the member's API server treats as those of another user. The connections are the
// same. It is made for one use: every call makes a new one, which costs some microseconds and keeps nothing.
func (c *Conn) DynamicAs(user string) (dynamic.Interface, error) {
	as := transport.NewImpersonatingRoundTripper(transport.ImpersonationConfig{UserName: user}, through{c.gate, hasty})
	client, err := dynamic.NewForConfigAndClient(c.config, &http.Client{Transport: as})
	if err != nil {
		return nil, fmt.Errorf("building a client that acts as %s: %w", user, err)
	}
	return client, nil
}

// RESTConfig is for building further clients together with HTTPClient or PatientHTTPClient. It holds no secret and no
// address: the HTTP client has both.
func (c *Conn) RESTConfig() *rest.Config { return rest.CopyConfig(c.config) }

// HTTPClient fails at once, with an UnavailableError, while the member is unavailable.
func (c *Conn) HTTPClient() *http.Client {
	if c.wrap != nil {
		return &http.Client{Transport: c.wrap(through{c.gate, hasty})}
	}
	return &http.Client{Transport: through{c.gate, hasty}}
}

// RenewalHTTPClient sends requests for tokens of service accounts with the renewal token of the credential, for a member that
// does not accept the token any more. It refuses other requests, and fails with ErrNoRenewalToken if there is none.
func (c *Conn) RenewalHTTPClient() *http.Client {
	return &http.Client{Transport: through{c.gate, renewing}}
}

// PatientHTTPClient holds requests back while the member is unavailable and sends them when it is back, as suits a
// watch.
func (c *Conn) PatientHTTPClient() *http.Client {
	return &http.Client{Transport: through{c.gate, patient}}
}

// Health is what is known about the way to the member.
func (c *Conn) Health() Health { return c.gate.breaker.state() }

// ClockAhead is how far the clock of the member was ahead of that of this process at the last probe, negative if it was behind; 0 up to a
// minute. Times that the member has set are compared with the own time after that is taken off.
func (c *Conn) ClockAhead() time.Duration { return c.skew.Ahead() }

// InFlight is how many calls to the member there are at present, watches not counted.
func (c *Conn) InFlight() int { return len(c.gate.slots) }

// Probe reads from the member's /readyz, or from /healthz if it does not serve that, in every state of the circuit breaker, and reports the
// outcome to it. Ready is false with a message if the member answers that it is not ready; an error means that it did not answer, or
// an AccessError that it is not accessed.
func (c *Conn) Probe(ctx context.Context) (ready bool, message string, err error) {
	for _, path := range []string{"/readyz", "/healthz"} {
		code, answer, err := c.probePath(ctx, path)
		switch {
		case err != nil:
			return false, "", err
		case code == http.StatusOK && strings.HasSuffix(answer, ": ok"): // not a page of something in front of it
			err := c.mayIdentify(ctx)
			return err == nil, "", err
		case code == http.StatusUnauthorized:
			return false, "", c.unauthorized()
		}
		message = fmt.Sprintf("%s answers %s", path, answer)
		if code != http.StatusNotFound {
			break
		}
	}
	return false, message, nil
}

// mayIdentify returns an AccessError if the credential has lost its rights: connections on which the member was identified stay open
// then, and everyone may read /readyz. It sends a request only if the member has refused one since the last time.
func (c *Conn) mayIdentify(ctx context.Context) error {
	if c.Cluster().Spec.ID == "" || !c.gate.forbidden.Swap(false) {
		return nil
	}
	code, _, err := c.probePath(ctx, dial.IdentityPath)
	if err != nil {
		c.gate.forbidden.Store(true)
		return err
	}
	if code == http.StatusForbidden { // which has set the mark again
		return accessError(dial.ErrMayNotIdentify)
	}
	return nil
}

// probePath reads from a path of the member. The answer is the status and the beginning of the body.
func (c *Conn) probePath(ctx context.Context, path string) (code int, answer string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.config.Host+path, nil)
	if err != nil {
		return 0, "", fmt.Errorf("building the probe: %w", err)
	}
	req.Header.Set("User-Agent", c.config.UserAgent)
	resp, err := (&http.Client{Transport: through{c.gate, probing}}).Do(req)
	if err != nil {
		return 0, "", fmt.Errorf("reading whether the member is ready: %w", err)
	}
	defer resp.Body.Close()
	c.skew.See(resp.Header, c.clock.Now())
	body, err := io.ReadAll(io.LimitReader(resp.Body, bounds.ProbeBytes))
	if err != nil {
		return 0, "", fmt.Errorf("reading whether the member is ready: %w", err)
	}
	return resp.StatusCode, fmt.Sprintf("%s: %s", bounds.Cut(resp.Status, bounds.NameBytes), bounds.Message(string(bytes.TrimSpace(body)))), nil
}

// unauthorized returns why a member refuses the credential.
func (c *Conn) unauthorized() error {
	if c.gate.tokens.expired() {
		return &clusterv1alpha1.AccessError{Reason: clusterv1alpha1.CredentialsExpiredReason, Message: fmt.Sprintf(
			"the credential has expired and could not be renewed yet; if this persists, run flagship join %s again with a kubeconfig of the cluster", c.name)}
	}
	return &clusterv1alpha1.AccessError{Reason: clusterv1alpha1.CredentialsRefusedReason, Message: fmt.Sprintf(
		"the cluster does not accept the credential, which has not expired; if this persists, run flagship join %s again with a kubeconfig of the cluster", c.name)}
}

const (
	probePause    = time.Second
	maxProbePause = 5 * time.Second
	probeTimeout  = 10 * time.Second
)

// probeWhileDown starts the one loop that finds the end of an outage.
func (c *Conn) probeWhileDown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.probing && c.Health().Down {
		c.probing = true
		c.group.Go(c.probe)
	}
}

func (c *Conn) probe(ctx context.Context) {
	for pause := probePause; c.Health().Down && ctx.Err() == nil; pause = min(2*pause, maxProbePause) {
		timer := c.clock.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C():
		case <-c.wake:
		case <-ctx.Done():
		}
		timer.Stop()
		attempt, cancel := context.WithTimeout(ctx, probeTimeout)
		_, _, _ = c.Probe(attempt) // the outcome goes to the breaker
		cancel()
	}
	c.mu.Lock()
	c.probing = false
	c.mu.Unlock()
	if ctx.Err() == nil {
		c.probeWhileDown() // it may have opened again in between
	}
}

// Refresh drops the cached credential, and tries a member that is down without waiting longer.
func (c *Conn) Refresh() {
	c.gate.tokens.expire()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// update takes over a changed Cluster, and returns whether it has begun to be deleted.
func (c *Conn) update(cluster *clusterv1alpha1.Cluster) (leaving bool) {
	c.mu.Lock()
	leaving = c.cluster.DeletionTimestamp == nil && cluster.DeletionTimestamp != nil
	moved := !addressOf(c.cluster).equal(addressOf(cluster))
	// The credential may be another one, or not be allowed for the new spec.
	changed := moved || c.cluster.Generation != cluster.Generation
	c.cluster = cluster
	c.mu.Unlock()
	if changed {
		c.gate.tokens.expire()
	}
	if moved {
		c.Refresh()
	}
	return leaving
}

func (c *Conn) close() {
	c.group.Close()
	c.gate.close()
}
