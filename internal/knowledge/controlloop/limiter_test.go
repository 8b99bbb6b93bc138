package controlloop

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// reconciles begins reconciles in goroutines, and returns what each of them reports once it has begun.
type reconciles struct {
	limit *Limiter
	begun chan turn
}

// turn is a reconcile that has begun.
type turn struct {
	ctx context.Context
	end func()
}

// longest is how long a reconcile has its slot that does not pause.
const longest = time.Second

func newReconciles(slots int) *reconciles {
	return &reconciles{limit: &Limiter{clock: clock.RealClock{}, slots: slots, besideUsers: 1, processors: 2, longest: longest}, begun: make(chan turn, 100)}
}

func (r *reconciles) begin(ctx context.Context) {
	ctx, end := r.limit.Acquire(ctx)
	r.begun <- turn{ctx, end}
}

// waiting checks how many reconciles wait for their beginning once no goroutine can go on.
func (r *reconciles) waiting(t *testing.T, want int) {
	t.Helper()
	synctest.Wait()
	if got := r.limit.queued(); got != want {
		t.Errorf("%d reconciles wait, want %d", got, want)
	}
}

// computing checks how many reconciles count.
func (r *reconciles) computing(t *testing.T, want int) {
	t.Helper()
	r.limit.mu.Lock()
	defer r.limit.mu.Unlock()
	if got := r.limit.used; got != want {
		t.Errorf("%d reconciles compute, want %d", got, want)
	}
}

func TestOnlySoManyCompute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReconciles(2)
		for range 5 {
			go r.begin(t.Context())
		}
		r.waiting(t, 3)
		for left := 3; left > 0; left-- { // each that ends lets one begin
			(<-r.begun).end()
			r.waiting(t, left-1)
			r.computing(t, 2)
		}
		(<-r.begun).end()
		(<-r.begun).end()
		r.computing(t, 0)
	})
}

func TestWhatWaitsForAnAnswerDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReconciles(1)
		r.begin(t.Context())
		first := <-r.begun
		resume, alsoResume := Pause(first.ctx), Pause(first.ctx) // two requests at a time
		r.begin(t.Context())
		second := <-r.begun
		resume()
		resume()
		r.computing(t, 1) // one goroutine still waits
		alsoResume()
		r.computing(t, 2) // it goes on at once
		go r.begin(t.Context())
		r.waiting(t, 1)
		second.end()
		r.waiting(t, 1)
		first.end()
		third := <-r.begun
		late := Pause(third.ctx)
		third.end()
		late() // an answer that nothing waits for any more
		r.computing(t, 0)
	})
}

func TestWhatComputesForLongDoesNotStopOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReconciles(1)
		r.begin(t.Context())
		first := <-r.begun
		go r.begin(t.Context())
		r.waiting(t, 1)
		<-time.After(longest)
		second := <-r.begun
		first.end()
		r.computing(t, 1)
		second.end()
		r.computing(t, 0)
	})
}

// TestWhatIsBehindBeginsAfterAShareOfOthers: at once only while a processor is idle.
func TestWhatIsBehindBeginsAfterAShareOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReconciles(4)
		behind := make(chan turn, 10)
		beginBehind := func() {
			ctx, end := r.limit.AcquireBehind(t.Context())
			behind <- turn{ctx, end}
		}
		beginBehind()
		(<-behind).end()
		var others []turn
		begin := func() {
			t.Helper()
			r.begin(t.Context()) // a slot is free
			others = append(others, <-r.begun)
		}
		begin()
		beginBehind() // on the other processor
		begin()
		go beginBehind()
		go beginBehind()
		(<-behind).end()
		r.waiting(t, 2) // two others compute
		if r.limit.contended() {
			t.Error("other work waits for a slot")
		}
		for range share - 1 { // the first of a share has begun
			r.waiting(t, 2)
			begin()
			others[0].end()
			others = others[1:]
		}
		r.waiting(t, 1)
		(<-behind).end()
		r.waiting(t, 1)
		others[0].end()
		r.waiting(t, 0) // a processor is idle
		(<-behind).end()
		others[1].end()
		r.computing(t, 0)
	})
}

// TestWhatIsBehindTakesNoSlotThatOthersWaitFor: while requests of users leave one slot.
func TestWhatIsBehindTakesNoSlotThatOthersWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReconciles(4)
		endUser := r.limit.UserRequest()
		behind := make(chan struct{})
		go func() {
			_, end := r.limit.AcquireBehind(t.Context())
			end()
			close(behind)
		}()
		go r.begin(t.Context())
		r.waiting(t, 2)
		if !r.limit.contended() {
			t.Error("no work waits for a slot")
		}
		<-time.After(usersAlone)
		r.waiting(t, 1)
		(<-r.begun).end()
		<-behind
		endUser()
	})
}

func TestTheEndOfTheProcessBeginsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReconciles(1)
		ctx, cancel := context.WithCancel(t.Context())
		r.begin(ctx)
		first := <-r.begun
		go r.begin(ctx)
		r.waiting(t, 1)
		cancel()
		(<-r.begun).end()
		r.waiting(t, 0)
		r.computing(t, 1)
		first.end()
		r.computing(t, 0)
	})
}

func TestFewerComputeWhileUsersAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReconciles(3)
		for range 3 {
			r.begin(t.Context())
		}
		end, alsoEnd := r.limit.UserRequest(), r.limit.UserRequest()
		r.computing(t, 3) // those that have begun go on
		for range 3 {
			go r.begin(t.Context())
		}
		for range 3 {
			(<-r.begun).end()
		}
		r.waiting(t, 3)
		r.computing(t, 0)
		<-time.After(usersAlone - time.Millisecond)
		r.waiting(t, 3) // none for the first time
		<-time.After(time.Millisecond)
		r.waiting(t, 2)
		r.computing(t, 1)
		(<-r.begun).end()
		r.waiting(t, 1) // one at a time
		r.computing(t, 1)
		end()
		r.waiting(t, 1)
		for range 2 {
			go r.begin(t.Context())
		}
		alsoEnd()
		r.waiting(t, 3) // further requests may come
		<-time.After(between)
		r.waiting(t, 2)
		r.computing(t, 2) // one for each processor, until no further request came for a moment
		<-time.After(afterwards)
		r.waiting(t, 1)
		r.computing(t, 3)
		for range 4 {
			(<-r.begun).end()
		}
		r.computing(t, 0)
	})
}

func TestUsersAreAloneForABoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReconciles(3)
		// alone checks for how long no reconcile begins beside a request.
		alone := func(want time.Duration) {
			t.Helper()
			end := r.limit.UserRequest()
			begins := time.Now()
			r.begin(t.Context())
			if got := time.Since(begins); got != want {
				t.Errorf("A reconcile begins after %v, want %v", got, want)
			}
			(<-r.begun).end()
			end()
		}
		alone(usersAlone)
		alone(0)
		<-time.After(usersAlone / 4)
		alone(usersAlone / 4)
		<-time.After(time.Hour)
		alone(usersAlone)

		// Each request has what earlier ones left.
		<-time.After(usersAlone)
		for range 4 {
			end := r.limit.UserRequest()
			<-time.After(usersAlone / 5)
			end()
		}
		alone(usersAlone / 5)
	})
}

// TestSeveralClientsAreAloneBetweenTheirRequests: for a bounded time, too.
func TestSeveralClientsAreAloneBetweenTheirRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReconciles(3)
		ctx, stop := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			for ctx.Err() == nil {
				end, alsoEnd := r.limit.UserRequest(), r.limit.UserRequest()
				end()
				alsoEnd()
				<-time.After(between / 2)
			}
		}()
		synctest.Wait()
		begins := time.Now()
		for range 2 { // once: the second begins at once
			r.begin(t.Context())
			if got := time.Since(begins); got != usersAlone {
				t.Errorf("A reconcile begins after %v, want %v", got, usersAlone)
			}
			(<-r.begun).end()
		}
		stop()
		<-gone
	})
}

func TestAPartOfTheWorkPausesIt(t *testing.T) {
	r := newReconciles(1)
	r.limit.clock = clocktesting.NewFakeClock(time.Now())
	r.begin(t.Context())
	first := <-r.begun
	type key struct{}
	part := SlotOf(context.WithValue(first.ctx, key{}, "value")).With(t.Context())
	if part.Value(key{}) != nil {
		t.Error("the part has a value of the work besides its slot")
	}
	resume := Pause(part)
	r.computing(t, 0)
	resume()
	r.computing(t, 1)
	first.end()
	SlotOf(t.Context()).With(t.Context())
	SlotOf(t.Context()).Pause()() // without a limit
	r.computing(t, 0)
}

func TestLock(t *testing.T) {
	r := newReconciles(1)
	r.limit.clock = clocktesting.NewFakeClock(time.Now()) // the first one counts until it pauses
	var mu sync.Mutex
	mu.Lock() // by a goroutine that waits for an answer
	r.begin(t.Context())
	first := <-r.begun
	locked := make(chan struct{})
	go func() {
		Lock(first.ctx, &mu)
		close(locked)
	}()
	r.begin(t.Context()) // which the first does not stop
	second := <-r.begun
	mu.Unlock()
	<-locked
	r.computing(t, 2)
	mu.Unlock()
	first.end()
	second.end()
	r.computing(t, 0)
}
