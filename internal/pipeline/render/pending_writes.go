package render

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// pendingWrites remember what was written to Works until the cache shows it. It answers two questions: what does a Work look
// like, when the cache may be behind; and is the change that a watch tells of our own, so that nothing has to be done.
type pendingWrites struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]*entry
}

type entry struct {
	// writing is true between begin and done.
	writing bool
	// work is what the last write made, until the cache shows it.
	work *workv1alpha1.Work
	// seen is the newest resource version that the watch told of while a write was on its way.
	seen string
}

func newPendingWrites() *pendingWrites {
	return &pendingWrites{entries: map[types.NamespacedName]*entry{}}
}

// begin says that a Work is about to be written. Only one write of a Work may be on its way at a time.
func (l *pendingWrites) begin(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key]
	if e == nil {
		e = &entry{}
		l.entries[key] = e
	}
	e.writing, e.seen = true, ""
}

// done says what became of the write; nil if it failed. It returns true if somebody else changed the Work meanwhile.
func (l *pendingWrites) done(key types.NamespacedName, written *workv1alpha1.Work) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key]
	if e == nil { // The Work was deleted meanwhile.
		return true
	}
	e.writing = false
	if written != nil {
		e.work = written
	}
	if e.seen != "" && (e.work == nil || !older(e.seen, e.work.ResourceVersion)) {
		delete(l.entries, key)
		return e.work == nil || e.seen != e.work.ResourceVersion
	}
	if e.work == nil {
		delete(l.entries, key)
	}
	return false
}

// observe takes in what a watch tells. It returns true if that is nothing but the echo of a write of ours.
func (l *pendingWrites) observe(work client.Object) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	key, version := client.ObjectKeyFromObject(work), work.GetResourceVersion()
	e := l.entries[key]
	switch {
	case e == nil:
		return false
	case e.writing:
		e.seen = version
		return true
	case older(version, e.work.ResourceVersion):
		return true
	default:
		delete(l.entries, key)
		return version == e.work.ResourceVersion
	}
}

// forget drops what is known of a Work that is gone.
func (l *pendingWrites) forget(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.entries, key)
}

// latest returns the newer of what the cache has, which may be nil, and what was written.
func (l *pendingWrites) latest(key types.NamespacedName, cached *workv1alpha1.Work) *workv1alpha1.Work {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key]
	if e == nil || e.work == nil || cached != nil && !older(cached.ResourceVersion, e.work.ResourceVersion) {
		return cached
	}
	return e.work
}

// unseen lists Works that were written for an owner and that the cache may not show yet.
func (l *pendingWrites) unseen(of string) []*workv1alpha1.Work {
	l.mu.Lock()
	defer l.mu.Unlock()
	var works []*workv1alpha1.Work
	for _, e := range l.entries {
		if e.work != nil && workv1alpha2.BoundTo(e.work) == of {
			works = append(works, e.work)
		}
	}
	return works
}

// older compares resource versions. Versions that cannot be compared count as different moments, newer first.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
