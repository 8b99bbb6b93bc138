package controlloop

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
)

// Handlers are event handlers of informers that belong to one loop. A panic of one is logged with its stack and counted as one of the loop,
// and the handler is called again with backoff. client-go alone, if it does not end the process, skips the event: the object would not be
// reconciled before it changes again.
type Handlers struct {
	loop *Loop
	// failed has the events that are to be handled again. It is a queue of its own since a handler has no request for the queue of its loop:
	// it panicked before it made one.
	failed workqueue.TypedRateLimitingInterface[failedEvent]
}

// failedEvent is the last event of an object about which a handler panicked.
type failedEvent struct {
	handler *eventHandler
	object  string
}

// Handlers returns the event handlers of the loop. Start has to run for those that panicked to be called again.
func (l *Loop) Handlers() *Handlers {
	return &Handlers{loop: l, failed: workqueue.NewTypedRateLimitingQueue(backoff.Limiter[failedEvent]())}
}

// Wrap returns a handler that calls another one, for one event at a time.
func (h *Handlers) Wrap(logger logr.Logger, handler toolscache.ResourceEventHandler) toolscache.ResourceEventHandler {
	return &eventHandler{handlers: h, logger: logger, handler: handler, missed: map[string]objectEvent{}}
}

// Start implements manager.Runnable.
func (h *Handlers) Start(ctx context.Context) error {
	stop := sync.OnceFunc(h.failed.ShutDown)
	defer context.AfterFunc(ctx, stop)()
	defer stop()
	for {
		event, shutdown := h.failed.Get()
		if shutdown {
			return nil
		}
		event.handler.again(event.object)
		h.failed.Done(event)
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica has informers.
func (h *Handlers) NeedLeaderElection() bool { return false }

// objectEvent is an event of an object: before is nil for one that is new, after for one that is gone.
type objectEvent struct {
	before, after any
	initial       bool
}

// eventHandler is a handler of Handlers.
type eventHandler struct {
	handlers *Handlers
	logger   logr.Logger
	handler  toolscache.ResourceEventHandler

	mu sync.Mutex
	// missed has, by object, the events about which the handler panicked.
	missed map[string]objectEvent
}

// OnAdd implements cache.ResourceEventHandler.
func (h *eventHandler) OnAdd(obj any, initial bool) {
	h.handle(objectEvent{after: obj, initial: initial})
}

// OnUpdate implements cache.ResourceEventHandler.
func (h *eventHandler) OnUpdate(before, after any) {
	h.handle(objectEvent{before: before, after: after})
}

// OnDelete implements cache.ResourceEventHandler.
func (h *eventHandler) OnDelete(obj any) {
	h.handle(objectEvent{before: obj})
}

func (h *eventHandler) handle(e objectEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.missed) == 0 {
		h.call(e)
		return
	}
	if missed, ok := h.missed[e.object()]; ok {
		e = e.since(missed)
	}
	h.call(e)
}

// again handles the event of an object about which the handler panicked, if no later one has been handled.
func (h *eventHandler) again(object string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e, ok := h.missed[object]; ok {
		h.call(e)
	}
}

// call calls the handler, and keeps the event if that panics.
func (h *eventHandler) call(e objectEvent) {
	err := CatchPanic(func() error {
		e.deliver(h.handler)
		return nil
	})
	if err == nil && len(h.missed) == 0 {
		return // there is nothing to forget
	}
	failed := failedEvent{h, e.object()}
	if err == nil {
		delete(h.missed, failed.object)
		h.handlers.failed.Forget(failed)
		return
	}
	h.missed[failed.object] = e
	h.handlers.loop.panicked()
	LogFailure(h.logger.WithValues("object", failed.object, "turn", "handling an event"), err, h.handlers.failed.NumRequeues(failed)+1, false)
	h.handlers.failed.AddRateLimited(failed)
}

func (e objectEvent) deliver(to toolscache.ResourceEventHandler) {
	switch {
	case e.after == nil:
		to.OnDelete(e.before)
	case e.before == nil:
		to.OnAdd(e.after, e.initial)
	default:
		to.OnUpdate(e.before, e.after)
	}
}

// since returns one event for this one and an earlier one of the object that was not handled.
func (e objectEvent) since(missed objectEvent) objectEvent {
	if e.after == nil {
		return e
	}
	e.before, e.initial = missed.before, missed.initial
	if tombstone, ok := e.before.(toolscache.DeletedFinalStateUnknown); ok {
		e.before = tombstone.Obj
	}
	return e
}

// object is the namespace and name of the object.
func (e objectEvent) object() string {
	obj := e.after
	if obj == nil {
		obj = e.before
	}
	key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return "" // it is no object of an API server, and such events are one for the handler
	}
	return key
}
