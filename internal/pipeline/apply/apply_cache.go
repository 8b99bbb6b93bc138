package apply

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// place is where an object is.
type place struct {
	cluster  string
	resource schema.GroupVersionResource
	object   types.NamespacedName
}

// entry is what came of the last apply of an object.
type entry struct {
	uid     types.UID
	version string // resourceVersion afterwards
	hash    string // of what was wanted
	at      time.Time
	// unclaimed are the paths that we do not own although we applied them: left to others, or not kept by the server.
	unclaimed map[string]bool
	// altered are the paths that the member gave another value than we applied, with a hash of it.
	altered   map[string]uint64
	conflicts []conflict
	dropped   []string
	// unknownFields says that the member does not know some field, so that its schema is worth another look.
	unknownFields bool
}

// applyCache holds the results of applies. Nothing in it is needed for being right: it spares requests while a watch lags
// behind our own writes, and repeated requests that cannot succeed.
type applyCache struct {
	mu      sync.Mutex
	entries map[place]entry
	asked   map[place]int // requests on their way
}

// expect takes note of a request that may make an object, until the function it returns is called.
func (l *applyCache) expect(p place) (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked == nil {
		l.asked = map[place]int{}
	}
	l.asked[p]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.asked[p]--; l.asked[p] == 0 {
			delete(l.asked, p)
		}
	}
}

// expects tells whether an object is being applied, or was.
func (l *applyCache) expects(p place) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known := l.entries[p]
	return known || l.asked[p] > 0
}

func (l *applyCache) get(p place) (entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.entries[p]
	return e, ok
}

func (l *applyCache) put(p place, e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries == nil {
		l.entries = map[place]entry{}
	}
	l.entries[p] = e
}

func (l *applyCache) forget(p place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.entries, p)
}

// forgetCluster drops everything about a cluster that has gone.
func (l *applyCache) forgetCluster(cluster string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.entries {
		if p.cluster == cluster {
			delete(l.entries, p)
		}
	}
}

// newerThan tells whether the entry knows more than a cached object of that version.
func (e entry) newerThan(version string) bool {
	order, err := resourceversion.CompareResourceVersion(e.version, version)
	return err == nil && order > 0
}

// released remembers which Works were let go, for as long as the cache still shows them.
type releasedWorks struct {
	mu   sync.Mutex
	uids map[types.NamespacedName]types.UID
}

func (r *releasedWorks) put(work types.NamespacedName, uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.uids == nil {
		r.uids = map[types.NamespacedName]types.UID{}
	}
	r.uids[work] = uid
}

func (r *releasedWorks) has(work types.NamespacedName, uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.uids[work] == uid
}

func (r *releasedWorks) forget(work types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.uids, work)
}

const (
	// maxDeletedWorks bounds how many Works are remembered after their end: some 3 MB.
	maxDeletedWorks = 1 << 14
	// lateRequest is how long after its Work's end an object may still be made by a request that was given up before.
	lateRequest = time.Minute
)

// deletedWorks remembers the Works whose objects were removed, for when one turns up again: in a member that was restored from a
// backup, or because a request took effect long after it was given up. An object of a Work that nobody remembers is left
// alone, since nobody knows whether it was to be preserved.
type deletedWorks struct {
	mu    sync.Mutex
	works map[types.NamespacedName]deletedWork
	order []types.NamespacedName // oldest first; some are in it more than once, or not remembered any more
}

type deletedWork struct {
	since      time.Time
	account    string // which removed the objects
	reappeared bool   // an object has turned up
}

// includes returns whether an object is one of those that were removed. One that was made later has another maker.
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

// reappears records that an object of a Work has turned up, and returns whether the Work is a deleted one.
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

// visit returns the deleted Work of which an object has turned up since the last visit.
func (b *deletedWorks) visit(work types.NamespacedName) (_ deletedWork, risen bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.works[work]
	if g.reappeared {
		b.works[work] = deletedWork{since: g.since, account: g.account}
	}
	return g, g.reappeared
}
