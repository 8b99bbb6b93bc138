package controlloop

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Limiter bounds how many reconciles, or other pieces of work, compute at a time. Go gives each goroutine that can run an equal share of the
// processors: among those of a thousand members with twelve workers each, a probe or the renewal of a Lease would run once in a minute, and
// what one reconcile has in memory would be there twelve thousand times.
//
// Work acquires a slot before it begins, and releases it when it ends, while it waits for an answer (Pause), and when it has lasted for
// a while: what waits without Pause, for a member that does not answer, must not stop the work on others. After a Pause it goes on at once,
// also if no slot is free, since it may hold a lock for which others wait. golang.org/x/sync/semaphore has neither. A nil Limiter has no limit.
type Limiter struct {
	clock clock.WithDelayedExecution
	slots int
	// besideUsers is how many slots there are while requests of users are answered for longer than usersAlone. In the time of afterwards there
	// is one for each of the processors.
	besideUsers, processors int
	// longest is for how long work has its slot at a time.
	longest time.Duration

	mu      sync.Mutex
	used    int     // more than slots after a Pause
	waiting []*Slot // in the order in which they came
	behind  []*Slot // those of AcquireBehind, in the order in which they came
	begun   int     // how much other work has begun since the last of AcquireBehind
	users   int     // requests of users that are being answered
	// busy is true while there are any, and between them if there were several together.
	busy, together bool
	// alone is for how long no work began beside requests of users, up to changed, the time of the last change of busy. It decreases by the time
	// without such requests.
	alone   time.Duration
	changed time.Time
	again   clock.Timer // when there are more slots, although nothing ends
	turns   turns
}

// usersAlone is for how long no work begins beside requests of users. In this time a burst of some hundred requests is answered, which takes
// three times as long on two processors if every second of them computes the consequences. With requests that do not end, each change
// takes that much longer, once.
const usersAlone = 2 * time.Second

// between is for how long requests of users that were answered together may be gone until their time ends: several clients that send one
// request after another have none here for a moment, and what begins in it delays the next. A single client does not compete with itself.
const between = 20 * time.Millisecond

// afterwards is for how long after requests of users there is one slot for each processor, so that not all of what waits delays the next.
const afterwards = 50 * time.Millisecond

// share is how much other work begins for each that begins behind it. If none did, the status of an object would come 9 s instead of 3 s after
// its creation while another namespace has 2,000 on their way, and these would be in the members a tenth sooner.
const share = 8

// NewLimiter returns a limiter with a number of slots for each processor. Work that has lasted for longest releases its slot.
func NewLimiter(clk clock.WithDelayedExecution, perProcessor int, longest time.Duration) *Limiter {
	processors := runtime.GOMAXPROCS(0)
	return &Limiter{clock: clk, slots: perProcessor * processors, besideUsers: max(1, processors/2), processors: processors, longest: longest}
}

// UserRequest leaves no slots for usersAlone, and then one for every second processor, until the request ends. What has a slot keeps it.
func (l *Limiter) UserRequest() (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users++
	l.together = l.together || l.users > 1
	if !l.busy {
		l.busy = true
		l.alone = max(0, l.alone-l.change())
	}
	l.later(usersAlone-l.alone-l.clock.Since(l.changed), l.grant)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.users--; l.users > 0 {
			return
		}
		if l.together {
			l.later(between, l.leave)
		} else {
			l.leave()
		}
	}
}

// leave ends the time of requests of users. The lock is held.
func (l *Limiter) leave() {
	if l.users > 0 || !l.busy {
		return
	}
	l.busy, l.together = false, false
	l.alone = min(usersAlone, l.alone+l.change())
	l.later(afterwards, l.grant)
	l.grant()
}

// change sets changed, and returns how long ago it was. The lock is held.
func (l *Limiter) change() time.Duration {
	now := l.clock.Now()
	defer func() { l.changed = now }()
	return now.Sub(l.changed)
}

// later calls f, with the lock held, after a time. The lock is held.
func (l *Limiter) later(after time.Duration, f func()) {
	if l.again != nil {
		l.again.Stop()
	}
	l.again = l.clock.AfterFunc(max(0, after), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		f()
	})
}

// Slot is that of one piece of work. A nil Slot is that of work without a limit.
type Slot struct {
	limiter *Limiter
	granted chan struct{} // closed when the work may begin
	// The lock of the limiter is held for what follows.
	held   bool
	ended  bool
	paused int // how many goroutines of the work wait for an answer
	timer  clock.Timer
	large  bool        // it has had a turn with a large object
	turn   clock.Timer // ends it; nil without one
}

