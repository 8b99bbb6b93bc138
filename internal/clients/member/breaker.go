package member

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// Health is what is known about the way to a member. The zero value means that nothing failed yet.
type Health struct {
	// Down is true while the circuit breaker is open.
	Down bool
	// Since is when Down last changed; zero if it never did.
	Since time.Time
	// Cause is the failure that opened the breaker; nil while the member is up.
	Cause error
}

// UnavailableError is returned, without a request, for every call to a member whose circuit breaker is open.
type UnavailableError struct {
	// Cluster is the name of the member.
	Cluster string
	// Since is when the breaker opened; zero if the member never had a connection.
	Since time.Time
	// Cause is the failure that opened it.
	Cause error
}

// Error implements error.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("cluster %s is not reachable: %v", e.Cluster, e.Cause)
}

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Cause }

// Is counts the error as a postponed reconcile, not as a failed one.
func (e *UnavailableError) Is(target error) bool { return target == controlloop.ErrPostponed }

// breaker opens after several failures in a row and closes with the first success.
type breaker struct {
	cluster   string
	clock     clock.PassiveClock
	threshold int
	// turned is called without locks after every change of Down.
	turned func()

	mu       sync.Mutex
	failures int
	losses   uint64 // failures ever
	health   Health
	closed   chan struct{} // closed when the breaker closes; nil while it is closed
}

// succeeded is called for every answer of the member, even a refusal.
func (b *breaker) succeeded() {
	b.mu.Lock()
	b.failures = 0
	turned := b.health.Down
	if turned {
		b.health = Health{Since: b.clock.Now()}
		close(b.closed)
		b.closed = nil
	}
	b.mu.Unlock()
	if turned {
		b.turned()
	}
}

// failed is called for every request without an answer.
func (b *breaker) failed(cause error) {
	b.mu.Lock()
	b.failures++
	b.losses++
	turned := !b.health.Down && b.failures >= b.threshold
	if turned {
		b.health = Health{Down: true, Since: b.clock.Now(), Cause: cause}
		b.closed = make(chan struct{})
	}
	b.mu.Unlock()
	if turned {
		b.turned()
	}
}

func (b *breaker) state() Health {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.health
}

// lost counts the failures so far: as long as it stays the same, the member was there all the time.
func (b *breaker) lost() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.losses
}

// check returns an UnavailableError while the breaker is open.
func (b *breaker) check() error {
	if h := b.state(); h.Down {
		return &UnavailableError{Cluster: b.cluster, Since: h.Since, Cause: h.Cause}
	}
	return nil
}

// wait returns once the breaker is closed, or with the context's error.
func (b *breaker) wait(ctx context.Context) error {
	for {
		b.mu.Lock()
		closed := b.closed
		b.mu.Unlock()
		if closed == nil {
			return nil
		}
		select {
		case <-closed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
