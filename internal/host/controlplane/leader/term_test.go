package leader_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/host/controlplane/leader"
)

// record is what an elector writes for a holder.
func record(holder string) resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: int(leader.Duration / time.Second)}
}

// shifted is the lock of a server whose clock is off: the times in its records are.
type shifted struct {
	resourcelock.Interface
	ahead time.Duration
}

func (s *shifted) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return s.Interface.Create(ctx, s.shift(r))
}

func (s *shifted) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return s.Interface.Update(ctx, s.shift(r))
}

func (s *shifted) shift(r resourcelock.LeaderElectionRecord) resourcelock.LeaderElectionRecord {
	r.RenewTime, r.AcquireTime = metav1.NewTime(r.RenewTime.Add(s.ahead)), metav1.NewTime(r.AcquireTime.Add(s.ahead))
	return r
}

// store is what servers share: one record, of which a writer has to have the newest version.
type store struct {
	mu      sync.Mutex
	record  resourcelock.LeaderElectionRecord
	version int
}

// lock is the lock of one server on a store.
type lock struct {
	*store
	identity string
	known    int
}

func lockOf(s *store, identity string) *lock { return &lock{store: s, identity: identity} }

func (l *lock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.version == 0 {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{}, leader.Name)
	}
	l.known = l.version
	return new(l.record), fmt.Append(nil, l.record), nil
}

func (l *lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, r)
}

func (l *lock) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known != l.version {
		return errors.New("it was changed")
	}
	l.version++
	l.record, l.known = r, l.version
	return nil
}

func (l *lock) RecordEvent(string) {}
func (l *lock) Identity() string   { return l.identity }
func (l *lock) Describe() string   { return l.identity }

// elapse returns when a time has passed by the clock of the test.
func elapse(d time.Duration) { <-time.After(d) }

// slowLock is a lock whose next write takes a time.
type slowLock struct {
	resourcelock.Interface
	mu            sync.Mutex
	before, after time.Duration
}

func (s *slowLock) set(before, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

func (s *slowLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	s.mu.Lock()
	before, after := s.before, s.after
	s.before, s.after = 0, 0
	s.mu.Unlock()
	elapse(before)
	err := s.Interface.Update(ctx, r)
	elapse(after)
	return err
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func holds(t *testing.T, term *leader.Term, want bool, when string) {
	t.Helper()
	if got := term.Check() == nil; got != want {
		t.Errorf("%s: it holds the lock: %t, want %t", when, got, want)
	}
}

// TestATermHoldsTheLock: from a renewal for RenewDeadline, counted from before the request, and not after a release or its end.
func TestATermHoldsTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := &slowLock{Interface: lockOf(&store{}, "one")}
		term := leader.NewTerm(lock, clock.RealClock{})
		holds(t, term, false, "at first")
		if err := term.Create(t.Context(), record("one")); err != nil {
			t.Fatal(err)
		}
		holds(t, term, true, "when it was taken")
		elapse(leader.RenewDeadline - time.Millisecond)
		holds(t, term, true, "just before the end")
		elapse(time.Millisecond)
		holds(t, term, false, "at the end")

		lock.set(0, time.Second) // the answer comes late: others count from the write on
		if err := term.Update(t.Context(), record("one")); err != nil {
			t.Fatal(err)
		}
		if left, err := term.Left(); err != nil || left != leader.RenewDeadline-time.Second {
			t.Errorf("after a slow renewal %s are left, %v", left, err)
		}
		if err := term.Update(t.Context(), record("")); err != nil {
			t.Fatal(err)
		}
		holds(t, term, false, "after a release")
		if err := term.Update(t.Context(), record("one")); err != nil {
			t.Fatal(err)
		}
		term.End()
		holds(t, term, false, "after its end")
		if err := term.Update(t.Context(), record("one")); !errors.Is(err, leader.ErrNotLeader) {
			t.Errorf("a renewal after the end: %v", err)
		}
		var alone *leader.Term
		holds(t, alone, true, "with one server")
	})
}

