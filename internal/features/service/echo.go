package service

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// echoes tells changes of Works that others made from those that this room made, which a watch brings back a moment later.
// To look at those again would double the price of every change. The zero value knows of none.
type echoes struct {
	mu     sync.Mutex
	writes map[types.NamespacedName]*echo
}

// echo is what is known about the writes of one Work, until the watch has told of the last.
type echo struct {
	// busy is true while a write is on its way.
	busy bool
	// wrote is the version that the last write made; empty before the first.
	wrote string
	// seen is the newest version that the watch told of while a write was on its way, several that there were others before.
	seen    string
	several bool
}

// begin says that a Work is about to be written. Only one write of a Work may be on its way at a time.
func (e *echoes) begin(key types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.writes == nil {
		e.writes = map[types.NamespacedName]*echo{}
	}
	if e.writes[key] == nil {
		e.writes[key] = &echo{}
	}
	w := e.writes[key]
	w.busy, w.seen, w.several = true, "", false
}

// done says which version the write made, empty if it made none. It returns true if somebody else changed the Work
// meanwhile.
func (e *echoes) done(key types.NamespacedName, version string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.writes[key]
	if w == nil {
		return true // it was deleted meanwhile
	}
	w.busy = false
	switch {
	case w.seen != "":
		delete(e.writes, key)
		return w.several || w.seen != version
	case version != "":
		w.wrote = version
	case w.wrote == "":
		delete(e.writes, key)
	}
	return false
}

// heard takes in that a watch told of a Work. It returns true if that is nothing but the echo of a write.
func (e *echoes) heard(work metav1.Object) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	key, version := keyOf(work), work.GetResourceVersion()
	w := e.writes[key]
	switch {
	case w == nil:
		return false
	case w.wrote != "" && older(version, w.wrote):
		return true
	case w.busy:
		if version != w.wrote {
			w.seen, w.several = version, w.seen != ""
		}
		return true
	}
	delete(e.writes, key)
	return version == w.wrote
}

// forget drops what is known about a Work that is gone.
func (e *echoes) forget(work metav1.Object) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.writes, keyOf(work))
}

// older compares resource versions; of those that cannot be compared none is.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
