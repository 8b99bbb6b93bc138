package brake

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// account is what is known about one member. The Brake's lock guards it.
type account struct {
	// objects is how many objects the member's Works hold, and leaving how many of them are to be removed.
	objects, leaving int
	// last is how many of those that leave are last copies, and lost are those that are gone.
	last int
	lost window
	// most is the largest number of objects within the window: what there was before some were lost.
	most peak
	// extra are further objects that were touched, whose Works exist: scaled down, or removed with what they depend on.
	extra window
	// shrunk are the objects that were scaled down, until they have their replicas again or the window is over.
	shrunk map[Object]shrinkage
	// admitted are the Works whose objects may be removed. Only when one of them goes, its objects are lost.
	admitted map[types.NamespacedName]bool
	// waiting are the Works whose requests were refused, with the objects that these touch besides those that leave.
	waiting map[types.NamespacedName]int
	// requested are the Works whose removal users have requested by deleting templates, until it is ordered, with the time of the request.
	requested map[types.NamespacedName]time.Time

	state   State
	refused time.Time // last
	until   time.Time // of a release
	// resumed is true once the account has the decision of an earlier process, and asked once this process has refused a request.
	resumed, asked bool
	excluded       bool
}

// shrinkage is how many replicas an object had at most, and in which bucket of extra it counts.
type shrinkage struct{ from, bucket int64 }

// change records what a Work holds, and returns whether one that is gone waited. Objects that go without a removal being admitted stay in the member, and count as if they had not been there.
func (a *account) change(now time.Time, step time.Duration, key types.NamespacedName, before, after Work) (waited bool) {
	a.most.advance(now, step, a.objects)
	more := after.Objects - before.Objects
	a.objects += more
	a.leaving += after.Leaving - before.Leaving
	a.last += after.Last - before.Last
	gone := after == (Work{})
	if gone || after.Leaving > 0 {
		delete(a.requested, key)
	}
	if more < 0 && (!gone || !a.admitted[key]) {
		a.most.lower(-more)
	}
	a.most.raise(a.objects)
	if gone {
		if a.admitted[key] {
			a.lost.add(now, step, before.Last)
		}
		_, waited = a.waiting[key]
		delete(a.waiting, key)
		delete(a.admitted, key)
	}
	return waited
}

// sum is how many objects are lost, to be lost, or scaled down, how many of the former are last copies, and how many there were before.
// Objects that were made again are not lost.
func (a *account) sum(now time.Time, step time.Duration) (touched, last, objects int) {
	a.most.advance(now, step, a.objects)
	missing := a.most.most - (a.objects - a.leaving)
	last = min(a.last+a.lost.sum(now, step), missing)
	touched = missing + a.extra.sum(now, step)
	for _, extra := range a.waiting {
		touched += extra
	}
	return touched, last, a.most.most
}

// shrink records that an object has fewer replicas.
func (a *account) shrink(now time.Time, step time.Duration, object Object, from int64) {
	maps.DeleteFunc(a.shrunk, func(_ Object, s shrinkage) bool { return !a.extra.has(now, step, s.bucket) })
	if s, counted := a.shrunk[object]; counted {
		from = max(from, s.from)
		a.extra.take(s.bucket)
	}
	if a.shrunk == nil {
		a.shrunk = map[Object]shrinkage{}
	}
	a.extra.add(now, step, 1)
	a.shrunk[object] = shrinkage{from: from, bucket: a.extra.newest}
}

// grow ends what shrink recorded, if the object has as many replicas as before.
func (a *account) grow(now time.Time, step time.Duration, object Object, replicas int64) {
	if s, counted := a.shrunk[object]; counted && replicas >= s.from {
		if a.extra.has(now, step, s.bucket) {
			a.extra.take(s.bucket)
		}
		delete(a.shrunk, object)
	}
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

// has returns whether a bucket is still in the window.
func (w *window) has(now time.Time, step time.Duration, bucket int64) bool {
	w.advance(now, step)
	return bucket > w.newest-buckets
}

// take takes one out of a bucket that is in the window.
func (w *window) take(bucket int64) {
	w.counts[bucket%buckets]--
	w.total--
}

// peak is the largest number within the last length of time. The step is a sixtieth of its length, and always the same.
type peak struct {
	counts [buckets]int
	most   int
	newest int64 // number of the bucket that is written, in steps since 1970
}

// advance drops what is older than the window. The number has been the present one since the last call.
func (p *peak) advance(now time.Time, step time.Duration, present int) {
	at := now.UnixNano() / int64(step)
	if at <= p.newest {
		return
	}
	for p.newest = max(p.newest, at-buckets); p.newest < at; {
		p.newest++
		p.counts[p.newest%buckets] = present
	}
	p.most = slices.Max(p.counts[:])
}

func (p *peak) raise(present int) {
	bucket := &p.counts[p.newest%buckets]
	*bucket = max(*bucket, present)
	p.most = max(p.most, present)
}

// lower takes a number off all that was counted.
func (p *peak) lower(n int) {
	for i := range p.counts {
		p.counts[i] = max(p.counts[i]-n, 0)
	}
	p.most = slices.Max(p.counts[:])
}
