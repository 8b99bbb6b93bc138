package agents

import (
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"

	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// requests bounds how many requests of certificates one client makes. Clients are those of registered clusters and of bootstrap tokens,
// so that their number is bounded. The limit of Kubernetes, by priority and fairness, bounds only how many are under way.
type requests struct {
	mu       sync.Mutex
	limiters map[string]flowcontrol.PassiveRateLimiter
}

// allows returns whether a client may make another request now.
func (r *requests) allows(client string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limiters == nil {
		r.limiters = map[string]flowcontrol.PassiveRateLimiter{}
	}
	limiter := r.limiters[client]
	if limiter == nil {
		limiter = flowcontrol.NewTokenBucketPassiveRateLimiter(float32(time.Second)/float32(bounds.RequestPeriod), bounds.RequestBurst)
		r.limiters[client] = limiter
	}
	return limiter.TryAccept()
}
