package workstatus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// Source is who reports. Within one write mutations run in this order, so that observe can build on what apply says.
type Source int

// The sources.
const (
	Apply Source = iota
	Observe
	// Deputy speaks about the Works of a member that another process applies to and observes, while that cannot be heard.
	// It adds nothing that the other left out.
	Deputy
	sources int = iota
)

// Mutation changes the status of a Work to what its source knows. It is the whole of what the source has to say, not a
// difference: a later one of the same source replaces it, and it may run more than once, on different statuses. It must
// not change anything but the status.
type Mutation func(work *workv1alpha1.Work, status *workv1alpha1.WorkStatus)

// Config is what a Writer needs.
type Config struct {
	// Client reads Works from a cache and writes their status. Required.
	Client client.Client
	// Live reads a Work past the cache, after a conflict. Required.
	Live client.Reader
	// Clock defaults to the real one.
	Clock clock.WithTicker
	// Window is how long to collect after the first mutation of a Work. Default 50 ms.
	Window time.Duration
	// Workers is how many writes may be under way at a time. Default 16.
	Workers int
	// Loop is the loop that writing belongs to. Default: one that nothing measures.
	Loop *controlloop.Loop
}

// Writer collects mutations and writes. It is a manager.Runnable.
type Writer struct {
	loop    *controlloop.Loop
	measure *controlloop.Queue
	client  client.Client
	live    client.Reader
	window  time.Duration
	workers int
	queue   workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mu          sync.Mutex
	pending     map[types.NamespacedName]*[sources]Mutation
	written     map[types.NamespacedName]*workv1alpha1.Work // until the cache has caught up
	busy        int                                         // keys being written
	idle        *sync.Cond
	subscribers []func(types.NamespacedName, Source)
}

const (
	// recall is when to look whether the cache has caught up with a write.
	recall = 2 * time.Second
	// farewell is how long shutdown may take to write what is pending.
	farewell = 5 * time.Second
	// attempts is how often one write is tried against conflicts before it goes back to the queue.
	attempts = 3

	retryPause    = 100 * time.Millisecond
	maxRetryPause = 30 * time.Second
)

// New returns a writer, or an error for an incomplete configuration. Nothing is written until Start.
func New(config Config) (*Writer, error) {
	if config.Client == nil || config.Live == nil {
		return nil, errors.New("a status writer needs a client and a live reader")
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	if config.Window == 0 {
		config.Window = 50 * time.Millisecond
	}
	if config.Workers == 0 {
		config.Workers = 16
	}
	if config.Loop == nil {
		config.Loop = controlloop.NewSet(nil, config.Clock).Loop("report")
	}
	w := &Writer{
		loop: config.Loop, client: config.Client, live: config.Live, window: config.Window, workers: config.Workers,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](retryPause, maxRetryPause),
			workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{Clock: config.Clock}),
		pending: map[types.NamespacedName]*[sources]Mutation{},
		written: map[types.NamespacedName]*workv1alpha1.Work{},
	}
	w.idle = sync.NewCond(&w.mu)
	w.measure = w.loop.Queue(w.queue.Len)
	return w, nil
}

// Update takes note of what a source has to say about a Work. It returns at once; a Work that does not exist is
// forgotten silently.
func (w *Writer) Update(work types.NamespacedName, by Source, mutate Mutation) {
	w.say(work, by, mutate, true)
}

// Repeat is Update with what a source said earlier: it yields to what that has said since.
func (w *Writer) Repeat(work types.NamespacedName, by Source, mutate Mutation) {
	w.say(work, by, mutate, false)
}

func (w *Writer) say(work types.NamespacedName, by Source, mutate Mutation, isNews bool) {
	w.mu.Lock()
	said, waiting := w.pending[work]
	if !waiting {
		said = new([sources]Mutation)
		w.pending[work] = said
	}
	if isNews || said[by] == nil {
		said[by] = mutate
	}
	subscribers := w.subscribers
	w.mu.Unlock()
	if !waiting {
		w.measure.Added()
		w.queue.AddAfter(work, w.window)
	}
	for _, s := range subscribers {
		s(work, by)
	}
}

// Subscribe has f called after every Update and Repeat. f must not block.
func (w *Writer) Subscribe(f func(work types.NamespacedName, by Source)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.subscribers = append(w.subscribers, f)
}

// Flush writes what is pending without waiting for the window, and returns when nothing is pending any more or ctx ends.
// It needs a started writer.
func (w *Writer) Flush(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.idle.Broadcast()
	})
	defer stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for work := range w.pending {
		w.queue.Add(work)
	}
	for len(w.pending) > 0 || w.busy > 0 {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("writing %d pending statuses: %w", len(w.pending), err)
		}
		w.idle.Wait()
	}
	return nil
}

