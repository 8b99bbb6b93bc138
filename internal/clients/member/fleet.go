package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/transport"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member/objectcache"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
)

// Config is the configuration of a Fleet.
type Config struct {
	// Credentials returns the credential for a member. It is a function because the control plane reads it from Secrets, an agent from
	// its own service account. Required.
	Credentials CredentialsFunc
	// ControlPlane is the identity under which objects in members are written. Default: that of versions without an id.
	ControlPlane ownership.ControlPlane
	// Serves returns whether a Cluster gets a connection. It is a function because an agent connects to its own cluster. Default: those
	// in Push mode.
	Serves func(*clusterv1alpha1.Cluster) bool
	// AllowLoopback connects to members at loopback and link-local addresses, too.
	AllowLoopback bool
	// MayWrite returns an error while another process may write to a member: then nothing is sent to it. It is a function because the
	// Leases of servers belong to their host. Default: nil, which always allows it.
	MayWrite func(cluster string) error
	// Clock defaults to the real one.
	Clock clock.WithDelayedExecution
	// UserAgent is sent with every request. Default "flagship".
	UserAgent string
	// RequestTimeout is the deadline of a call that has none of its own. Default 10 s.
	RequestTimeout time.Duration
	// MaxInFlight bounds the calls to one member at a time, watches not counted. Default 32.
	MaxInFlight int
	// FailureThreshold is how many failures in a row make a member unavailable. Default 3.
	FailureThreshold int
	// Wrap is put around the transport of requests to members, watches not included. Nil: nothing.
	Wrap transport.WrapperFunc
	// HasWork returns whether there is a Work. Of an object in a member that names another one little is kept. It is a function because the
	// Works are in the caches of the host. Default: there is every Work.
	HasWork func(work types.NamespacedName) bool
	// Loops has the loops that Queues belong to. Default: one that nothing measures.
	Loops *controlloop.Set

	lists *controlloop.Limiter // of all members
	codec *objectcache.Codec   // of all members
	// ordered is how much the Works of a cluster order.
	ordered func(cluster string) bounds.Amount
}

// A control plane that starts lists seven kinds in each member. Without a limit it would hold the decoded objects of all at a time.
const (
	listsPerProcessor = 8
	// longestList is short, so that the lists of members that do not answer delay those of others little.
	longestList = time.Second
)

func (c Config) withDefaults() (_ Config, err error) {
	if c.Credentials == nil {
		return c, errors.New("a fleet needs Credentials")
	}
	if c.Serves == nil {
		c.Serves = func(cluster *clusterv1alpha1.Cluster) bool { return cluster.Spec.SyncMode == clusterv1alpha1.Push }
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Loops == nil {
		c.Loops = controlloop.NewSet(nil, c.Clock)
	}
	c.lists = controlloop.NewLimiter(c.Clock, listsPerProcessor, longestList)
	if c.UserAgent == "" {
		c.UserAgent = ownership.FieldManager
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = 10 * time.Second
	}
	if c.MaxInFlight == 0 {
		c.MaxInFlight = 32
	}
	if c.FailureThreshold == 0 {
		c.FailureThreshold = 3
	}
	c.codec, err = objectcache.NewCodec()
	return c, err
}

// Fleet holds one Conn per Cluster it serves. Package memberfeed gives it the Clusters.
type Fleet struct {
	config Config

	mu          sync.RWMutex
	conns       map[string]*Conn
	orders      map[string]bounds.Amount // of the Works of each cluster
	subscribers []func(name string)
	watchers    []func(objectcache.Change)
}

// NewFleet returns an empty fleet, or an error for an incomplete configuration.
func NewFleet(config Config) (*Fleet, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	f := &Fleet{config: config, conns: map[string]*Conn{}, orders: map[string]bounds.Amount{}}
	f.config.ordered = func(cluster string) bounds.Amount {
		f.mu.RLock()
		defer f.mu.RUnlock()
		return f.orders[cluster]
	}
	return f, nil
}

// Ordered counts what a Work orders that is new, changed or gone; nil is none. A member may have a multiple of that kept.
func (f *Fleet) Ordered(before, after *workv1alpha1.Work) {
	key := client.ObjectKeyFromObject(cmp.Or(after, before))
	cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(key.Namespace)
	if !ok {
		return
	}
	change := orderOf(after).Minus(orderOf(before))
	f.mu.Lock()
	if f.orders[cluster] = f.orders[cluster].Plus(change); f.orders[cluster] == (bounds.Amount{}) {
		delete(f.orders, cluster)
	}
	conn := f.conns[cluster]
	f.mu.Unlock()
	if before == nil && conn != nil {
		conn.Appeared(key)
	}
}

func orderOf(work *workv1alpha1.Work) (order bounds.Amount) {
	if work == nil || workv1alpha1.IsRecord(work) {
		return order
	}
	for _, manifest := range work.Spec.Workload.Manifests {
		order = order.Plus(bounds.Amount{Objects: 1, Bytes: int64(len(manifest.Raw))})
	}
	return order
}

// mayWrite is MayWrite for one cluster.
func (c Config) mayWrite(cluster string) func() error {
	if c.MayWrite == nil {
		return nil
	}
	return func() error { return c.MayWrite(cluster) }
}

// Get returns the connection to a cluster, and false if there is none: the Cluster is unknown, or not served here.
func (f *Fleet) Get(name string) (*Conn, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	c, ok := f.conns[name]
	return c, ok
}

// ControlPlane is the identity under which objects in members are written.
func (f *Fleet) ControlPlane() ownership.ControlPlane { return f.config.ControlPlane }

// Loop is the control loop of a name, in the process of the fleet.
func (f *Fleet) Loop(name string) *controlloop.Loop { return f.config.Loops.Loop(name) }

// Serves returns whether a Cluster gets a connection here.
func (f *Fleet) Serves(cluster *clusterv1alpha1.Cluster) bool { return f.config.Serves(cluster) }

// Names lists the clusters that have a connection, in no particular order.
func (f *Fleet) Names() []string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return slices.Collect(maps.Keys(f.conns))
}

