package member

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/flagship-k8s/flagship/internal/recovery"
)

// Task does what is to be done about one key of one member. A positive duration asks for another turn after it. An
// error asks for one after a backoff that grows with every error in a row; if it is an UnavailableError, the key waits
// for the member instead. A panic counts as an error.
type Task func(ctx context.Context, cluster string, key types.NamespacedName) (time.Duration, error)

// Lanes give every member its own queue and its own workers, so that one that hangs delays nobody else. A lane starts
// with its first key and stays: an idle one is a few parked goroutines.
type Lanes struct {
	name    string
	workers int
	clock   clock.WithTicker
	fleet   *Fleet
	task    Task

	mu      sync.Mutex
	ctx     context.Context // nil until Start
	lanes   map[string]*lane
	running sync.WaitGroup
}

type lane struct {
	cluster string
	queue   workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mu     sync.Mutex
	parked map[types.NamespacedName]struct{} // waiting for the member
}

const (
	retryPause    = 25 * time.Millisecond
	maxRetryPause = time.Minute
)

// NewLanes returns lanes with a number of workers each. Name tells them apart in logs. Nothing runs until Start.
func NewLanes(name string, fleet *Fleet, clock clock.WithTicker, workers int, task Task) *Lanes {
	l := &Lanes{name: name, workers: workers, clock: clock, fleet: fleet, task: task, lanes: map[string]*lane{}}
	fleet.Subscribe(l.Wake)
	return l
}

// Start runs the lanes until ctx ends and every worker came back. Keys added before are not lost.
func (l *Lanes) Start(ctx context.Context) error {
	l.mu.Lock()
	l.ctx = ctx
	for _, lane := range l.lanes {
		l.run(lane)
	}
	l.mu.Unlock()
	<-ctx.Done()
	l.mu.Lock()
	for _, lane := range l.lanes {
		lane.queue.ShutDown()
	}
	l.mu.Unlock()
	l.running.Wait()
	return nil
}

// Add queues a key; one that is queued already is not queued twice.
func (l *Lanes) Add(cluster string, key types.NamespacedName) { l.lane(cluster).queue.Add(key) }

// AddAfter queues a key after a while.
func (l *Lanes) AddAfter(cluster string, key types.NamespacedName, after time.Duration) {
	l.lane(cluster).queue.AddAfter(key, after)
}

// Len is how many keys wait, in all lanes: for their turn, or for their member.
func (l *Lanes) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, lane := range l.lanes {
		lane.mu.Lock()
		n += lane.queue.Len() + len(lane.parked)
		lane.mu.Unlock()
	}
	return n
}

// Wake queues the keys that wait for a member. The fleet does it when the member's health or connection changes.
func (l *Lanes) Wake(cluster string) {
	l.mu.Lock()
	lane := l.lanes[cluster]
	l.mu.Unlock()
	if lane == nil {
		return
	}
	lane.mu.Lock()
	parked := lane.parked
	lane.parked = nil
	lane.mu.Unlock()
	for key := range parked {
		lane.queue.Add(key)
	}
}

func (l *Lanes) lane(cluster string) *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	if found, ok := l.lanes[cluster]; ok {
		return found
	}
	// Per key only: client-go's default limiter also has one bucket for all keys.
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](retryPause, maxRetryPause)
	made := &lane{cluster: cluster, queue: workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{Clock: l.clock})}
	l.lanes[cluster] = made
	if l.ctx != nil {
		l.run(made)
	}
	return made
}

// run starts the workers of a lane. The lock is held.
func (l *Lanes) run(lane *lane) {
	ctx := l.ctx
	if ctx.Err() != nil {
		lane.queue.ShutDown()
		return
	}
	for range l.workers {
		l.running.Go(func() {
			for l.next(ctx, lane) {
			}
		})
	}
}

func (l *Lanes) next(ctx context.Context, lane *lane) bool {
	key, shutdown := lane.queue.Get()
	if shutdown {
		return false
	}
	defer lane.queue.Done(key)
	logger := log.FromContext(ctx).WithName(l.name).WithValues("cluster", lane.cluster, "work", key)
	var again time.Duration
	// Objects of members are arbitrary: one that makes the task panic must not end the process.
	err := recovery.Do(func() (err error) {
		again, err = l.task(log.IntoContext(ctx, logger), lane.cluster, key)
		return err
	})
	var unavailable *UnavailableError
	switch {
	case errors.As(err, &unavailable):
		lane.queue.Forget(key)
		l.park(lane, key)
	case err != nil:
		logFailure(logger, err, lane.queue.NumRequeues(key)+1)
		lane.queue.AddRateLimited(key)
	default:
		lane.queue.Forget(key)
		if again > 0 {
			lane.queue.AddAfter(key, again)
		}
	}
	return true
}

// logFailure logs the first failure of a key and then the second, fourth, eighth and so on, so that a key that fails for an
// hour is in the log several times, and not every minute. A conflict is no failure until it happens again: it means that a
// cache was behind.
func logFailure(logger logr.Logger, err error, failures int) {
	var panicked *recovery.PanicError
	switch {
	case failures&(failures-1) != 0, failures == 1 && apierrors.IsConflict(err):
		logger.V(1).Info("Trying again later", "reason", err.Error(), "failures", failures)
	case errors.As(err, &panicked):
		logger.Error(err, "The task panicked, trying again later", "failures", failures, "stack", string(panicked.Stack))
	default:
		logger.Info("The task failed, trying again later", "reason", err.Error(), "failures", failures)
	}
}

// park keeps a key until the member's health changes. If it did so while the key was worked on, that is now.
func (l *Lanes) park(lane *lane, key types.NamespacedName) {
	lane.mu.Lock()
	if lane.parked == nil {
		lane.parked = map[types.NamespacedName]struct{}{}
	}
	lane.parked[key] = struct{}{}
	lane.mu.Unlock()
	if conn, ok := l.fleet.Get(lane.cluster); ok && !conn.Health().Down {
		l.Wake(lane.cluster)
	}
}
