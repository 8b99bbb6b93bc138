package memberqueue

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/fairqueue"
)

// ReconcileFunc does what is to be done about one key of one member. After a positive duration it is called again. After an
// error it is called again after a backoff that grows with every error in a row; if it is an UnavailableError, the key waits
// for the member instead. A panic counts as an error.
type ReconcileFunc func(ctx context.Context, cluster string, key types.NamespacedName) (time.Duration, error)

// Queues give every member its own queue and its own workers, so that one that hangs delays no other. A queue starts with its
// first key. It ends when its member has no connection any more and no key is left. Workers run while there are keys: a member for
// which there is nothing to do has no goroutine.
type Queues struct {
	name      string
	workers   int
	clock     clock.WithTicker
	fleet     *member.Fleet
	reconcile ReconcileFunc
	loop      *controlloop.Loop
	measure   *controlloop.Queue
	// later has the keys of all members that are to be queued after a while. One for all, since each has a goroutine and a buffer.
	later workqueue.TypedDelayingInterface[memberKey]

	mu      sync.Mutex
	members map[string]*memberQueue
	launch  func(*memberQueue) // starts a worker; nil before Start and after its end
	ended   bool
}

// memberKey is a key of a member.
type memberKey struct {
	cluster string
	types.NamespacedName
}

// places has where the keys wait that were not reconciled yet, or only with an error. It has a lock of its own, since the queue reads it with its
// lock held.
type places struct {
	mu   sync.Mutex
	keys map[types.NamespacedName]fairqueue.Place
}

// first is the class of the keys of AddFirst.
const first = "first"

// put sets where a key waits. One of AddFirst stays one, and one of a tenant that of the tenant.
func (p *places) put(key types.NamespacedName, place fairqueue.Place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	had := p.keys[key]
	place.Class, place.Group = cmp.Or(place.Class, had.Class), cmp.Or(place.Group, had.Group)
	if place != (fairqueue.Place{}) {
		p.keys[key] = place
	}
}

// take removes a key, and returns where it waited.
func (p *places) take(key types.NamespacedName) fairqueue.Place {
	p.mu.Lock()
	defer p.mu.Unlock()
	place := p.keys[key]
	delete(p.keys, key)
	return place
}

// of is where a key waits.
func (p *places) of(key types.NamespacedName) fairqueue.Place {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys[key]
}

type memberQueue struct {
	cluster string
	queue   workqueue.TypedInterface[types.NamespacedName]
	order   *fairqueue.Order[types.NamespacedName]
	places  *places
	backoff workqueue.TypedRateLimiter[types.NamespacedName]

	mu sync.Mutex
	// workers is how many run. A key is taken from the queue with the lock held, so that no worker waits for one.
	workers int
	// due has the keys that are in the queue or will be added to it, with the time from which they wait for a worker.
	due    map[types.NamespacedName]time.Time
	parked map[types.NamespacedName]struct{} // waiting for the member
	active int                               // tasks that run
	wakes  uint64                            // how often parked keys were queued again
}

// New returns queues with a number of workers each. Name distinguishes them in logs, metrics and /readyz. Nothing runs until
// Start.
func New(name string, fleet *member.Fleet, clock clock.WithTicker, workers int, task ReconcileFunc) *Queues {
	l := &Queues{
		name: name, workers: workers, clock: clock, fleet: fleet, reconcile: task, loop: fleet.Loop(name), members: map[string]*memberQueue{},
		later: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[memberKey]{Clock: clock}),
	}
	l.measure = l.loop.Queue(l.Len)
	fleet.Subscribe(func(cluster string) {
		l.Wake(cluster)
		l.retire(cluster)
	})
	return l
}

// Start runs the workers until ctx ends and every worker came back. Keys added before are not lost.
func (l *Queues) Start(ctx context.Context) error {
	var running sync.WaitGroup
	l.mu.Lock()
	l.launch = func(q *memberQueue) {
		running.Go(func() {
			for l.next(ctx, q) {
			}
		})
	}
	for _, q := range l.members {
		l.work(q)
	}
	l.mu.Unlock()
	running.Go(func() {
		for l.forward() {
		}
	})
	<-ctx.Done()
	l.mu.Lock()
	l.ended, l.launch = true, nil
	for _, q := range l.members {
		q.queue.ShutDown()
	}
	l.mu.Unlock()
	l.later.ShutDown()
	running.Wait()
	return nil
}

