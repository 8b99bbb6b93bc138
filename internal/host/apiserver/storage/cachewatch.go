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
	// idlePeriod is how long a watch must have had no event before it ends.
	idlePeriod = 90 * time.Second
	// minEvents is how many events it must have had before.
	minEvents = 5000
	// eventsPerObject is how many of them there must have been for each object that exists, for these are all read again.
	eventsPerObject = 10
)

// cacheStorage is storage whose watches reduce the memory of the watch cache above it.
//
// Versions of one object share what they have in common. And a watch cache keeps the events of the last minute of a burst, those of
// deleted objects too, until other events replace them, which may be never; they are spread over all of the memory that the burst
// took, and none of that can be released. So a watch that had many events, and then none for a while, ends as if its history had been
// compacted: the watch cache lists the objects and watches again (TestAWatchCacheListsAgainAfterABurst).
type cacheStorage struct {
	storage.Interface
	clock clock.WithTicker
}

// Watch implements storage.Interface.
func (f cacheStorage) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	source, err := f.Interface.Watch(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	w := &cacheWatch{storage: f, source: source, results: make(chan watch.Event), stopped: make(chan struct{})}
	go w.run(ctx) // it ends with Stop and with the context, as the goroutines of upstream's watches do: nothing waits for those either
	return w, nil
}

// cacheWatch is a watch of cacheStorage storage.
type cacheWatch struct {
	storage cacheStorage
	source  watch.Interface
	results chan watch.Event
	stopped chan struct{}
	once    sync.Once
}

// ResultChan implements watch.Interface.
func (w *cacheWatch) ResultChan() <-chan watch.Event { return w.results }

// Stop implements watch.Interface.
func (w *cacheWatch) Stop() {
	w.once.Do(func() { close(w.stopped) })
	w.source.Stop()
}

func (w *cacheWatch) run(ctx context.Context) {
	defer close(w.results)
	look := w.storage.clock.NewTicker(idlePeriod)
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
			if latest.add(e) {
				shown++
			}
			event = e
		case <-look.C():
			if shown > before || !w.storage.restarts(ctx, shown) {
				before = shown
				continue
			}
			event = watch.Event{Type: watch.Error, Object: &metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired,
				Message: "the history of a burst is dropped",
			}}
		}
		select {
		case w.results <- event:
		case <-w.stopped:
			return
		}
	}
}

// restarts returns whether a watch cache had better list all objects again after so many events.
func (f cacheStorage) restarts(ctx context.Context, shown int) bool {
	if shown < minEvents {
		return false
	}
	stats, err := f.Stats(ctx)
	return err == nil && int64(shown) >= eventsPerObject*stats.ObjectCount
}
