package schedule

import (
	"sync"
	"time"
)

// waitingRoom is where bindings are that the fleet has no place for, or not
// the preferred one. Its zero value is not usable. It is safe for concurrent use.
type waitingRoom struct {
	mu      sync.Mutex
	waiting map[Item]time.Time // since when the preferred term has fitted; zero if it does not
}

func newWaitingRoom() *waitingRoom { return &waitingRoom{waiting: map[Item]time.Time{}} }

// enter keeps it waiting; leave lets it go.
func (w *waitingRoom) enter(it Item) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.waiting[it]; !ok {
		w.waiting[it] = time.Time{}
	}
}

func (w *waitingRoom) leave(it Item) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiting, it)
}

func (w *waitingRoom) has(it Item) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.waiting[it]
	return ok
}

func (w *waitingRoom) all() []Item {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]Item, 0, len(w.waiting))
	for it := range w.waiting {
		out = append(out, it)
	}
	return out
}

// fitted notes whether the preferred term fits now, and returns for how long it has.
func (w *waitingRoom) fitted(it Item, fits bool, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	since := w.waiting[it]
	switch {
	case !fits:
		since = time.Time{}
	case since.IsZero():
		since = now
	}
	w.waiting[it] = since
	if since.IsZero() {
		return 0
	}
	return now.Sub(since)
}
