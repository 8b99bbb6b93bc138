package leader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

const (
	// Name is that of the Lease, in the namespace karmada-system.
	Name = "flagship"
	// RetryPeriod is the pause between two renewals, and at most 2.2 times as long the pause between two tries to take over. A lock that
	// was released is taken within 0.7 seconds.
	RetryPeriod = 300 * time.Millisecond
	// RenewDeadline is how long a term holds the lock after a renewal. It covers an election among the servers of etcd, which takes 1 to 2
	// seconds, and two renewals without an answer.
	RenewDeadline = 5 * time.Second
	// Duration is how long after the last renewal that it observed another server takes over. A crash is detected after Duration and two pauses
	// of up to 0.7 seconds: 8.4 seconds at most.
	Duration = 7 * time.Second
	// requestTimeout bounds a request about the Lease, so that one without an answer leaves time for others before RenewDeadline.
	requestTimeout = 2 * time.Second
)

// ErrNotLeader is the reason why loops may not write.
var ErrNotLeader = errors.New("another server may run the control loops: the lease was not renewed in time")

// Term is the time of one set of loops, from the first try to hold the lock until it is lost. It is the lock for a leader election, and
// reports whether it is held. A nil Term always holds it: there is only one server.
type Term struct {
	clock clock.PassiveClock

	// requests is held while the lock is used: it has what it read last.
	requests sync.Mutex
	lock     resourcelock.Interface
	// writes are those of loops that have no answer yet. None begins after the end.
	writes sync.WaitGroup

	mu sync.Mutex
	// renewed is the time before the last successful renewal was requested; zero before the first, and after a release.
	renewed time.Time
	ended   bool
	// candidate is what the lock depends on.
	candidate Candidate
}

// Candidate is what a server needs before it holds the lock. It is made of functions because the caches belong to the loops.
type Candidate struct {
	// Ready returns an error while the server should leave the lock to others, since its caches are not filled. It must not block.
	Ready func() error
	// CatchUp is called after the lock was taken, and returns nil once the caches have all that the leader before wrote. The term holds the
	// lock only then; the next renewal calls it again.
	CatchUp func(context.Context) error
}

var _ resourcelock.Interface = &Term{}

// New returns a term with an identity of its own: a server that lost the lock is a candidate as any other, and waits like it for the
// end of what its loops requested before. The client must not be one of Fence.
func New(config *rest.Config, clk clock.PassiveClock) (*Term, error) {
	leases, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building a client for the lease: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("reading the name of this machine for the lease: %w", err)
	}
	return NewTerm(&resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: clusterv1alpha1.SystemNamespace, Name: Name},
		Client:     leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + uuid.NewString()},
	}, clk), nil
}

// NewTerm returns a term of a given lock. A request about the lock fails after two seconds without an answer.
func NewTerm(lock resourcelock.Interface, clk clock.PassiveClock) *Term {
	return &Term{lock: lock, clock: clk, candidate: Candidate{
		Ready: func() error { return nil }, CatchUp: func(context.Context) error { return nil },
	}}
}

// Stand sets what the lock depends on from now on.
func (t *Term) Stand(c Candidate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.candidate = c
}

// End has the term refuse all writes from now on, whatever becomes of the lock.
func (t *Term) End() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}

// Drain ends the term, and waits for writes that have no answer yet: at most until the term would have ended, since their contexts end then.
func (t *Term) Drain() {
	t.End()
	t.writes.Wait()
}

// Release ends the term, waits for writes that have no answer yet, and then gives the lock to others. They need not wait until the loops
// have ended, since these write nothing any more.
func (t *Term) Release(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.Drain()
	t.requests.Lock()
	defer t.requests.Unlock()
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	record, _, err := t.lock.Get(ctx)
	if err != nil {
		return fmt.Errorf("reading the lease to release it: %w", err)
	}
	if record.HolderIdentity != t.lock.Identity() {
		return nil
	}
	now := metav1.NewTime(t.clock.Now())
	free := resourcelock.LeaderElectionRecord{LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now}
	if err := t.lock.Update(ctx, free); err != nil {
		return fmt.Errorf("releasing the lease: %w", err)
	}
	return nil
}

// Check returns nil while the term holds the lock.
func (t *Term) Check() error {
	_, err := t.Left()
	return err
}

// Left returns for how long the term holds the lock if it is not renewed, or ErrNotLeader.
func (t *Term) Left() (time.Duration, error) {
	if t == nil {
		return RenewDeadline, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.left()
}

// begin is Left before a write. If it returns no error, done has to be called when the write has an answer.
func (t *Term) begin() (left time.Duration, done func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if left, err = t.left(); err != nil {
		return 0, nil, err
	}
	t.writes.Add(1)
	return left, t.writes.Done, nil
}

func (t *Term) left() (time.Duration, error) {
	if t.ended || t.renewed.IsZero() {
		return 0, ErrNotLeader
	}
	left := RenewDeadline - t.clock.Since(t.renewed)
	if left <= 0 {
		return 0, ErrNotLeader
	}
	return left, nil
}

// Get implements resourcelock.Interface.
func (t *Term) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	t.requests.Lock()
	defer t.requests.Unlock()
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return t.lock.Get(ctx)
}

// Create implements resourcelock.Interface.
func (t *Term) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return t.write(ctx, record, t.lock.Create)
}

// Update implements resourcelock.Interface.
func (t *Term) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return t.write(ctx, record, t.lock.Update)
}

func (t *Term) write(ctx context.Context, record resourcelock.LeaderElectionRecord, store func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	t.requests.Lock()
	defer t.requests.Unlock()
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	holds := record.HolderIdentity == t.lock.Identity()
	t.mu.Lock()
	begun, ended, candidate := t.clock.Now(), t.ended, t.candidate
	taken := holds && t.renewed.IsZero()
	if !holds {
		t.renewed = time.Time{} // before others can take it
	}
	t.mu.Unlock()
	switch {
	case holds && ended:
		return ErrNotLeader
	case ended: // it was released, or is that of another server by now
		return nil
	}
	if taken {
		if err := candidate.Ready(); err != nil {
			return err
		}
	}
	if err := store(ctx, record); err != nil || !holds {
		return err
	}
	if taken {
		if err := candidate.CatchUp(ctx); err != nil {
			return fmt.Errorf("reading what the leader before wrote: %w", err)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.renewed = begun
	return nil
}

// RecordEvent implements resourcelock.Interface.
func (t *Term) RecordEvent(event string) { t.lock.RecordEvent(event) }

// Identity implements resourcelock.Interface.
func (t *Term) Identity() string { return t.lock.Identity() }

// Describe implements resourcelock.Interface.
func (t *Term) Describe() string { return t.lock.Describe() }
