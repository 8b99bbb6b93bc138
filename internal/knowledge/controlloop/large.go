package controlloop

import (
	"context"
	"slices"
	"time"
)

// LargeBytes is from how many bytes of text on an object is large. To read, interpret, write and apply one of 1 MB takes a processor here and in the
// API servers up to seconds; one of this size takes tens of milliseconds.
const LargeBytes = 128 << 10

// longestTurn is how long work has its turn, also if it goes on: what waits for a member or a webhook that does not answer must not stop all others.
const longestTurn = 5 * time.Second

// turns are those of work on large objects. They have half of the processors, in the order in which tenants were served last: a large object
// waits for one of each other tenant at most, and what is small waits for none.
type turns struct {
	used    int
	waiting []*largeTurn // in the order in which they came
	// served has the number of the last turn of each tenant since work began to wait.
	served map[string]int
	count  int
}

// largeTurn is that of one piece of work.
type largeTurn struct {
	slot    *Slot
	tenant  string
	granted chan struct{}
}

// Large waits until the work that has the context may go on with an object of so many bytes, which belongs to a tenant. The work has its turn until
// it ends or for longestTurn, also while it waits for an answer: most of the time is that of the API servers. It returns at once if the object is not large, if the
// work has a turn already, and without a limit.
func Large(ctx context.Context, tenant string, bytes int) {
	s := SlotOf(ctx)
	if s == nil || bytes < LargeBytes {
		return
	}
	l := s.limiter
	l.mu.Lock()
	if s.large || s.ended {
		l.mu.Unlock()
		return
	}
	t := &largeTurn{slot: s, tenant: tenant, granted: make(chan struct{})}
	l.turns.waiting = append(l.turns.waiting, t)
	l.grantTurns()
	waits := !s.large
	l.mu.Unlock()
	if !waits {
		return
	}
	defer s.Pause()()
	select {
	case <-t.granted:
		return
	case <-ctx.Done():
	}
	l.mu.Lock()
	l.turns.waiting = slices.DeleteFunc(l.turns.waiting, func(other *largeTurn) bool { return other == t })
	l.mu.Unlock()
}

// grantTurns gives the turns that are free to those who wait. The lock is held.
func (l *Limiter) grantTurns() {
	t := &l.turns
	for t.used < max(1, l.processors/2) && len(t.waiting) > 0 {
		next := 0
		for i, other := range t.waiting {
			if t.served[other.tenant] < t.served[t.waiting[next].tenant] {
				next = i
			}
		}
		granted := t.waiting[next]
		t.waiting = slices.Delete(t.waiting, next, next+1)
		close(granted.granted)
		if granted.slot.large { // another part of the work waited, too
			continue
		}
		t.used++
		t.count++
		if t.served == nil {
			t.served = map[string]int{}
		}
		t.served[granted.tenant] = t.count
		granted.slot.large = true
		granted.slot.turn = l.clock.AfterFunc(longestTurn, granted.slot.expireTurn)
	}
	if len(t.waiting) == 0 {
		t.served, t.count = nil, 0
	}
}

// endTurn gives the turn of work that ends to the next. The lock is held.
func (s *Slot) endTurn() {
	if s.turn != nil {
		s.turn.Stop()
		s.turn = nil
		s.limiter.turns.used--
		s.limiter.grantTurns()
	}
}

// expireTurn ends the turn of work that has lasted for long.
func (s *Slot) expireTurn() {
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	s.endTurn()
}