// TestALockIsReleasedBeforeOthersSeeIt: while the release is written nothing else is.
func TestALockIsReleasedBeforeOthersSeeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := &slowLock{Interface: lockOf(&store{}, "one")}
		lock.set(time.Second, 0)
		term := leader.NewTerm(lock, clock.RealClock{})
		if err := term.Create(t.Context(), record("one")); err != nil {
			t.Fatal(err)
		}
		go func() { _ = term.Update(t.Context(), record("")) }()
		synctest.Wait()
		holds(t, term, false, "while it is released")
		elapse(2 * time.Second)
	})
}

// TestReleaseWaitsForWrites: a lock is given to others when the last write has its answer, none begins meanwhile, and what the elector writes
// afterwards changes nothing.
func TestReleaseWaitsForWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &store{}
		term := leader.NewTerm(lockOf(shared, "one"), clock.RealClock{})
		if err := term.Create(t.Context(), record("one")); err != nil {
			t.Fatal(err)
		}
		answer := make(chan struct{})
		config := term.Fence(&rest.Config{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			<-answer
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		})})
		through := config.WrapTransport(config.Transport)
		write := func() error {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://hub/", nil)
			if err != nil {
				return err
			}
			_, err = through.RoundTrip(r)
			return err
		}
		written, released := make(chan error, 1), make(chan error, 1)
		go func() { written <- write() }()
		synctest.Wait()
		go func() { released <- term.Release(t.Context()) }()
		synctest.Wait()
		if err := write(); !errors.Is(err, leader.ErrNotLeader) {
			t.Errorf("a write during the release: %v", err)
		}
		if shared.record.HolderIdentity != "one" {
			t.Error("the lock was released before the write had its answer")
		}
		close(answer)
		if err := errors.Join(<-written, <-released); err != nil {
			t.Fatal(err)
		}
		if shared.record.HolderIdentity != "" {
			t.Errorf("%q has the lock", shared.record.HolderIdentity)
		}
		two := lockOf(shared, "two")
		if _, _, err := two.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := two.Update(t.Context(), record("two")); err != nil {
			t.Fatal(err)
		}
		if err := term.Update(t.Context(), record("")); err != nil || shared.record.HolderIdentity != "two" {
			t.Errorf("the elector of the ended term gives away the lock of %q: %v", shared.record.HolderIdentity, err)
		}
		if err := term.Release(t.Context()); err != nil || shared.record.HolderIdentity != "two" {
			t.Errorf("a second release gives away the lock of %q: %v", shared.record.HolderIdentity, err)
		}
	})
}

// TestATermCatchesUpFirst: what was taken is held once the caches have what the leader before wrote.
func TestATermCatchesUpFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := leader.NewTerm(lockOf(&store{}, "one"), clock.RealClock{})
		empty, behind := errors.New("empty"), errors.New("behind")
		term.Stand(leader.Candidate{Ready: func() error { return empty }, CatchUp: func(context.Context) error { return behind }})
		if err := term.Create(t.Context(), record("one")); !errors.Is(err, empty) {
			t.Errorf("it is taken: %v", err)
		}
		if _, _, err := term.Get(t.Context()); !apierrors.IsNotFound(err) {
			t.Errorf("the lock is there: %v", err)
		}
		empty = nil
		if err := term.Create(t.Context(), record("one")); !errors.Is(err, behind) {
			t.Errorf("it is taken: %v", err)
		}
		holds(t, term, false, "behind")
		behind = nil
		if err := term.Update(t.Context(), record("one")); err != nil {
			t.Error(err)
		}
		holds(t, term, true, "caught up")
		behind = errors.New("behind again") // a renewal reads nothing
		if err := term.Update(t.Context(), record("one")); err != nil {
			t.Error(err)
		}
	})
}

// TestTwoServersNeverHoldTheLock: the leader is paused for any time, at any moment of its renewals, and then goes on. Its clock may be off.
func TestTwoServersNeverHoldTheLock(t *testing.T) {
	for pause := 250 * time.Millisecond; pause < 12*time.Second; pause += 370 * time.Millisecond {
		for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
			synctest.Test(t, func(t *testing.T) { leaderPaused(t, pause, ahead) })
		}
	}
}

