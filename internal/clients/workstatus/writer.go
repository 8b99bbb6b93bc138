package workstatus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/expectations"
	"github.com/flagship-k8s/flagship/internal/knowledge/fairqueue"
	"github.com/flagship-k8s/flagship/internal/knowledge/reports"
)

// Source is who reports. Within one write mutations run in this order, so that observe reads what apply reports.
type Source int

// The sources.
const (
	Apply Source = iota
	Observe
	sources int = iota
)

// Mutation changes the status of a Work to the report of its source. It is all that the source reports, not a difference: a later one
// of the same source replaces it, and it may run more than once, on different statuses. It must change only the status.
type Mutation func(work *workv1alpha1.Work, status *workv1alpha1.WorkStatus)

// Config is what a Writer needs.
type Config struct {
	// Client reads Works from a cache and writes their status. Required.
	Client client.Client
	// Live reads a Work past the cache, after a conflict. Required.
	Live client.Reader
	// Cache has the events of Works. Required by Start; tests do without.
	Cache cache.Cache
	// Clock defaults to the real one.
	Clock clock.WithTicker
	// Window is how long to collect after the first mutation of a Work. Default 50 ms. It is longer while writes come later than they should,
	// because other work keeps the processors busy: fewer writes with more in them take load away.
	Window time.Duration
	// Workers is how many writes may be under way at a time. Default 16.
	Workers int
	// Loop is the control loop that writing belongs to. Default: one that nothing measures.
	Loop *controlloop.Loop
}

// Writer collects mutations and writes. It is a manager.Runnable.
type Writer struct {
	Config
	measure *controlloop.Queue
	queue   workqueue.TypedRateLimitingInterface[types.NamespacedName]
	// own separates the events of the writer's own writes from those of others, and has what the cache does not show yet. A read that
	// waits for the cache, as hubclient's does, would hold a worker for each of the thousands of Works that change at once.
	own expectations.Writes[*workv1alpha1.Work]

	mu      sync.Mutex
	pending map[types.NamespacedName]*report
	// late is how much later than its window a write began, a moving average, and lateAt the time of the last of them.
	late      time.Duration
	lateAt    time.Time
	updated   []func(types.NamespacedName, Source)
	corrected []func(types.NamespacedName)
}

// report is what was reported about a Work and is not written yet.
type report struct {
	mutations [sources]Mutation
	// namespace is that of the binding of the Work, empty for another one.
	namespace string
	// due is the end of its window.
	due time.Time
}

const (
	// lateness is how many times the time by which writes are late is added to the window, up to longest. With 4 instead of 10,
	// 100 Deployments to ten members take 11.3 updates of the status of Works each instead of 10.2.
	lateness = 10
	longest  = time.Second
	// smoothing is how many writes the average of late follows.
	smoothing = 16
	// shutdownGrace is how long shutdown may take to write what is pending. Another server waits for it. What is not written then is reported
	// again after the next start.
	shutdownGrace = time.Second
	// attempts is how often one write is tried against conflicts before it goes back to the queue.
	attempts = 3
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
	w := &Writer{Config: config, pending: map[types.NamespacedName]*report{}}
	// While others have many statuses to write, a namespace with one does not wait for all of them.
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[types.NamespacedName]{Clock: config.Clock, Queue: fairqueue.NewOrder(w.placeOf)})
	w.queue = workqueue.NewTypedRateLimitingQueueWithConfig(backoff.Limiter[types.NamespacedName](),
		workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(
			workqueue.TypedDelayingQueueConfig[types.NamespacedName]{Clock: config.Clock, Queue: queue})})
	w.measure = config.Loop.Queue(w.queue.Len)
	return w, nil
}

// Update records what a source reports about a Work. It returns at once. A Work that does not exist is ignored.
func (w *Writer) Update(work *workv1alpha1.Work, by Source, mutate Mutation) {
	key := client.ObjectKeyFromObject(work)
	w.mu.Lock()
	pending, waiting := w.pending[key]
	var window time.Duration
	if !waiting {
		window = w.window()
		pending = &report{namespace: work.Annotations[workv1alpha2.ResourceBindingNamespaceAnnotation], due: w.Clock.Now().Add(window)}
		w.pending[key] = pending
	}
	pending.mutations[by] = mutate
	subscribers := w.updated
	w.mu.Unlock()
	if !waiting {
		w.measure.Added()
		w.queue.AddAfter(key, window)
	}
	for _, f := range subscribers {
		f(key, by)
	}
}

// placeOf is that of the namespace of the binding of a Work that is queued: those of all namespaces for a cluster are in one.
func (w *Writer) placeOf(work types.NamespacedName) fairqueue.Place {
	w.mu.Lock()
	defer w.mu.Unlock()
	if pending := w.pending[work]; pending != nil {
		return fairqueue.Place{Group: pending.namespace}
	}
	return fairqueue.Place{}
}

// window is how long to collect. The lock is held.
func (w *Writer) window() time.Duration {
	if w.Clock.Since(w.lateAt) > longest {
		w.late = 0 // of a burst that is over
	}
	return min(w.Window+lateness*w.late, max(w.Window, longest))
}

// OnUpdate has f called after every Update. F must not block.
func (w *Writer) OnUpdate(f func(work types.NamespacedName, by Source)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.updated = append(w.updated, f)
}

// OnForeignChange has f called when others changed the status of a Work, so that its sources report again. F must not block.
func (w *Writer) OnForeignChange(f func(work types.NamespacedName)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.corrected = append(w.corrected, f)
}

