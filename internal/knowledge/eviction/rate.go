package eviction

import (
	"cmp"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// DefaultRate is how many copies are evicted each second, after twice as many at once.
const DefaultRate = 20

// slotLife is for how long a reserved slot can be used. What comes later reserves another one, so that a pause of the process is not
// followed by all evictions at once.
const slotLife = 10 * time.Second

// Cause is why copies are evicted.
type Cause string

// The causes that share the rate.
const (
	ClusterFailure     Cause = "cluster"
	ApplicationFailure Cause = "application"
)

// Rate bounds how fast copies are evicted, from all clusters and for all causes together.
type Rate struct {
	clock     clock.PassiveClock
	perSecond func() float64
	evictions *prometheus.CounterVec

	mu     sync.Mutex
	bucket *rate.Limiter
	// slots are the times that are reserved for copies. Without them every copy that waits would be tried again for each token.
	slots  map[slot]time.Time
	purged time.Time
}

type slot struct {
	binding types.NamespacedName
	cluster string
}

// NewRate returns a Rate of so many copies each second; 0 is DefaultRate. PerSecond is called for each copy: it may change meanwhile.
func NewRate(perSecond func() float64, c clock.PassiveClock, r prometheus.Registerer) *Rate {
	limit, burst := limitOf(perSecond)
	return &Rate{
		clock: c, perSecond: perSecond, slots: map[slot]time.Time{}, bucket: rate.NewLimiter(limit, burst),
		evictions: promauto.With(r).NewCounterVec(prometheus.CounterOpts{
			Name: "flagship_evictions_rate_total",
			Help: "Copies that are to be evicted, by the cause and by what the rate decided: admitted, or delayed first.",
		}, []string{"cause", "result"}),
	}
}

func limitOf(perSecond func() float64) (limit rate.Limit, burst int) {
	value := cmp.Or(perSecond(), DefaultRate)
	return rate.Limit(value), max(1, int(math.Ceil(2*value)))
}

// Delay returns 0 if a copy may be evicted now; the copy then counts as evicted. Otherwise it returns the time after which the caller
// tries again.
func (r *Rate) Delay(cause Cause, binding types.NamespacedName, cluster string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, key := r.clock.Now(), slot{binding, cluster}
	r.purge(now)
	if limit, burst := limitOf(r.perSecond); limit != r.bucket.Limit() {
		r.bucket.SetLimitAt(now, limit)
		r.bucket.SetBurstAt(now, burst)
	}
	at, reserved := r.slots[key]
	if !reserved || now.Sub(at) > slotLife {
		at = now.Add(r.bucket.ReserveN(now, 1).DelayFrom(now))
	}
	if left := at.Sub(now); left > 0 {
		if r.slots[key] = at; !reserved {
			r.evictions.WithLabelValues(string(cause), "delayed").Inc()
		}
		return left
	}
	delete(r.slots, key)
	r.evictions.WithLabelValues(string(cause), "admitted").Inc()
	return 0
}

// purge removes the slots of copies that stay after all.
func (r *Rate) purge(now time.Time) {
	if now.Sub(r.purged) <= slotLife {
		return
	}
	r.purged = now
	for key, at := range r.slots {
		if now.Sub(at) > slotLife {
			delete(r.slots, key)
		}
	}
}
