package events

import (
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
	recordutil "k8s.io/client-go/tools/record/util"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	component = "flagship"

	// window is how long an identical event stays unsaid. It is well below
	// the hour an API server keeps an Event.
	window = 10 * time.Minute
	// remembered bounds the deduplication memory; the oldest news is
	// forgotten first, which at worst repeats it.
	remembered = 16384
	// queued bounds what waits to be written; news beyond it is dropped. Warnings wait apart and are written first: in a
	// burst of thousands it is the failures that somebody has to see.
	queued = 4096
	// queuedWarnings is so large, 16 MB when full, that a policy over 10,000 objects that fits nowhere is told for each.
	queuedWarnings = 16384
	// attempts is how often one write is tried while the API server is busy.
	attempts = 3
	// retryAfter is the pause between two attempts.
	retryAfter = 250 * time.Millisecond
	// flushFor is how long shutdown waits for what is queued.
	flushFor = 2 * time.Second
	// maxMessage is the API server's limit on an Event's message.
	maxMessage = 1024
)

// Writer creates one Event on the hub.
type Writer func(ctx context.Context, e *corev1.Event) error

// Deduplicating is the Recorder of the control plane. An event equal to one
// published less than ten minutes ago is counted, not written; when the same
// news comes again after that, the Event that is written tells how often it was
// heard. Writing happens in Start's goroutine, from a bounded queue.
type Deduplicating struct {
	write    Writer
	clock    clock.Clock
	queue    chan *corev1.Event
	warnings chan *corev1.Event
	seed     maphash.Seed

	mu   sync.Mutex
	seen *lru.Cache

	dropped atomic.Int64
}

// heard is what is remembered of one event.
type heard struct {
	first, written time.Time
	times          int32
}

// New returns a recorder that writes with write. Nothing is written before
// Start runs; up to 4096 events and 16384 warnings published earlier are kept.
func New(write Writer, clock clock.Clock) *Deduplicating {
	return &Deduplicating{
		write:    write,
		clock:    clock,
		queue:    make(chan *corev1.Event, queued),
		warnings: make(chan *corev1.Event, queuedWarnings),
		seed:     maphash.MakeSeed(),
		seen:     lru.New(remembered),
	}
}

// Publish implements Recorder. When the queue is full the event is dropped and
// forgotten, so that it can be said when it happens again.
func (d *Deduplicating) Publish(e Event) {
	if len(e.Message) > maxMessage {
		e.Message = strings.ToValidUTF8(e.Message[:maxMessage-3], "") + "..."
	}
	if !utf8.ValidString(e.Message) {
		e.Message = strings.ToValidUTF8(e.Message, "?")
	}
	key := maphash.Comparable(d.seed, e)
	now := d.clock.Now()

	d.mu.Lock()
	defer d.mu.Unlock()
	memory := heard{first: now}
	if known, ok := d.seen.Get(key); ok {
		memory = known.(heard)
	}
	memory.times++
	if memory.times > 1 && now.Sub(memory.written) < window {
		d.seen.Add(key, memory)
		return
	}
	memory.written = now
	queue := d.queue
	if e.Type == corev1.EventTypeWarning {
		queue = d.warnings
	}
	select {
	case queue <- d.compose(e, memory):
		d.seen.Add(key, memory)
	default:
		d.dropped.Add(1)
		d.seen.Remove(key)
	}
}

// Dropped is the number of events lost to a full queue or to failing writes.
func (d *Deduplicating) Dropped() int64 { return d.dropped.Load() }

// Start writes what is published until ctx ends, then spends up to two seconds
// on what is still queued. It always returns nil: losing news ends nothing.
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

// NeedLeaderElection lets every replica of the hub write its own events.
func (d *Deduplicating) NeedLeaderElection() bool { return false }

func (d *Deduplicating) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushFor)
	defer cancel()
	for len(d.warnings)+len(d.queue) > 0 && ctx.Err() == nil {
		if e := d.next(ctx.Done()); e != nil {
			d.deliver(ctx, e)
		}
	}
}

func (d *Deduplicating) deliver(ctx context.Context, e *corev1.Event) {
	for attempt := 1; ; attempt++ {
		err := d.write(ctx, e)
		switch {
		case err == nil, apierrors.IsAlreadyExists(err):
			return
		case attempt < attempts && mayPass(err) && d.pause(ctx):
			continue
		}
		d.dropped.Add(1)
		log.FromContext(ctx).V(1).Info("Event was not written",
			"kind", e.InvolvedObject.Kind, "namespace", e.InvolvedObject.Namespace,
			"name", e.InvolvedObject.Name, "reason", e.Reason, "error", err.Error())
		return
	}
}

// mayPass tells errors that another attempt can cure from refusals, such as a
// namespace that is being deleted.
func mayPass(err error) bool {
	return !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) &&
		!apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err)
}

func (d *Deduplicating) pause(ctx context.Context) bool {
	timer := d.clock.NewTimer(retryAfter)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}

// compose makes the API object. Events about cluster-scoped objects live in
// namespace "default", where kubectl looks for them.
func (d *Deduplicating) compose(e Event, memory heard) *corev1.Event {
	namespace := e.Object.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      recordutil.GenerateEventName(e.Object.Name, memory.written.UnixNano()),
		},
		InvolvedObject:      e.Object,
		Type:                e.Type,
		Reason:              e.Reason,
		Message:             e.Message,
		Source:              corev1.EventSource{Component: component},
		ReportingController: component,
		FirstTimestamp:      metav1.NewTime(memory.first),
		LastTimestamp:       metav1.NewTime(memory.written),
		Count:               memory.times,
	}
}