// slotKey is the key of the slot in the context of its work.
type slotKey struct{}

// Acquire waits until a slot is free, or ctx ends. Release ends the work. The context is the one for Pause.
func (l *Limiter) Acquire(ctx context.Context) (_ context.Context, release func()) {
	if l == nil {
		return ctx, func() {}
	}
	return l.acquire(ctx, &l.waiting)
}

// AcquireBehind is Acquire for work that others do not wait for. While as much other work computes as there are processors, one such piece
// begins for every share of other ones that begin.
func (l *Limiter) AcquireBehind(ctx context.Context) (_ context.Context, release func()) {
	if l == nil {
		return ctx, func() {}
	}
	return l.acquire(ctx, &l.behind)
}

func (l *Limiter) acquire(ctx context.Context, queue *[]*Slot) (_ context.Context, release func()) {
	s := &Slot{limiter: l, granted: make(chan struct{})}
	l.mu.Lock()
	*queue = append(*queue, s)
	l.grant()
	l.mu.Unlock()
	select {
	case <-s.granted:
	case <-ctx.Done():
		l.mu.Lock()
		*queue = slices.DeleteFunc(*queue, func(other *Slot) bool { return other == s })
		l.mu.Unlock()
	}
	return context.WithValue(ctx, slotKey{}, s), s.end
}

// queued is how much work waits for a slot.
func (l *Limiter) queued() int {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting) + len(l.behind)
}

// contended returns whether work that is not behind other waits for a slot.
func (l *Limiter) contended() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting) > 0
}

// grant gives the slots that are free to those who wait. The lock is held.
func (l *Limiter) grant() {
	slots, since := l.slots, l.clock.Since(l.changed)
	switch {
	case l.busy && since < usersAlone-l.alone:
		slots = 0
	case l.busy:
		slots = l.besideUsers
	case since < afterwards:
		slots = l.processors
	}
	for l.used < slots {
		switch {
		case len(l.behind) > 0 && (l.begun >= share || len(l.waiting) == 0 && l.used < l.processors):
			l.begun = 0
			begin(&l.behind)
		case len(l.waiting) > 0:
			l.begun++
			begin(&l.waiting)
		default:
			return
		}
	}
}

// begin gives a slot to the first of a queue. The lock is held.
func begin(queue *[]*Slot) {
	s := (*queue)[0]
	(*queue)[0] = nil
	*queue = (*queue)[1:]
	s.take()
	close(s.granted)
}

// take has the work hold a slot. The lock is held.
func (s *Slot) take() {
	s.held = true
	s.limiter.used++
	if s.timer == nil {
		s.timer = s.limiter.clock.AfterFunc(s.limiter.longest, s.expire)
	} else {
		s.timer.Reset(s.limiter.longest)
	}
}

// release gives the slot back, if the work holds it. The lock is held.
func (s *Slot) release() {
	if !s.held {
		return
	}
	s.timer.Stop()
	s.held = false
	s.limiter.used--
	s.limiter.grant()
}

// expire releases the slot of work that has lasted for long.
func (s *Slot) expire() {
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	s.release()
}

func (s *Slot) end() {
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	s.ended = true
	s.release()
	s.endTurn()
}

// SlotOf returns the slot of the work that has the context; nil without a limit.
func SlotOf(ctx context.Context) *Slot {
	s, _ := ctx.Value(slotKey{}).(*Slot)
	return s
}

// With returns a context for a part of the work, whose Pause is one of the work.
func (s *Slot) With(ctx context.Context) context.Context {
	if s == nil {
		return ctx
	}
	return context.WithValue(ctx, slotKey{}, s)
}

// Pause releases the slot until the returned function is called. It is to be called before the work waits, such as for the answer to a request.
func (s *Slot) Pause() (resume func()) {
	if s == nil {
		return func() {}
	}
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	s.paused++
	s.release()
	return sync.OnceFunc(func() {
		s.limiter.mu.Lock()
		defer s.limiter.mu.Unlock()
		if s.paused--; s.paused == 0 && !s.ended {
			s.take()
		}
	})
}

// Pause releases the slot of the work that has the context; see Slot.Pause.
func Pause(ctx context.Context) (resume func()) { return SlotOf(ctx).Pause() }

// Lock locks a mutex that may be held while a request is answered.
func Lock(ctx context.Context, mu *sync.Mutex) {
	if !mu.TryLock() {
		resume := Pause(ctx)
		mu.Lock()
		resume()
	}
}
