package events

import (
	"cmp"
	"context"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	recordutil "k8s.io/client-go/tools/record/util"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

const (
	component = "flagship"

	// window is for how long an identical event is counted only. It is well below the hour an API server keeps an Event.
	window = 10 * time.Minute
	// maxPublished bounds the deduplication cache. An event that was evicted is at worst written again.
	maxPublished = 16384
	// queued bounds what waits to be written; events beyond it are dropped. Warnings have a queue of their own and are written
	// first: in a burst of thousands of events the failures matter most.
	queued = 4096
	// queuedWarnings is large, 16 MB when full, so that a policy over 10,000 objects that fits nowhere is reported for each.
	queuedWarnings = 16384
	// flushTimeout is how long shutdown waits for what is queued.
	flushTimeout = 2 * time.Second
	// maxMessage is the API server's limit on an Event's message.
	maxMessage = 1024
)

// writeBackoff is how often one write is tried while the API server is busy.
var writeBackoff = wait.Backoff{Steps: 3, Duration: 250 * time.Millisecond, Factor: 1}

// Writer creates one Event on the control plane. It is a function because this package has no clients.
type Writer func(ctx context.Context, e *corev1.Event) error

// Deduplicating is the Recorder of the control plane. An event equal to one published less than ten minutes ago is counted, not
// written; the next Event that is written has the count. Start's goroutine writes, from a bounded queue.
//
// The recorders of client-go do not do the job: they write an update for each repetition, drop warnings and normal events alike
// when their queue of 1,000 is full, and limit an object to 25 events.
type Deduplicating struct {
	write    Writer
	clock    clock.PassiveClock
	queue    chan *corev1.Event
	warnings chan *corev1.Event
	seed     maphash.Seed

	mu sync.Mutex
	// normal and failures are the shares of namespaces in the queue and in that of warnings.
	normal, failures *bounds.Shares
	// published has the history of an event, by the event's hash.
	published *lru.Cache

	dropped atomic.Int64
}

type history struct {
	first, written time.Time
	count          int32
}

// New returns a recorder that writes with write. Nothing is written before Start runs; up to 4096 events and 16384 warnings that
// are published before it are kept.
func New(write Writer, clock clock.PassiveClock) *Deduplicating {
	return &Deduplicating{
		write:     write,
		clock:     clock,
		queue:     make(chan *corev1.Event, queued),
		warnings:  make(chan *corev1.Event, queuedWarnings),
		seed:      maphash.MakeSeed(),
		published: lru.New(maxPublished),
		normal:    bounds.NewShares(queued),
		failures:  bounds.NewShares(queuedWarnings),
	}
}

// Publish implements Recorder. An event that finds the queue full, or three quarters of it taken by its namespace, is dropped, and written when
// it is published again.
func (d *Deduplicating) Publish(e Event) {
	e = e.valid()
	key := maphash.Comparable(d.seed, e)
	now := d.clock.Now()

	d.mu.Lock()
	defer d.mu.Unlock()
	past := history{first: now}
	if known, ok := d.published.Get(key); ok {
		past = known.(history)
	}
	past.count++
	if past.count > 1 && now.Sub(past.written) < window {
		d.published.Add(key, past)
		return
	}
	past.written = now
	composed := compose(e, past)
	queue, shares := d.place(composed)
	if !shares.Take(composed.Namespace) { // else the queue is not full: it has as many places
		d.dropped.Add(1)
		d.published.Remove(key)
		return
	}
	queue <- composed
	d.published.Add(key, past)
}

// place is where an event waits.
func (d *Deduplicating) place(e *corev1.Event) (chan *corev1.Event, *bounds.Shares) {
	if e.Type == corev1.EventTypeWarning {
		return d.warnings, d.failures
	}
	return d.queue, d.normal
}

// Dropped is the number of events lost to a full queue or to failing writes.
func (d *Deduplicating) Dropped() int64 { return d.dropped.Load() }

// Start writes what is published until ctx ends, then spends up to two seconds on what is still queued. It always returns nil: a
// lost event ends nothing.
func (d *Deduplicating) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		if e := d.next(ctx.Done()); e != nil {
			d.deliver(ctx, e)
		}
	}
	d.flush(ctx)
	return nil
}

// next is the event to write next, warnings first, or nil once stop is closed.
func (d *Deduplicating) next(stop <-chan struct{}) *corev1.Event {
	e := d.receive(stop)
	if e != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		_, shares := d.place(e)
		shares.Give(e.Namespace)
	}
	return e
}

func (d *Deduplicating) receive(stop <-chan struct{}) *corev1.Event {
	select {
	case e := <-d.warnings:
		return e
	default:
	}
	select {
	case e := <-d.warnings:
		return e
	case e := <-d.queue:
		return e
	case <-stop:
		return nil
	}
}

// NeedLeaderElection lets every replica of the control plane write its own events.
func (d *Deduplicating) NeedLeaderElection() bool { return false }

func (d *Deduplicating) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	for len(d.warnings)+len(d.queue) > 0 && ctx.Err() == nil {
		if e := d.next(ctx.Done()); e != nil {
			d.deliver(ctx, e)
		}
	}
}

func (d *Deduplicating) deliver(ctx context.Context, e *corev1.Event) {
	var failed error
	_ = wait.ExponentialBackoffWithContext(ctx, writeBackoff, func(ctx context.Context) (done bool, _ error) {
		failed = d.write(ctx, e)
		if apierrors.IsAlreadyExists(failed) {
			failed = nil
		}
		return failed == nil || refused(failed), nil
	})
	if failed == nil {
		return
	}
	d.dropped.Add(1)
	log.FromContext(ctx).V(1).Info("Event was not written", "kind", e.InvolvedObject.Kind, "namespace", e.InvolvedObject.Namespace,
		"name", e.InvolvedObject.Name, "reason", e.Reason, "error", failed.Error())
}

// refused is true for errors that another attempt cannot cure, such as that of a namespace that is being deleted.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// compose makes the API object of an event that is written.
func compose(e Event, past history) *corev1.Event {
	return newEvent(e, recordutil.GenerateEventName(e.Object.Name, past.written.UnixNano()), past.first, past.written, past.count)
}

// newEvent makes the API object.
func newEvent(e Event, name string, first, last time.Time, count int32) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: namespaceOf(e), Name: name},
		InvolvedObject:      e.Object,
		Type:                e.Type,
		Reason:              e.Reason,
		Message:             e.Message,
		Source:              corev1.EventSource{Component: component},
		ReportingController: component,
		FirstTimestamp:      metav1.NewTime(first),
		LastTimestamp:       metav1.NewTime(last),
		Count:               count,
	}
}

// namespaceOf is where an Event is stored. Events about cluster-scoped objects are in "default", where kubectl searches them.
func namespaceOf(e Event) string { return cmp.Or(e.Object.Namespace, metav1.NamespaceDefault) }

// valid has a message that the API server accepts.
func (e Event) valid() Event {
	if len(e.Message) > maxMessage {
		e.Message = strings.ToValidUTF8(e.Message[:maxMessage-3], "") + "..."
	}
	if !utf8.ValidString(e.Message) {
		e.Message = strings.ToValidUTF8(e.Message, "?")
	}
	return e
}