// forward queues one key whose time has come. It returns false after the end.
func (l *Queues) forward() bool {
	key, shutdown := l.later.Get()
	if shutdown {
		return false
	}
	defer l.later.Done(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.members[key.cluster]; q != nil && q.isDue(key.NamespacedName) {
		l.enqueue(q, key.NamespacedName)
	}
	return true
}

// enqueue adds a key to a queue, and starts a worker if fewer run than may. The lock is held.
func (l *Queues) enqueue(q *memberQueue, key types.NamespacedName) {
	q.queue.Add(key)
	l.work(q)
}

// work starts as many workers as there are keys, up to the number that a member may have: one while the reconciles of other members wait. The
// lock is held.
func (l *Queues) work(q *memberQueue) {
	if l.launch == nil {
		return
	}
	most := l.workers
	if l.loop.Contended() {
		most = 1 // twelve thousand that wait take 10 kB each
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for range min(most-q.workers, q.queue.Len()) {
		q.workers++
		l.launch(q)
	}
}

// Add queues a key; one that is queued already is not queued twice. What was never added for a tenant is that of one more tenant.
func (l *Queues) Add(cluster string, key types.NamespacedName) {
	l.add(cluster, key, fairqueue.Place{})
}

// AddFor queues a key of a tenant, which is the namespace of a template. The keys of tenants take turns: one that has changed hundreds of objects,
// or large ones, delays another by one of them.
func (l *Queues) AddFor(cluster, tenant string, key types.NamespacedName) {
	l.add(cluster, key, fairqueue.Place{Group: tenant})
}

// AddFirst queues the key of a tenant's object that was changed just now. The keys of AddFirst take turns with all others until they were reconciled
// without an error: after a restart, or when a member can be reached again, a change does not wait for thousands of objects that are unchanged.
func (l *Queues) AddFirst(cluster, tenant string, key types.NamespacedName) {
	l.add(cluster, key, fairqueue.Place{Class: first, Group: tenant})
}

func (l *Queues) add(cluster string, key types.NamespacedName, place fairqueue.Place) {
	l.measure.Added()
	l.mu.Lock() // a queue does not end while a key is added to it
	defer l.mu.Unlock()
	q := l.forMember(cluster)
	q.places.put(key, place)
	q.await(key, l.clock.Now())
	l.enqueue(q, key)
}

// AddAfter queues a key after a while.
func (l *Queues) AddAfter(cluster string, key types.NamespacedName, after time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addAfter(l.forMember(cluster), key, after)
}

func (l *Queues) addAfter(q *memberQueue, key types.NamespacedName, after time.Duration) {
	q.await(key, l.clock.Now().Add(after))
	l.later.AddAfter(memberKey{q.cluster, key}, after)
}

// await records since when a key waits for a worker, unless it does already.
func (l *memberQueue) await(key types.NamespacedName, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.due[key]; !ok || since.Before(at) {
		l.due[key] = since
	}
}

// isDue returns whether a key waits for a worker. If not, a reconcile began since its time was set, and decided when the next one is.
func (l *memberQueue) isDue(key types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.due[key]
	return ok
}

// Len is how many keys wait, in all queues: for their turn, or for their member.
func (l *Queues) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, q := range l.members {
		q.mu.Lock()
		n += q.queue.Len() + len(q.parked)
		q.mu.Unlock()
	}
	return n
}

// Wake queues the keys that wait for a member. The fleet does it when the member's health or connection changes.
func (l *Queues) Wake(cluster string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.members[cluster]
	if q == nil {
		return
	}
	q.mu.Lock()
	parked := q.parked
	q.parked = nil
	q.wakes++
	q.mu.Unlock()
	for key := range parked {
		q.await(key, l.clock.Now())
		l.enqueue(q, key)
	}
}

// retire ends the queue of a member that has no connection, if no key is left: a control plane that many members came to and
// went from keeps nothing of them.
func (l *Queues) retire(cluster string) {
	if _, ok := l.fleet.Get(cluster); ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.members[cluster]
	if q == nil {
		return
	}
	q.mu.Lock()
	idle := len(q.due) == 0 && len(q.parked) == 0 && q.active == 0
	q.mu.Unlock()
	if idle {
		q.queue.ShutDown()
		delete(l.members, cluster)
	}
}

// forMember returns the queue of a member. The lock is held.
func (l *Queues) forMember(cluster string) *memberQueue {
	if found, ok := l.members[cluster]; ok {
		return found
	}
	places := &places{keys: map[types.NamespacedName]fairqueue.Place{}}
	order := fairqueue.NewOrder(places.of)
	made := &memberQueue{
		cluster: cluster, places: places, order: order, due: map[types.NamespacedName]time.Time{},
		queue:   workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[types.NamespacedName]{Clock: l.clock, Queue: order}),
		backoff: backoff.Limiter[types.NamespacedName](),
	}
	l.members[cluster] = made
	if l.ended {
		made.queue.ShutDown()
	}
	return made
}