func leaderPaused(t *testing.T, pause, ahead time.Duration) {
	shared := &store{}
	locks := []*slowLock{{Interface: &shifted{lockOf(shared, "one"), ahead}}, {Interface: lockOf(shared, "two")}}
	terms := make([]*leader.Term, len(locks))
	ctx, cancel := context.WithCancel(t.Context())
	for i, lock := range locks {
		terms[i] = leader.NewTerm(lock, clock.RealClock{})
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: terms[i], LeaseDuration: leader.Duration, RenewDeadline: leader.RenewDeadline, RetryPeriod: leader.RetryPeriod,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
		})
		if err != nil {
			t.Fatal(err)
		}
		go elector.Run(ctx)
		elapse(2*time.Second + leader.RetryPeriod/2) // the first is the leader
	}
	holds(t, terms[0], true, "before the pause")
	locks[0].set(pause, 0) // the renewal waits, and the clock goes on, as for a process that is stopped
	for range 200 {
		elapse(100 * time.Millisecond)
		if terms[0].Check() == nil && terms[1].Check() == nil {
			t.Fatalf("both hold the lock, with a pause of %s", pause)
		}
	}
	if terms[0].Check() != nil && terms[1].Check() != nil {
		t.Errorf("no server holds the lock after a pause of %s", pause)
	}
	cancel()
	elapse(time.Minute)
}

// TestFence: a client writes while the term holds the lock, and reads at any time.
func TestFence(t *testing.T) {
	answered := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/slow") {
			<-answered
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(answered) })
	now := &steppedClock{now: time.Now()}
	term := leader.NewTerm(lockOf(&store{}, "one"), now)
	client, err := rest.HTTPClientFor(term.Fence(&rest.Config{Host: server.URL}))
	if err != nil {
		t.Fatal(err)
	}
	send := func(method, path string) error {
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err == nil {
			err = response.Body.Close()
		}
		return err
	}
	methods := []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	for _, method := range methods {
		if err := send(method, "/"); !errors.Is(err, leader.ErrNotLeader) {
			t.Errorf("%s without the lock: %v", method, err)
		}
	}
	if err := send(http.MethodGet, "/"); err != nil {
		t.Errorf("a read without the lock: %v", err)
	}
	if err := term.Create(t.Context(), record("one")); err != nil {
		t.Fatal(err)
	}
	for _, method := range methods {
		if err := send(method, "/"); err != nil {
			t.Errorf("%s with the lock: %v", method, err)
		}
	}
	now.now = now.now.Add(leader.RenewDeadline - 10*time.Millisecond)
	if err := send(http.MethodPost, "/slow"); !errors.Is(err, leader.ErrNotLeader) {
		t.Errorf("a write without an answer at the end of the lock: %v", err)
	}
}

// TestAdmission: requests of the present term are admitted while it holds the lock, those of another never, and those of users always.
func TestAdmission(t *testing.T) {
	now := &steppedClock{now: time.Now()}
	term := leader.NewTerm(lockOf(&store{}, "one"), now)
	present := &atomic.Pointer[leader.Term]{}
	plugin := leader.NewAdmission(present)
	var seen error
	server := httptest.NewServer(leader.Mark(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen = plugin.Validate(r.Context(), nil, nil)
	})))
	t.Cleanup(server.Close)
	send := func(from *leader.Term) error {
		t.Helper()
		client, err := rest.HTTPClientFor(from.Fence(&rest.Config{Host: server.URL}))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Post(server.URL, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return seen
	}
	if err := term.Create(t.Context(), record("one")); err != nil {
		t.Fatal(err)
	}
	if err := send(term); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a request of an earlier term: %v", err)
	}
	present.Store(term)
	if err := send(term); err != nil {
		t.Errorf("a request of the term: %v", err)
	}
	other := leader.NewTerm(lockOf(&store{}, "two"), now)
	if err := other.Create(t.Context(), record("two")); err != nil {
		t.Fatal(err)
	}
	if err := send(other); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a request of another term: %v", err)
	}
	if err := send(nil); err != nil {
		t.Errorf("a request of a user: %v", err)
	}
	server.Config.Handler = leader.Mark(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		now.now = now.now.Add(leader.RenewDeadline) // the process was stopped
		seen = plugin.Validate(r.Context(), nil, nil)
	}))
	if err := send(term); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a request that was on its way when the lock was lost: %v", err)
	}
}

// steppedClock is a clock that a test sets.
type steppedClock struct{ now time.Time }

func (c *steppedClock) Now() time.Time                  { return c.now }
func (c *steppedClock) Since(t time.Time) time.Duration { return c.now.Sub(t) }