// Start writes until ctx ends; what is pending then is still written, for a few seconds.
func (w *Writer) Start(ctx context.Context) error {
	var running sync.WaitGroup
	for range w.workers {
		running.Go(func() {
			for w.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	w.queue.ShutDown()
	running.Wait()
	w.drain(ctx)
	return nil
}

// drain writes what shutdown left pending.
func (w *Writer) drain(ctx context.Context) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	slots := make(chan struct{}, w.workers)
	var running sync.WaitGroup
	w.mu.Lock()
	left := w.pending
	w.pending = map[types.NamespacedName]*[sources]Mutation{}
	w.mu.Unlock()
	for work, said := range left {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			if err := w.write(last, work, said); err != nil {
				log.FromContext(ctx).V(1).Info("A status was not written before the end", "work", work, "reason", err.Error())
			}
		})
	}
	running.Wait()
}

func (w *Writer) next(ctx context.Context) bool {
	work, shutdown := w.queue.Get()
	if shutdown {
		return false
	}
	defer w.queue.Done(work)
	said := w.take(work)
	if said == nil {
		w.forget(ctx, work)
		return true
	}
	err := w.loop.Do(ctx, work, func(ctx context.Context) error { return w.write(ctx, work, said) })
	w.settle(work, said, err)
	if err != nil {
		controlloop.LogFailure(log.FromContext(ctx).WithName("report").WithValues("work", work), err, w.queue.NumRequeues(work)+1, false)
		w.measure.Retried()
		w.queue.AddRateLimited(work)
		return true
	}
	w.queue.Forget(work)
	w.queue.AddAfter(work, recall)
	return true
}

// take claims what is pending for a Work.
func (w *Writer) take(work types.NamespacedName) *[sources]Mutation {
	w.mu.Lock()
	defer w.mu.Unlock()
	said := w.pending[work]
	if said != nil {
		delete(w.pending, work)
		w.busy++
	}
	return said
}

// settle ends what take began; what could not be written is pending again, unless it was overtaken meanwhile.
func (w *Writer) settle(work types.NamespacedName, said *[sources]Mutation, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy--
	if err != nil {
		newer := w.pending[work]
		if newer == nil {
			newer = new([sources]Mutation)
			w.pending[work] = newer
		}
		for source, mutate := range said {
			if newer[source] == nil {
				newer[source] = mutate
			}
		}
	}
	w.idle.Broadcast()
}

// write brings the status of a Work to what was said.
func (w *Writer) write(ctx context.Context, key types.NamespacedName, said *[sources]Mutation) error {
	work, err := w.newest(ctx, key)
	for range attempts {
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the Work: %w", err)
		}
		desired, fault := statusOf(work, said)
		if said[Apply] != nil || said[Observe] != nil {
			complete(work, desired)
		}
		if same(work, desired) {
			return fault
		}
		// An update costs the API server half of what a patch does, and lists are replaced as a whole either way.
		result := *work
		result.Status = *desired
		err = w.client.Status().Update(ctx, &result)
		if err == nil {
			w.remember(key, &result)
			return fault
		}
		if apierrors.IsConflict(err) {
			work = &workv1alpha1.Work{}
			err = w.live.Get(ctx, key, work)
		}
	}
	if err == nil {
		return errors.New("the Work keeps changing while its status is written")
	}
	return client.IgnoreNotFound(err)
}

// statusOf is the status of a Work with what was said of it. Sources speak of arbitrary objects of members: one that panics
// is left out, so that the others are heard, and named in the error.
func statusOf(work *workv1alpha1.Work, said *[sources]Mutation) (*workv1alpha1.WorkStatus, error) {
	var faults []error
	status := work.Status.DeepCopy()
	for source, mutate := range said {
		if mutate == nil {
			continue
		}
		draft := status.DeepCopy() // a panic leaves it half written
		err := controlloop.CatchPanic(func() error { mutate(work, draft); return nil })
		if err != nil {
			faults = append(faults, fmt.Errorf("status by source %d: %w", source, err))
			continue
		}
		status = draft
	}
	return status, errors.Join(faults...)
}

// newest returns the Work from the cache, or as it was after our last write if the cache has not seen that yet.
func (w *Writer) newest(ctx context.Context, key types.NamespacedName) (*workv1alpha1.Work, error) {
	cached := &workv1alpha1.Work{}
	if err := w.client.Get(ctx, key, cached); err != nil {
		return nil, err
	}
	w.mu.Lock()
	written := w.written[key]
	w.mu.Unlock()
	if written == nil || caughtUp(cached, written) {
		return cached, nil
	}
	return written, nil
}

func (w *Writer) remember(key types.NamespacedName, work *workv1alpha1.Work) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written[key] = work
}

// forget drops our last write once the cache has seen it.
func (w *Writer) forget(ctx context.Context, key types.NamespacedName) {
	w.mu.Lock()
	written := w.written[key]
	w.mu.Unlock()
	if written == nil {
		return
	}
	cached := &workv1alpha1.Work{}
	if err := w.client.Get(ctx, key, cached); err == nil && !caughtUp(cached, written) {
		w.queue.AddAfter(key, recall)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.written[key] == written {
		delete(w.written, key)
	}
}

// caughtUp tells whether the cache is at least as new as our write. When that cannot be told it is believed: the
// resourceVersion in the patch catches the mistake.
func caughtUp(cached, written *workv1alpha1.Work) bool {
	if cached.UID != written.UID {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, written.ResourceVersion)
	return err != nil || order >= 0
}
