package apply

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// maxDeletedWorks bounds how many Works are kept here after their end: some 3 MB.
	maxDeletedWorks = 1 << 14
	// lateRequest is how long after its Work's end an object may still be created by a request that timed out before.
	lateRequest = time.Minute
)

// deletedWorks stores the Works whose objects were removed, for when one appears again: in a member that was restored from a
// backup, or because a request took effect long after it timed out. An object of a Work that is not stored here is left
// alone: it may have been preserved.
type deletedWorks struct {
	mu    sync.Mutex
	works map[types.NamespacedName]deletedWork
	order []types.NamespacedName // oldest first; some are in it more than once, or not in works any more
}

type deletedWork struct {
	since      time.Time
	account    string // which removed the objects
	reappeared bool   // an object has appeared again
}

// includes returns whether an object is one of those that were removed. One that was created later was created by another client. The time of its
// creation is by the clock of the member, corrected by more than a minute. If that is ahead, the object stays, and flagship orphans lists it.
// If it is behind, an object with all our marks and our fields that others make soon after the removal is taken for ours.
func (g deletedWork) includes(created time.Time) bool {
	return created.Before(g.since.Add(lateRequest))
}

func (b *deletedWorks) put(work types.NamespacedName, now time.Time, account string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.works == nil {
		b.works = map[types.NamespacedName]deletedWork{}
	}
	g, known := b.works[work]
	if !known {
		b.order = append(b.order, work)
	}
	b.works[work] = deletedWork{since: now, account: account, reappeared: g.reappeared}
	for len(b.order) > maxDeletedWorks {
		delete(b.works, b.order[0])
		b.order = b.order[1:]
	}
}

func (b *deletedWorks) forget(work types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.works, work)
}

// reappears records that an object of a Work has appeared, and returns whether the Work is a deleted one.
func (b *deletedWorks) reappears(work types.NamespacedName) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	g, known := b.works[work]
	if known {
		g.reappeared = true
		b.works[work] = g
	}
	return known
}

// visit returns the deleted Work of which an object has appeared since the last visit.
func (b *deletedWorks) visit(work types.NamespacedName) (_ deletedWork, reappeared bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.works[work]
	if g.reappeared {
		b.works[work] = deletedWork{since: g.since, account: g.account}
	}
	return g, g.reappeared
}
