package brake

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Defaults of Config.
const (
	DefaultShare   = 0.5
	DefaultWindow  = 10 * time.Minute
	DefaultMinimum = 500
)

// MaxRelease is the longest time for which the brake can be released at once.
const MaxRelease = 24 * time.Hour

// Config is when the brake engages.
type Config struct {
	// Share is the part of a member's objects, and of all members' objects together, that may be removed or scaled down within
	// Window. Zero means DefaultShare; 1 or more turns the brake off.
	Share float64
	// Window is the time over which removals and shrinkages are added up. Zero means DefaultWindow.
	Window time.Duration
	// Minimum is the number of managed objects below which a member, or the fleet, is not braked. Zero means DefaultMinimum.
	Minimum int
}

func (c Config) complete() Config {
	if c.Share == 0 {
		c.Share = DefaultShare
	}
	if c.Window == 0 {
		c.Window = DefaultWindow
	}
	if c.Minimum == 0 {
		c.Minimum = DefaultMinimum
	}
	return c
}

// Cause is whose account was exceeded.
type Cause int

// The causes.
const (
	// None: the brake is not engaged.
	None Cause = iota
	// Member: more than the share of the member's own objects.
	Member
	// Fleet: more than the share of the objects of all members together.
	Fleet
	// Before: an earlier process engaged the brake.
	Before
)

// State is what is known about one member.
type State struct {
	// Cause is not None while the brake is engaged.
	Cause Cause
	// Touched is how many objects were or are to be removed or scaled down, and Objects how many there were, when the brake
	// engaged.
	Touched, Objects int
	// Waiting is how many Works wait for the brake now.
	Waiting int
}

// Brake keeps the accounts of all members. Its methods may be called from several goroutines.
type Brake struct {
	// config is read at every decision. Window is that of the start: what was counted is in parts of it.
	config  func() Config
	window  time.Duration
	clock   clock.PassiveClock
	changed func(cluster string)

	mu      sync.Mutex
	members map[string]*account
}

// New returns a brake. Config is called at every decision and must return quickly; what it returns as Window counts at the first call only.
// Changed is called, without a lock, when a member's brake engages; it must not block.
func New(config func() Config, clock clock.PassiveClock, changed func(cluster string)) *Brake {
	return &Brake{config: config, window: config().complete().Window, clock: clock, changed: changed, members: map[string]*account{}}
}

// Work is what one Work means to the account of its member.
type Work struct {
	// Objects is how many objects it holds, and Leaving how many of them are to be removed.
	Objects, Leaving int
}

// Change records that a Work changed. The zero Work means that there is none.
func (b *Brake) Change(cluster string, key types.NamespacedName, before, after Work) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(cluster)
	a.objects += after.Objects - before.Objects
	a.leaving += after.Leaving - before.Leaving
	if after != (Work{}) {
		return
	}
	delete(a.waiting, key)
	if a.admitted[key] {
		delete(a.admitted, key)
		a.removed.add(b.clock.Now(), b.step(), before.Leaving)
	}
}

// Exclude takes a member that is being removed as a whole, with its objects kept, out of the fleet's account, or back in.
func (b *Brake) Exclude(cluster string, excluded bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.account(cluster).excluded = excluded
}

// Resume engages the brake of a member that an earlier process engaged. Only the first call about a member counts.
func (b *Brake) Resume(cluster string, engaged bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(cluster)
	if a.resumed {
		return
	}
	a.resumed = true
	if engaged && a.state.Cause == None && !b.off() {
		a.state.Cause, a.refused = Before, b.clock.Now()
	}
}

// Reset ends what was decided about a member that another process writes to. The next call of Resume counts as the first.
func (b *Brake) Reset(cluster string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(cluster)
	a.resumed, a.state, a.until = false, State{}, time.Time{}
	clear(a.waiting)
}