// Subscribe has s called with the name of a cluster whenever its connection appeared, disappeared, or turned down or up, and when its
// Cluster begins to be deleted; and at once for every connection that exists. S must not block; it may be called from several
// goroutines at once.
func (f *Fleet) Subscribe(s func(name string)) {
	f.mu.Lock()
	f.subscribers = append(f.subscribers, s)
	f.mu.Unlock()
	for _, name := range f.Names() {
		s(name)
	}
}

// OnChange has w called for every change of a managed object that is watched, and at once for every object that is known, as one that
// was listed. W must not block. Changes of one resource in one member come in order.
func (f *Fleet) OnChange(w func(objectcache.Change)) {
	f.mu.Lock()
	f.watchers = append(f.watchers, w)
	conns := slices.Collect(maps.Values(f.conns))
	f.mu.Unlock()
	for _, conn := range conns {
		conn.Replay(w)
	}
}

// Upsert makes the connection to a cluster what the Cluster specifies. It never waits for the member. Connections outlive
// ctx's cancellation; Remove or Close ends them.
func (f *Fleet) Upsert(ctx context.Context, cluster *clusterv1alpha1.Cluster) error {
	if !f.config.Serves(cluster) {
		f.Remove(cluster.Name)
		return nil
	}
	f.mu.Lock()
	old, exists := f.conns[cluster.Name]
	if exists && old.uid == cluster.UID {
		f.mu.Unlock()
		if old.update(cluster) {
			f.notify(cluster.Name)
		}
		return nil
	}
	conn, err := connect(context.WithoutCancel(ctx), cluster, f.config, func() { f.notify(cluster.Name) }, f.publish)
	if err != nil {
		f.mu.Unlock()
		return fmt.Errorf("connecting to cluster %s: %w", cluster.Name, err)
	}
	f.conns[cluster.Name] = conn
	f.mu.Unlock()
	if exists {
		old.close()
	}
	f.notify(cluster.Name)
	return nil
}

// Remove ends the connection to a cluster, if there is one.
func (f *Fleet) Remove(name string) {
	f.mu.Lock()
	conn, exists := f.conns[name]
	delete(f.conns, name)
	f.mu.Unlock()
	if exists {
		conn.close()
		f.notify(name)
	}
}

// Refresh makes the connection read its credential again, and tries a member that is down without waiting longer.
// What renews or creates a credential calls it; without the call the change is read within a minute or two.
func (f *Fleet) Refresh(name string) {
	if conn, ok := f.Get(name); ok {
		conn.Refresh()
	}
}

// Close ends all connections without calling subscribers.
func (f *Fleet) Close() {
	f.mu.Lock()
	conns := f.conns
	f.conns = map[string]*Conn{}
	f.mu.Unlock()
	for _, conn := range conns {
		conn.close()
	}
}

func (f *Fleet) notify(name string) {
	f.mu.RLock()
	subscribers := f.subscribers
	f.mu.RUnlock()
	for _, s := range subscribers {
		s(name)
	}
}

func (f *Fleet) publish(change objectcache.Change) {
	f.mu.RLock()
	watchers := f.watchers
	f.mu.RUnlock()
	for _, w := range watchers {
		w(change)
	}
}
