package apply

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// freeRepairs is how many repairs of a Work are done without a pause. After that another client changes its objects repeatedly.
	freeRepairs = 5
	// repairMemory is the time without a repair after which the count starts again.
	repairMemory = 2 * time.Minute

	firstRepairPause = time.Second
	maxRepairPause   = time.Minute
)

// repairBackoff delays repairs of objects that another client in the member changes again after each, so that the two do not load its API
// server.
type repairBackoff struct {
	mu      sync.Mutex
	repairs map[types.NamespacedName]repairs
}

type repairs struct {
	count int
	last  time.Time
}

// pause returns how long to wait before the next repair of a Work, after a change. One that may be our own waits as long as one of others, and
// does not count: if there is one of others soon after it, that is not repaired earlier.
func (d *repairBackoff) pause(work types.NamespacedName, now time.Time, own bool) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.repairs[work]
	if now.Sub(r.last) > repairMemory {
		r.count = 0
	}
	r.count, r.last = r.count+1, now
	if !own {
		if d.repairs == nil {
			d.repairs = map[types.NamespacedName]repairs{}
		}
		d.repairs[work] = r
	}
	if r.count <= freeRepairs {
		return 0
	}
	return min(firstRepairPause<<min(r.count-freeRepairs-1, 10), maxRepairPause)
}

// forget drops what is known about a Work that is gone.
func (d *repairBackoff) forget(work types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.repairs, work)
}
