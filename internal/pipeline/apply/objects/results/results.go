package results

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/flagship-k8s/flagship/internal/pipeline/apply/ssa"
)

// Place is where an object is.
type Place struct {
	Cluster  string
	Resource schema.GroupVersionResource
	Object   types.NamespacedName
}

// Entry is what came of the last apply of an object.
type Entry struct {
	UID     types.UID
	Version string // resourceVersion afterwards
	Hash    string // of the desired object
	At      time.Time
	// Unowned are the paths that we do not own although we applied them: left to others, or not kept by the server.
	Unowned map[string]bool
	// Altered are the paths that the member gave another value than we applied, with a hash of it.
	Altered   map[string]uint64
	Conflicts []ssa.Conflict
	Dropped   []string
	// Taken are the node ports that the member refused.
	Taken []ssa.TakenPort
	// UnknownFields means that the member does not serve some field, so that its schema is compared again later.
	UnknownFields bool
	// Unwatched means that the object is not managed, so that it has to be read again.
	Unwatched bool
	// Ended means that the object ran to its end and is gone: it is not made again. Nothing else is set then.
	Ended bool
	// Lost means that others deleted the object. Nothing else is set then.
	Lost bool
}

// Set has the results of applies. Nothing in it is needed for being right: it spares requests while a watch lags
// behind our own writes, and repeated requests that cannot succeed.
type Set struct {
	mu      sync.Mutex
	entries map[Place]Entry
	pending map[Place]int // requests without an answer yet
	// deletions are those that were requested, until the watch shows their end.
	deletions map[Place]Deletion
}

// Deletion is one of an object, which may have been requested several times.
type Deletion struct {
	uid types.UID
	// Last is when it was requested last, and Times how often.
	Last  time.Time
	Times int
}

// Expect records a request that may create an object, until the function it returns is called.
func (l *Set) Expect(p Place) (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending == nil {
		l.pending = map[Place]int{}
	}
	l.pending[p]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.pending[p]--; l.pending[p] == 0 {
			delete(l.pending, p)
		}
	}
}

// Made returns whether an object is being applied, or was applied by this process.
func (l *Set) Made(p Place) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, known := l.entries[p]
	return known && !e.Lost || l.pending[p] > 0
}

// Pending returns whether an object is being applied.
func (l *Set) Pending(p Place) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pending[p] > 0
}

// Get returns what came of the last apply of an object, and whether that is known.
func (l *Set) Get(p Place) (Entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.entries[p]
	return e, ok
}

// Awaits returns whether the member has refused a node port to another object of the same kind.
func (l *Set) Awaits(p Place, number string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := false
	for other, e := range l.entries {
		found = found || other.Cluster == p.Cluster && other.Resource == p.Resource && other.Object != p.Object &&
			slices.ContainsFunc(e.Taken, func(port ssa.TakenPort) bool { return port.Number == number })
	}
	return found
}

// Put keeps what came of an apply.
func (l *Set) Put(p Place, e Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries == nil {
		l.entries = map[Place]Entry{}
	}
	l.entries[p] = e
}

// Forget drops everything about an object.
func (l *Set) Forget(p Place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.entries, p)
	delete(l.deletions, p)
}

// Lose drops the result of an object that is gone. If it was applied, and its deletion was not requested here, that is stored until it is applied
// again or its Work is gone: in the place of what was known of it.
func (l *Set) Lose(p Place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, known := l.entries[p]; known && l.deletions[p].uid != e.UID {
		l.entries[p] = Entry{Lost: true}
		return
	}
	delete(l.entries, p)
	delete(l.deletions, p)
}

// Deletes records that a deletion is requested, and returns how often it has been.
func (l *Set) Deletes(p Place, uid types.UID, now time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.deletions[p]
	if d.uid != uid {
		d = Deletion{uid: uid}
	}
	d.Last, d.Times = now, d.Times+1
	if l.deletions == nil {
		l.deletions = map[Place]Deletion{}
	}
	l.deletions[p] = d
	return d.Times
}

// Deletion returns the deletion of an object that was requested; the zero value if there is none.
func (l *Set) Deletion(p Place, uid types.UID) Deletion {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := l.deletions[p]; d.uid == uid {
		return d
	}
	return Deletion{}
}

// ForgetCluster drops everything about a cluster that is gone.
func (l *Set) ForgetCluster(cluster string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.entries, func(p Place, _ Entry) bool { return p.Cluster == cluster })
	maps.DeleteFunc(l.deletions, func(p Place, _ Deletion) bool { return p.Cluster == cluster })
}

// NewerThan returns whether the entry is newer than a cached object of that version.
func (e Entry) NewerThan(version string) bool {
	order, err := resourceversion.CompareResourceVersion(e.Version, version)
	return err == nil && order > 0
}

// ChangedByOthers are the paths of fields that were as they should be at the last apply and are not any more, in order. After a start it
// is not known which values the member gave at the last apply: a value that was changed under our own name is not among them then.
func ChangedByOthers(d ssa.Difference, before Entry, recorded bool) []string {
	var paths []string
	for _, path := range d.Drifted {
		if !before.Unowned[path] {
			paths = append(paths, path)
		}
	}
	for path, value := range d.Altered {
		if last, known := before.Altered[path]; recorded && (!known || last != value) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// Unchanged returns whether another apply would change nothing. Before is the result of the last one.
func Unchanged(d ssa.Difference, before Entry, recorded bool) bool {
	if d.Stale {
		return false
	}
	if !recorded {
		// After a start it is not known which values the member gave at the last apply. Defaults are no reason to write.
		return len(d.Drifted) == 0 && len(d.Open) == 0 && d.Unexplained == 0
	}
	for path, value := range d.Altered {
		if last, known := before.Altered[path]; !known || last != value {
			return false
		}
	}
	for _, paths := range [][]string{d.Drifted, d.Open} {
		for _, path := range paths {
			if !before.Unowned[path] {
				return false
			}
		}
	}
	return len(before.Conflicts) == 0 && len(before.Taken) == 0 // a conflict may have been resolved meanwhile, a port be free
}
