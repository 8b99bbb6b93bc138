package brake

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// account is what is known about one member. The Brake's lock guards it.
type account struct {
	// objects is how many objects the member's Works hold, and leaving how many of them are to be removed.
	objects, leaving int
	// removed are the objects of Works that are gone.
	removed window
	// extra are further objects that were touched, whose Works exist: scaled down, or removed with what they depend on.
	extra window
	// admitted are the Works whose objects may be removed; they count as done when the Work is gone.
	admitted map[types.NamespacedName]bool
	// waiting are the Works whose requests were refused, with the objects that these touch besides those that leave.
	waiting map[types.NamespacedName]int

	state   State
	refused time.Time // last
	until   time.Time // of a release
	// resumed is true once the account has the decision of an earlier process.
	resumed  bool
	excluded bool
}

// sum is how many objects were touched or are to be, and how many there were at the beginning of the window.
func (a *account) sum(now time.Time, step time.Duration) (touched, objects int) {
	removed := a.removed.sum(now, step)
	touched = a.leaving + removed + a.extra.sum(now, step)
	for _, extra := range a.waiting {
		touched += extra
	}
	return touched, a.objects + removed
}

// buckets is the resolution of a window: what it drops is at most a sixtieth of its length too old.
const buckets = 60

// window adds up what happened within the last length of time. The step is a sixtieth of its length, and always the same.
type window struct {
	counts [buckets]int
	total  int
	newest int64 // number of the bucket that is written, in steps since 1970
}

func (w *window) add(now time.Time, step time.Duration, n int) {
	w.advance(now, step)
	w.counts[w.newest%buckets] += n
	w.total += n
}

// sum drops what is too old and returns the rest.
func (w *window) sum(now time.Time, step time.Duration) int {
	w.advance(now, step)
	return w.total
}

// advance empties the buckets that are older than the window. A clock that goes back changes nothing.
func (w *window) advance(now time.Time, step time.Duration) {
	at := now.UnixNano() / int64(step)
	if at-w.newest >= buckets {
		*w = window{newest: at}
		return
	}
	for w.newest < at {
		w.newest++
		slot := w.newest % buckets
		w.total -= w.counts[slot]
		w.counts[slot] = 0
	}
}