// Start writes until ctx ends; what is pending then is still written, for a few seconds.
func (w *Writer) Start(ctx context.Context) error {
	works, err := w.Cache.GetInformer(ctx, &workv1alpha1.Work{})
	if err != nil {
		return fmt.Errorf("watching Works: %w", err)
	}
	handle, err := works.AddEventHandler(w.Handler())
	if err != nil {
		return fmt.Errorf("watching Works: %w", err)
	}
	defer func() { _ = works.RemoveEventHandler(handle) }() // the cache ends with us
	w.Run(ctx)
	return nil
}

// Handler is what handles the events of Works.
func (w *Writer) Handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) {
			old, ok := before.(*workv1alpha1.Work)
			current, alsoOK := after.(*workv1alpha1.Work)
			if ok && alsoOK && !w.own.Observe(current) && old.UID == current.UID && !same(old, &current.Status) {
				w.changedByOthers(client.ObjectKeyFromObject(current))
			}
		},
		DeleteFunc: func(obj any) {
			if key, err := toolscache.DeletionHandlingObjectToName(obj); err == nil {
				w.own.Forget(types.NamespacedName(key))
			}
		},
	}
}

func (w *Writer) changedByOthers(work types.NamespacedName) {
	w.mu.Lock()
	subscribers := w.corrected
	w.mu.Unlock()
	for _, f := range subscribers {
		f(work)
	}
}

// Run is Start without the events of Works.
func (w *Writer) Run(ctx context.Context) {
	var running sync.WaitGroup
	for range w.Workers {
		running.Go(func() {
			for w.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	w.queue.ShutDown()
	running.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if err := w.Flush(last); err != nil {
		log.FromContext(ctx).V(1).Info("Some statuses were not written before the end", "reason", err.Error())
	}
}

// Flush writes at once what is pending and has no worker yet.
func (w *Writer) Flush(ctx context.Context) error {
	w.mu.Lock()
	left := w.pending
	w.pending = map[types.NamespacedName]*report{}
	w.mu.Unlock()
	slots := make(chan struct{}, w.Workers)
	failures := make(chan error, len(left))
	var running sync.WaitGroup
	for work, pending := range left {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			failures <- w.write(ctx, work, &pending.mutations)
		})
	}
	running.Wait()
	close(failures)
	var errs []error
	for err := range failures {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (w *Writer) next(ctx context.Context) bool {
	work, shutdown := w.queue.Get()
	if shutdown {
		return false
	}
	defer w.queue.Done(work)
	var pending *report
	err := w.Loop.Do(ctx, work, func(ctx context.Context) error {
		if pending = w.take(work); pending == nil {
			return nil
		}
		return w.write(ctx, work, &pending.mutations)
	})
	if err == nil {
		w.queue.Forget(work)
		return true
	}
	if pending != nil {
		w.putBack(work, pending)
	}
	controlloop.LogFailure(log.FromContext(ctx).WithName("report").WithValues("work", work), err, w.queue.NumRequeues(work)+1, false)
	w.measure.Retried()
	w.queue.AddRateLimited(work)
	return true
}

// take returns what is to be written, with what was reported until now; nil if there is nothing.
func (w *Writer) take(work types.NamespacedName) *report {
	w.mu.Lock()
	defer w.mu.Unlock()
	pending := w.pending[work]
	delete(w.pending, work)
	if pending != nil && !pending.due.IsZero() {
		w.lateAt = w.Clock.Now()
		w.late += (max(0, w.lateAt.Sub(pending.due)) - w.late) / smoothing
	}
	return pending
}

// putBack makes pending again what could not be written, unless there is something newer.
func (w *Writer) putBack(work types.NamespacedName, left *report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left.due = time.Time{} // how late it is then is up to the backoff
	newer := w.pending[work]
	if newer == nil {
		w.pending[work] = left
		return
	}
	for source, mutate := range left.mutations {
		if newer.mutations[source] == nil {
			newer.mutations[source] = mutate
		}
	}
}

// write brings the status of a Work to what was reported.
func (w *Writer) write(ctx context.Context, key types.NamespacedName, mutations *[sources]Mutation) error {
	work := &workv1alpha1.Work{}
	err := w.Client.Get(ctx, key, work)
	work = w.own.Latest(key, work)
	for range attempts {
		if err != nil {
			break
		}
		controlloop.About(ctx, workv1alpha2.BoundTo(work))
		desired, fault := statusOf(work, mutations)
		if mutations[Apply] != nil {
			complete(work, desired)
		}
		if same(work, desired) {
			return fault
		}
		if err = w.update(ctx, key, work, desired); err == nil {
			return fault
		}
		if apierrors.IsConflict(err) {
			work = &workv1alpha1.Work{}
			err = w.Live.Get(ctx, key, work)
		}
	}
	if err == nil {
		return errors.New("the Work keeps changing while its status is written")
	}
	return client.IgnoreNotFound(err)
}

func (w *Writer) update(ctx context.Context, key types.NamespacedName, work *workv1alpha1.Work, desired *workv1alpha1.WorkStatus) error {
	// An update costs the API server half of what a patch does, and lists are replaced as a whole either way.
	result := *work
	result.Status = *desired
	written := &result
	w.own.Begin(key)
	err := w.Client.Status().Update(ctx, written)
	if err != nil {
		written = nil
	}
	if w.own.Done(key, written) {
		w.changedByOthers(key)
	}
	return err
}

// statusOf is the status of a Work with what was reported, bounded: it is of a member. Mutations depend on arbitrary objects of members: one that panics is
// left out, and named in the error.
func statusOf(work *workv1alpha1.Work, mutations *[sources]Mutation) (*workv1alpha1.WorkStatus, error) {
	var faults []error
	status := work.Status.DeepCopy()
	for source, mutate := range mutations {
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
	reports.Work(work, status, time.Time{}) // the times are of this process
	return status, errors.Join(faults...)
}
