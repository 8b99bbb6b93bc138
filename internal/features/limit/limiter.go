package limit

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// Stored counts what is stored in each namespace, without Works.
type Stored interface {
	// Of is not known until everything was counted once.
	Of(namespace string) (objects, bytes int64, known bool)
	// Each calls visit, which must return quickly, for every namespace in which something is stored.
	Each(visit func(namespace string, objects, bytes int64))
}

// Deps is what limits need of others. All are required.
type Deps struct {
	// Limits returns those of namespaces without limits of their own. It is a function because they may change meanwhile.
	Limits func() Limits
	Stored Stored
	// StorageSize returns the size of the database and its quota, in bytes; a quota of 0 is not known. It is a function because the API
	// server has the database, and features do not import it.
	StorageSize func(ctx context.Context) (used, quota int64, err error)
	Client      client.Reader
	Events      events.Recorder
	Metrics     prometheus.Registerer
	Clock       clock.WithTicker
}

// Limiter keeps the usage of each namespace, and its limits. Its methods may be called from several goroutines, and
// answer from memory.
type Limiter struct {
	deps     Deps
	refusals *prometheus.CounterVec
	// storageShare is that of the quota of storage, as of the last look; nil if it is not known.
	storageShare atomic.Pointer[float64]
	// synced is set when all Works were counted once.
	synced func() bool

	mu sync.RWMutex
	// inWorks is what Works take, by the namespace of their binding.
	inWorks map[string]Usage
	// records is what is recorded of members, by execution namespace.
	records map[string]Usage
	// own has the limits that Namespaces have by their annotations; 0 is one that they do not have.
	own map[string]Limits
	// waiting are the namespaces with bindings that wait for space, with how often they are woken once there is some.
	waiting map[string]int
	// wake renders bindings of a namespace that wait; see OnSpace.
	wake []func(namespace string) (more bool)
}

// wakes is how often a namespace is woken. The condition of a binding that was refused just before the first time may not be in the cache then.
const wakes = 2

// New makes a Limiter.
func New(deps Deps) *Limiter {
	l := &Limiter{
		deps: deps, synced: func() bool { return false },
		inWorks: map[string]Usage{}, records: map[string]Usage{}, own: map[string]Limits{}, waiting: map[string]int{},
	}
	l.register(deps.Metrics)
	return l
}

// Setup has the Limiter follow Works and Namespaces in every replica, since each of them admits requests, and adds the loop
// that warns, which one of them runs.
func (l *Limiter) Setup(ctx context.Context, mgr manager.Manager) error {
	works, _, err := hubclient.Follow(ctx, mgr.GetCache(), l.workChanged)
	if err != nil {
		return err
	}
	namespaces, _, err := hubclient.Follow(ctx, mgr.GetCache(), l.namespaceChanged)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.synced = func() bool { return works() && namespaces() }
	l.mu.Unlock()
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return l.run(ctx, controlloop.Of(mgr)) }))
}

// namespaceChanged keeps the limits that a namespace has of its own.
func (l *Limiter) namespaceChanged(before, after *corev1.Namespace, _ bool) {
	var limits Limits
	if after != nil {
		limits, _ = parse(after.Annotations) // admission refuses what cannot be read
	}
	name := cmp.Or(after, before).Name
	l.mu.Lock()
	defer l.mu.Unlock()
	if limits == (Limits{}) {
		delete(l.own, name)
	} else {
		l.own[name] = limits
	}
}

// CheckUser returns an *Exceeded if a user must not create an object in a namespace, or make one larger there. While the
// usage is not known, during the first seconds of a control plane, nothing is refused: to refuse would stop every write.
func (l *Limiter) CheckUser(namespace string, creates bool, grows func() bool) error {
	exceeded := l.check(namespace, creates, grows)
	if exceeded == nil {
		return nil
	}
	return fmt.Errorf("%w; %d are stored", l.refuse(exceeded), exceeded.Used)
}

// CheckWork returns an *Exceeded if a Work of a namespace must not be created or made larger. The bindings that it concerns
// are woken when there is space.
func (l *Limiter) CheckWork(namespace string, before, after *workv1alpha1.Work) error {
	exceeded := l.check(namespace, before == nil, func() bool { return SizeOf(after) > SizeOf(before) })
	if exceeded != nil {
		l.mu.Lock()
		l.waiting[namespace] = wakes
		l.mu.Unlock()
		return l.refuse(exceeded)
	}
	return nil
}

func (l *Limiter) check(namespace string, creates bool, grows func() bool) *Exceeded {
	if namespace == "" || hubstore.ReservedNamespace(namespace) {
		return nil
	}
	usage, limits, known := l.of(namespace)
	if !known {
		return nil
	}
	return limits.check(namespace, usage, creates, grows)
}

// refuse counts a refusal.
func (l *Limiter) refuse(exceeded *Exceeded) error {
	if exceeded.Bytes {
		l.refusals.WithLabelValues("bytes").Inc()
	} else {
		l.refusals.WithLabelValues("objects").Inc()
	}
	return exceeded
}

// of returns what is stored for a namespace, and its limits.
func (l *Limiter) of(namespace string) (usage Usage, limits Limits, known bool) {
	usage.Objects, usage.Bytes, known = l.deps.Stored.Of(namespace)
	l.mu.RLock()
	defer l.mu.RUnlock()
	limits = l.own[namespace].or(l.deps.Limits())
	return usage.plus(l.inWorks[namespace]), limits, known && l.synced()
}

// standing is the usage of one namespace.
type standing struct {
	namespace string
	usage     Usage
	limits    Limits
	share     float64
}

// all lists the usage of all namespaces that have limits.
func (l *Limiter) all() []standing {
	sums, defaults := map[string]Usage{}, l.deps.Limits()
	l.deps.Stored.Each(func(namespace string, objects, bytes int64) { sums[namespace] = Usage{objects, bytes} })
	l.mu.RLock()
	defer l.mu.RUnlock()
	for namespace, usage := range l.inWorks {
		sums[namespace] = sums[namespace].plus(usage)
	}
	standings := make([]standing, 0, len(sums))
	for namespace, usage := range sums {
		if hubstore.ReservedNamespace(namespace) {
			continue
		}
		limits := l.own[namespace].or(defaults)
		standings = append(standings, standing{namespace, usage, limits, limits.share(usage)})
	}
	return standings
}

// OnSpace has wake called, every few seconds, for a namespace that was at its limit and is below it, until wake returns that
// nothing more waits.
func (l *Limiter) OnSpace(wake func(namespace string) (more bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wake = append(l.wake, wake)
}
