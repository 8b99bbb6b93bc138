package apply

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/flagship-k8s/flagship/internal/pipeline/apply/ssa"
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
	conflicts []ssa.Conflict
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

// settled tells whether another apply would change nothing. Before is what is remembered of the last one.
func settled(d ssa.Difference, before entry, remembered bool) bool {
	if d.Stale {
		return false
	}
	if !remembered {
		// After a start it is not known which values the member gave at the last apply. Defaults are no reason to write.
		return len(d.Drifted) == 0 && len(d.Open) == 0 && d.Unexplained == 0
	}
	for path, value := range d.Altered {
		if last, known := before.altered[path]; !known || last != value {
			return false
		}
	}
	for _, paths := range [][]string{d.Drifted, d.Open} {
		for _, path := range paths {
			if !before.unclaimed[path] {
				return false
			}
		}
	}
	return len(before.conflicts) == 0 // a conflict may have been resolved meanwhile
}
