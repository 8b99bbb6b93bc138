package schedule

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// waitingRoom is where bindings are that the fleet has no place for, or not
// the preferred one. Its zero value is not usable. It is safe for concurrent use.
type pendingBindings struct {
	mu      sync.Mutex
	waiting map[Item]waiter
}

// waiter is one of those who wait.
type waiter struct {
	// priority is that of its policy.
	priority int
	// fits is since when the preferred term has fitted; zero if it does not.
	fits time.Time
}

// call is whom to wake.
type call struct {
	Item
	priority int
}

func newPendingBindings() *pendingBindings { return &pendingBindings{waiting: map[Item]waiter{}} }

// enter keeps it waiting; leave lets it go.
func (w *pendingBindings) enter(it Item, priority int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting[it] = waiter{priority, w.waiting[it].fits}
}

func (w *pendingBindings) leave(it Item) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiting, it)
}

func (w *pendingBindings) has(it Item) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.waiting[it]
	return ok
}

// size is how many wait.
func (w *pendingBindings) size() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiting)
}

// all lists who waits, the highest priority first.
func (w *pendingBindings) all() []call {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]call, 0, len(w.waiting))
	for it, who := range w.waiting {
		out = append(out, call{it, who.priority})
	}
	slices.SortFunc(out, func(a, b call) int { return cmp.Compare(b.priority, a.priority) })
	return out
}

// fitted notes whether the preferred term fits now, and returns for how long it has.
func (w *pendingBindings) fitted(it Item, fits bool, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	who := w.waiting[it]
	since := who.fits
	switch {
	case !fits:
		since = time.Time{}
	case since.IsZero():
		since = now
	}
	w.waiting[it] = waiter{who.priority, since}
	if since.IsZero() {
		return 0
	}
	return now.Sub(since)
}

// awaitingRoom is where bindings are that were placed while a claim they name did not exist. It is safe for concurrent use.
type awaitingClaims struct {
	mu    sync.Mutex
	names map[Item]string // as the binding has them, in JSON
}

// note lets a binding in or out.
func (w *awaitingClaims) note(b workv1alpha2.Binding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if awaited(b) {
		w.names[itemOf(b)] = b.GetAnnotations()[workv1alpha2.DependenciesAnnotation]
	} else {
		delete(w.names, itemOf(b))
	}
}

func (w *awaitingClaims) leave(it Item) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.names, it)
}

// naming lists those in a namespace that may name a claim: looking for the name as text finds all of them, and few others.
func (w *awaitingClaims) naming(claim Item) []Item {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Item
	for it, names := range w.names {
		if it.Namespace == claim.Namespace && strings.Contains(names, strconv.Quote(claim.Name)) {
			out = append(out, it)
		}
	}
	return out
}
