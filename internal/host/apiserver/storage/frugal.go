package storage

import (
	"context"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/clock"
)

const (
	// quiet is how long nothing must have happened to a resource before the history of a burst is let go.
	quiet = 90 * time.Second
	// burst is how many events are worth the trouble.
	burst = 5000
	// perObject is how many of them there must have been for each object that is left: all of these are read again.
	perObject = 10
)

// frugal is storage whose watches spare the memory of the watch cache that follows them.
//
// Versions of one object share what they have in common. And a watch cache keeps what happened in the last minute of a
// burst, deleted objects too, until other things happen, which may be never; what it keeps is strewn all over the memory
// that the burst took, and holds on to that as well. So a watch that has shown many events, and then nothing for a while,
// ends as if its history had been compacted: the watch cache starts over with what there is.
type frugal struct {
	storage.Interface
	clock clock.WithTicker
}

// Watch implements storage.Interface.
func (f frugal) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	source, err := f.Interface.Watch(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	w := &following{storage: f, source: source, results: make(chan watch.Event), stopped: make(chan struct{})}
	go w.run(ctx)
	return w, nil
}

// following is a watch of frugal storage.
type following struct {
	storage frugal
	source  watch.Interface
	results chan watch.Event
	stopped chan struct{}
	once    sync.Once
}

// ResultChan implements watch.Interface.
func (w *following) ResultChan() <-chan watch.Event { return w.results }

// Stop implements watch.Interface.
func (w *following) Stop() {
	w.once.Do(func() { close(w.stopped) })
	w.source.Stop()
}

func (w *following) run(ctx context.Context) {
	defer close(w.results)
	look := w.storage.clock.NewTicker(quiet)
	defer look.Stop()
	latest := versions{}
	shown, before := 0, 0
	for {
		var event watch.Event
		select {
		case e, open := <-w.source.ResultChan():
			if !open {
				return
			}
			if latest.see(e) {
				shown++
			}
			event = e
		case <-look.C():
			if shown > before || !w.storage.startsOver(ctx, shown) {
				before = shown
				continue
			}
			event = watch.Event{Type: watch.Error, Object: &metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired,
				Message: "the history of a burst is let go",
			}}
		}
		select {
		case w.results <- event:
		case <-w.stopped:
			return
		}
	}
}

// startsOver returns whether a watch cache that received so many events should start over.
func (f frugal) startsOver(ctx context.Context, shown int) bool {
	if shown < burst {
		return false
	}
	stats, err := f.Stats(ctx)
	return err == nil && int64(shown) >= perObject*stats.ObjectCount
}