// Release lets everything pass in a member until then. What was counted before no longer counts. A time that is more than
// MaxRelease away, or over, changes nothing.
func (b *Brake) Release(cluster string, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, a := b.clock.Now(), b.account(cluster)
	if !until.After(now) || until.Sub(now) > MaxRelease || !until.After(a.until) {
		return
	}
	a.until = until
	a.removed, a.extra = window{}, window{}
	a.state = State{}
}

// Request is the removal or scaling down of an object of a Work.
type Request struct {
	Cluster string
	Work    types.NamespacedName
	// Removal is true if the Work is being deleted: its objects count as removed when it is gone.
	Removal bool
	// Extra is how many objects that touches besides those that Change recorded as leaving.
	Extra int
}

// Admit is true if a request may be carried out now. One that may not waits: the caller retries after the brake is released.
func (b *Brake) Admit(q Request) bool {
	admitted, engaged := b.admit(q)
	if engaged {
		b.changed(q.Cluster)
	}
	return admitted
}

func (b *Brake) admit(q Request) (admitted, engaged bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, a := b.clock.Now(), b.account(q.Cluster)
	if b.off() {
		delete(a.waiting, q.Work) // it may have been on before
		return true, false
	}
	if now.Before(a.until) {
		return true, false
	}
	delete(a.waiting, q.Work)
	if a.state.Cause == None {
		a.state = b.judge(now, a, q.Extra)
		engaged = a.state.Cause != None
	}
	if a.state.Cause != None {
		a.refused = now
		if a.waiting == nil {
			a.waiting = map[types.NamespacedName]int{}
		}
		a.waiting[q.Work] = q.Extra
		return false, engaged
	}
	a.extra.add(now, b.step(), q.Extra)
	if q.Removal {
		if a.admitted == nil {
			a.admitted = map[types.NamespacedName]bool{}
		}
		a.admitted[q.Work] = true
	}
	return true, false
}

// judge adds up the accounts. The lock is held.
func (b *Brake) judge(now time.Time, a *account, extra int) State {
	touched, objects := a.sum(now, b.step())
	touched += extra
	if b.exceeds(touched, objects) {
		return State{Cause: Member, Touched: touched, Objects: objects}
	}
	touched, objects = extra, 0
	for _, one := range b.members {
		if !one.excluded {
			t, o := one.sum(now, b.step())
			touched, objects = touched+t, objects+o
		}
	}
	if b.exceeds(touched, objects) {
		return State{Cause: Fleet, Touched: touched, Objects: objects}
	}
	return State{}
}

func (b *Brake) exceeds(touched, objects int) bool {
	config := b.config().complete()
	return objects >= config.Minimum && float64(touched) > config.Share*float64(objects)
}

func (b *Brake) step() time.Duration { return max(b.window/buckets, 1) }

func (b *Brake) off() bool { return b.config().Share >= 1 }

// Clear ends the wait of a Work that is reconciled again.
func (b *Brake) Clear(cluster string, work types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.members[cluster]; a != nil {
		delete(a.waiting, work)
	}
}

// Look returns the state of a member, after it has released a brake that is off now, or for which nothing has waited for a whole window.
// Next is when to call it again while the brake is engaged.
func (b *Brake) Look(cluster string) (state State, next time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(cluster)
	since := b.clock.Since(a.refused)
	if b.off() || len(a.waiting) == 0 && since >= b.window {
		a.state = State{}
	}
	state = a.state
	state.Waiting = len(a.waiting)
	if state.Cause != None {
		next = max(b.window-since, b.step())
	}
	return state, next
}

// Forget drops a member that is gone.
func (b *Brake) Forget(cluster string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.members, cluster)
}

// Describe is the text of when the brake engages.
func (b *Brake) Describe() string {
	return fmt.Sprintf("more than %.4g %% within %s", 100*b.config().complete().Share, b.window)
}

func (b *Brake) account(cluster string) *account {
	a := b.members[cluster]
	if a == nil {
		a = &account{}
		b.members[cluster] = a
	}
	return a
}
