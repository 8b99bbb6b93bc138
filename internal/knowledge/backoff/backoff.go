package backoff

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
)

const (
	// First and Longest bound the exponential backoff of a request whose reconcile fails: short at first, since most failures are
	// gone the next moment; a minute at most, so that a person who waits for it does not wait long after the cause has gone.
	First   = 50 * time.Millisecond
	Longest = time.Minute

	// Conflict is the pause after a write that the API server refused because another writer was first. The cache shows what that
	// one wrote a few milliseconds later, but not every such event reconciles the object again.
	Conflict = 50 * time.Millisecond

	// NotYet is the pause before a check whether another controller is done, where no event of its work reaches this one. A
	// person who waits for it does not notice a quarter of a second, and the check reads from the cache.
	NotYet = 250 * time.Millisecond

	// Gather is for how long changes are collected that many objects report at nearly the same time, such as the capacity of all
	// clusters, before they are handled together.
	Gather = time.Second
)

// Limiter returns the rate limiter of a controller's queue: failures back off for each request alone, so that one that always fails
// does not delay the others, as the overall limit of client-go's default would.
func Limiter[R comparable]() workqueue.TypedRateLimiter[R] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[R](First, Longest)
}

// Connection returns the backoff of a connection that fails: first at the beginning, 30 times as long at most, and up to twice that by
// jitter, since connections to one server end together.
func Connection(first time.Duration) *wait.Backoff {
	return &wait.Backoff{Duration: first, Factor: 2, Jitter: 1, Steps: 6, Cap: 30 * first}
}