// take returns a key to work on, and how often parked keys had been queued again by then. Without a key the worker ends.
func (l *Queues) take(q *memberQueue) (key types.NamespacedName, wakes uint64, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.queue.Len() == 0 {
		q.workers--
		return key, 0, false
	}
	key, _ = q.queue.Get()
	q.active++
	if since, ok := q.due[key]; ok {
		delete(q.due, key)
		l.measure.Waited(max(0, l.clock.Since(since)))
	}
	return key, q.wakes, true
}

// done ends what take began.
func (l *Queues) done(q *memberQueue, key types.NamespacedName) {
	q.queue.Done(key)
	q.mu.Lock()
	q.active--
	q.mu.Unlock()
	l.mu.Lock()
	l.work(q) // others may not wait any more
	l.mu.Unlock()
	l.retire(q.cluster)
}

func (l *Queues) next(ctx context.Context, q *memberQueue) bool {
	key, wakes, ok := l.take(q)
	if !ok {
		return false
	}
	defer l.done(q, key)
	place := q.places.take(key)
	logger := log.FromContext(ctx).WithName(l.name).WithValues("cluster", q.cluster, "work", key)
	var again time.Duration
	err := l.loop.Do(log.IntoContext(ctx, logger), q.cluster+" "+key.String(), func(ctx context.Context) (err error) {
		begun := l.clock.Now()
		again, err = l.reconcile(ctx, q.cluster, key)
		q.order.Charge(place, l.clock.Since(begun))
		return err
	})
	if err != nil {
		q.places.put(key, place) // it is still to be done
	} else if again > 0 {
		q.places.put(key, fairqueue.Place{Group: place.Group})
	}
	var unavailable *member.UnavailableError
	switch {
	case errors.As(err, &unavailable):
		q.backoff.Forget(key)
		l.park(q, key, wakes)
	case err != nil:
		failures := q.backoff.NumRequeues(key) + 1
		// A conflict is no failure until it happens again: it means that a cache was behind.
		controlloop.LogFailure(logger, err, failures, failures == 1 && apierrors.IsConflict(err))
		l.measure.Retried()
		l.addAfter(q, key, q.backoff.When(key))
	default:
		q.backoff.Forget(key)
		if again > 0 {
			l.measure.Retried()
			l.addAfter(q, key, again)
		}
	}
	return true
}

// park keeps a key until the member's health or connection changes. If that happened since its reconcile began, the key is queued
// again at once: nothing else would wake it.
func (l *Queues) park(q *memberQueue, key types.NamespacedName, wakes uint64) {
	q.mu.Lock()
	missed := q.wakes != wakes
	if !missed {
		if q.parked == nil {
			q.parked = map[types.NamespacedName]struct{}{}
		}
		q.parked[key] = struct{}{}
	}
	q.mu.Unlock()
	if missed {
		l.Add(q.cluster, key)
		return
	}
	if conn, ok := l.fleet.Get(q.cluster); ok && !conn.Health().Down {
		l.Wake(q.cluster)
	}
}
