package controlloop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// Deadline ends the context of a reconcile. Requests to members have deadlines of seconds; this one is for what has none.
	Deadline = 5 * time.Minute
	// stuckAfter is the age at which a reconcile counts as stuck: it did not return though its context has ended.
	stuckAfter = 2 * Deadline
)

// ErrPostponed is wrapped by errors that mean that there is nothing to do now, such as for a member that cannot be reached. They
// are counted apart from failures.
var ErrPostponed = errors.New("postponed")

// Set is the control loops of one process.
type Set struct {
	clock   clock.PassiveClock
	metrics *metrics
	// tracer is nil if nothing is traced.
	tracer trace.Tracer
	// cause is that of Link; nil without.
	cause func(binding string) trace.SpanContext

	mu    sync.Mutex
	loops map[string]*Loop
	limit *Limiter // nil without Limit
}

// Loop is one control loop. All its reconciles, of all members, have its name.
type Loop struct {
	name string
	set  *Set

	mu      sync.Mutex
	state   state
	ended   error
	parts   int // those that run
	next    uint64
	running map[uint64]ongoing
	queue   *Queue // nil for a loop of controller-runtime
	limit   *Limiter
	behind  bool // its reconciles begin behind those of other loops
	// caches has the caches for which the loop waits, each with whether it has synced.
	caches map[string]func() bool
}

// ongoing is a reconcile that has not returned.
type ongoing struct {
	key   any
	since time.Time
}

type state int

const (
	unmanaged state = iota // it is a part of a loop with another name
	waiting
	started
	stopped
)

// Loop returns the loop of a name, and creates it if there is none. A nil Set has loops that nothing measures.
func (s *Set) Loop(name string) *Loop {
	if s == nil {
		s = NewSet(nil, clock.RealClock{})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.loops[name]
	if !ok {
		l = &Loop{name: name, set: s, running: map[uint64]ongoing{}, caches: map[string]func() bool{}}
		s.loops[name] = l
	}
	return l
}

// all returns the loops in the order of their names.
func (s *Set) all() []*Loop {
	s.mu.Lock()
	defer s.mu.Unlock()
	loops := make([]*Loop, 0, len(s.loops))
	for _, l := range s.loops {
		loops = append(loops, l)
	}
	slices.SortFunc(loops, func(a, b *Loop) int { return strings.Compare(a.name, b.name) })
	return loops
}

// Checks returns the check of each loop by name; see Loop.Check.
func (s *Set) Checks() map[string]func() error {
	checks := map[string]func() error{}
	for _, l := range s.all() {
		checks[l.name] = l.Check
	}
	return checks
}

// Do reconciles one object: it calls f with a context that is cancelled after Deadline, and returns its error. A panic becomes a
// *PanicError. The key names the object when the reconcile is stuck.
func (l *Loop) Do(ctx context.Context, key any, f func(context.Context) error) error {
	ctx, release := l.acquire(ctx)
	defer release()
	ctx, stop := withDeadline(ctx)
	defer stop()
	ctx, traced := l.span(ctx, key)
	end := l.begin(key)
	start := l.set.clock.Now()
	err := CatchPanic(func() error { return f(ctx) })
	end()
	traced(err)
	l.set.metrics.reconciled(l.name, l.set.clock.Since(start), err)
	return err
}

// Turn does what a part of the loop does from time to time, without a work queue, as Do does: what ends with a panic is counted and reported,
// and the part goes on. It logs why a turn failed, unless the context has ended, and returns whether it succeeded: its caller repeats it.
func (l *Loop) Turn(ctx context.Context, what string, f func(context.Context) error) (ok bool) {
	err := l.Do(ctx, what, f)
	if err != nil && ctx.Err() == nil {
		LogFailure(log.FromContext(ctx).WithValues("turn", what), err, 1, false)
	}
	return err == nil
}

// acquire waits until a reconcile may begin; see Limiter.Acquire.
func (l *Loop) acquire(ctx context.Context) (_ context.Context, release func()) {
	if l.behind {
		return l.limit.AcquireBehind(ctx)
	}
	return l.limit.Acquire(ctx)
}

// withDeadline returns a context that is cancelled after Deadline. It is not that of context.WithTimeout: to a request, a
// deadline of its context is one of its own, and replaces its timeout of seconds.
func withDeadline(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(Deadline, func() { cancel(context.DeadlineExceeded) })
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// Contended returns whether reconciles wait for a slot: more workers of a loop that begins behind no other would only wait, too.
func (l *Loop) Contended() bool { return l.limit.contended() }

// begin records that a reconcile runs, until the returned function is called.
func (l *Loop) begin(key any) (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	id := l.next
	l.running[id] = ongoing{key, l.set.clock.Now()}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.running, id)
	}
}

// longest returns the reconcile that runs the longest, and whether any runs.
func (l *Loop) longest() (oldest ongoing, any bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.running {
		if !any || r.since.Before(oldest.since) {
			oldest, any = r, true
		}
	}
	return oldest, any
}

// Check returns nil if all parts of the loop that were added to its Manager run, their caches have synced, and none of its reconciles is
// stuck. Else it returns an error with what is wrong.
func (l *Loop) Check() error {
	l.mu.Lock()
	state, ended := l.state, l.ended
	l.mu.Unlock()
	switch {
	case state == waiting:
		return errors.New("not started yet")
	case state == stopped && ended != nil:
		return fmt.Errorf("ended: %w", ended)
	case state == stopped:
		return errors.New("ended")
	}
	if caches := l.unsynced(); caches != "" {
		return fmt.Errorf("these caches have not synced yet: %s", caches)
	}
	if oldest, any := l.longest(); any {
		if age := l.set.clock.Since(oldest.since); age > stuckAfter {
			return fmt.Errorf("the reconcile of %v has not returned for %s", oldest.key, age.Round(time.Second))
		}
	}
	return nil
}

func (l *Loop) starts() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parts++
	if l.state == waiting {
		l.state = started
	}
}

// ends records that a part of the loop ended. If that is an end of the loop, the others do not make up for it.
func (l *Loop) ends(err error, whole bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parts--
	if whole {
		l.state, l.ended = stopped, err
	}
}

// Ended returns the error with which a manager ended, with the loops that had not: those did not end in the time that they have.
func (s *Set) Ended(err error) error {
	if err == nil {
		return nil
	}
	var left []string
	for _, l := range s.all() {
		l.mu.Lock()
		running := l.parts > 0
		l.mu.Unlock()
		if oldest, any := l.longest(); any && running {
			left = append(left, fmt.Sprintf("%s, which reconciles %v", l.name, oldest.key))
		} else if running {
			left = append(left, l.name)
		}
	}
	if len(left) == 0 {
		return err
	}
	return fmt.Errorf("%w; still running: %s", err, strings.Join(left, "; "))
}

// Limit bounds how many reconciles of all loops that are named compute at a time. Those of the loops of behind begin behind others, as
// Limiter.AcquireBehind has it. It is to be called once, before they run. The loops that are not named begin at once: what probes members or
// renews a Lease must not wait for the others.
func (s *Set) Limit(limit *Limiter, loops, behind []string) {
	s.mu.Lock()
	s.limit = limit
	s.mu.Unlock()
	for i, name := range slices.Concat(loops, behind) {
		l := s.Loop(name)
		l.mu.Lock()
		l.limit, l.behind = limit, i >= len(loops)
		l.mu.Unlock()
	}
}
