package brake

import (
	"fmt"
	"maps"
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

const (
	// MinLastCopies is the number of last copies from which on their removal counts by share, below Minimum as well. Fewer are what a person
	// tries something with, and can make again by hand.
	MinLastCopies = 10
	// quiet is the pause after which one change of a person has ordered all removals that it causes, and maxSettle is the longest wait for it.
	quiet     = 2 * time.Second
	maxSettle = 10 * time.Second
	// orderedWithin is how long after the deletion of a template the removal of its copies is ordered at the latest, as a rule.
	orderedWithin = 5 * time.Second
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
	// Touched is how many objects were or are to be removed or scaled down and were not made again, and Objects how many there were, when the
	// brake engaged.
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
	// firstOrdered and lastOrdered are when the removals of last copies were ordered, without a pause of quiet between them.
	firstOrdered, lastOrdered time.Time
}

// New returns a brake. Config is called at every decision and must return quickly; what it returns as Window counts at the first call only.
// Changed is called, without a lock, when a member's brake engages or another number of Works waits for it; it must not block.
func New(config func() Config, clock clock.PassiveClock, changed func(cluster string)) *Brake {
	return &Brake{config: config, window: config().complete().Window, clock: clock, changed: changed, members: map[string]*account{}}
}

// Work is what one Work means to the account of its member.
type Work struct {
	// Objects is how many objects it holds, and Leaving how many of them are to be removed.
	Objects, Leaving int
	// Last is how many of those that leave are the last copies of templates that stay.
	Last int
}

// Change records that a Work changed. The zero Work means that there is none.
func (b *Brake) Change(cluster string, key types.NamespacedName, before, after Work) {
	if b.change(cluster, key, before, after) {
		b.changed(cluster)
	}
}

func (b *Brake) change(cluster string, key types.NamespacedName, before, after Work) (waited bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	if after.Last > before.Last {
		if now.Sub(b.lastOrdered) >= quiet {
			b.firstOrdered = now
		}
		b.lastOrdered = now
	}
	return b.account(cluster).change(now, b.step(), key, before, after)
}

// Settles returns how long the removal of a last copy waits until the others of the same change are ordered and count as well.
func (b *Brake) Settles() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.off() {
		return 0
	}
	now := b.clock.Now()
	return min(quiet-now.Sub(b.lastOrdered), maxSettle-now.Sub(b.firstOrdered))
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
	a.resumed, a.asked, a.state, a.until = false, false, State{}, time.Time{}
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
	a.most, a.lost, a.extra, a.shrunk = peak{}, window{}, window{}, nil
	a.state = State{}
}

// Object is the name of an object in a member, with its kind.
type Object string

// Scaling is a change of the replicas of an object.
type Scaling struct {
	Object   Object
	From, To int64
}

// Request is the removal or scaling of an object of a Work.
type Request struct {
	Cluster string
	Work    types.NamespacedName
	// Scaling is nil for a removal. One that adds replicas is always admitted.
	Scaling *Scaling
	// Removal is true if the Work is being deleted: its objects count as removed when it is gone.
	Removal bool
	// Extra is how many objects that touches besides those that Change recorded as leaving.
	Extra int
}

// Admit is true if a request may be carried out now. One that may not waits: the caller retries after the brake is released.
func (b *Brake) Admit(q Request) bool {
	admitted, news := b.admit(q)
	if news {
		b.changed(q.Cluster)
	}
	return admitted
}

// admit returns also whether another number of Works waits than before.
func (b *Brake) admit(q Request) (admitted, news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, a := b.clock.Now(), b.account(q.Cluster)
	if q.Scaling != nil {
		if q.Scaling.To >= q.Scaling.From {
			a.grow(now, b.step(), q.Scaling.Object, q.Scaling.To)
			return true, false
		}
		q.Extra = 1
	}
	before := len(a.waiting)
	delete(a.waiting, q.Work)
	if b.off() || now.Before(a.until) { // it may have been on before
		return true, len(a.waiting) != before
	}
	if a.state.Cause == None {
		a.state = b.judge(now, a, q.Extra)
	}
	if a.state.Cause != None {
		a.refused, a.asked = now, true
		if a.waiting == nil {
			a.waiting = map[types.NamespacedName]int{}
		}
		a.waiting[q.Work] = q.Extra
		return false, len(a.waiting) != before
	}
	if q.Scaling != nil {
		a.shrink(now, b.step(), q.Scaling.Object, q.Scaling.From)
	} else {
		a.extra.add(now, b.step(), q.Extra)
	}
	if q.Removal {
		if a.admitted == nil {
			a.admitted = map[types.NamespacedName]bool{}
		}
		a.admitted[q.Work] = true
	}
	return true, len(a.waiting) != before
}

// WillWait returns whether the removal of the objects of Works, which a user has requested just now, will wait if it is the last of those that
// were requested before and are not ordered yet.
func (b *Brake) WillWait(cluster string, works []types.NamespacedName) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, a := b.clock.Now(), b.account(cluster)
	if b.off() || now.Before(a.until) {
		return false
	}
	maps.DeleteFunc(a.requested, func(_ types.NamespacedName, at time.Time) bool { return now.Sub(at) > orderedWithin })
	if a.requested == nil {
		a.requested = map[types.NamespacedName]time.Time{}
	}
	for _, work := range works {
		a.requested[work] = now
	}
	return a.state.Cause != None || b.judge(now, a, len(a.requested)).Cause != None
}

// judge adds up the accounts. The lock is held.
func (b *Brake) judge(now time.Time, a *account, extra int) State {
	touched, last, objects := a.sum(now, b.step())
	touched += extra
	if b.exceeds(touched, last, objects) {
		return State{Cause: Member, Touched: touched, Objects: objects}
	}
	touched, last, objects = extra, 0, 0
	for _, one := range b.members {
		if !one.excluded {
			t, l, o := one.sum(now, b.step())
			touched, last, objects = touched+t, last+l, objects+o
		}
	}
	if b.exceeds(touched, last, objects) {
		return State{Cause: Fleet, Touched: touched, Objects: objects}
	}
	return State{}
}

func (b *Brake) exceeds(touched, last, objects int) bool {
	config := b.config().complete()
	limit := config.Share * float64(objects)
	return objects >= config.Minimum && float64(touched) > limit || last >= MinLastCopies && float64(last) > limit
}

func (b *Brake) step() time.Duration { return max(b.window/buckets, 1) }

func (b *Brake) off() bool { return b.config().Share >= 1 }

// Clear ends the wait of a Work whose objects are not to be removed or scaled down any more.
func (b *Brake) Clear(cluster string, work types.NamespacedName) {
	if b.clear(cluster, work) {
		b.changed(cluster)
	}
}

func (b *Brake) clear(cluster string, work types.NamespacedName) (waited bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.members[cluster]; a != nil {
		_, waited = a.waiting[work]
		delete(a.waiting, work)
	}
	return waited
}

// Look returns the state of a member, after it has released a brake that is off now, or for which nothing waits. One that an earlier process
// engaged is released after a whole window, or when nothing is left to remove: what waits may not have been requested yet. Next is when to call it again while it is engaged.
func (b *Brake) Look(cluster string) (state State, next time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(cluster)
	since := b.clock.Since(a.refused)
	if b.off() || len(a.waiting) == 0 && (a.state.Cause != Before || a.asked && a.leaving == 0 || since >= b.window) {
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
