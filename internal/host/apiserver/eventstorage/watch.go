package eventstorage

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/native"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// merged is one watch of both parts. Each object has the position that its client reached with it, so that a client resumes there.
type merged struct {
	native.Outlet
	// done is Outlet.Done.
	done      chan struct{}
	stored    watch.Interface
	changes   *events.Watch
	past      []events.Change
	name      string
	predicate storage.SelectionPredicate
	// revision and version are what was sent last of each part.
	revision, version uint64

	stop sync.Once
}

// Stop implements watch.Interface.
func (m *merged) Stop() {
	m.stop.Do(func() {
		close(m.done)
		m.stored.Stop()
		m.changes.Stop()
	})
}

// run sends until the client stops, or one part ends. Events in memory come first, since the stored part ends the initial ones with
// a bookmark.
func (m *merged) run() {
	defer close(m.Result)
	defer m.Stop()
	for _, change := range m.past {
		if !m.sendChange(change) {
			return
		}
	}
	m.past = nil
	for {
		select {
		case event, ok := <-m.stored.ResultChan():
			if !ok || !m.sendStored(event) {
				return
			}
		case change, ok := <-m.changes.Changes():
			if !ok || !m.sendChange(change) {
				return
			}
		case <-m.Done:
			return
		}
	}
}

func (m *merged) sendChange(change events.Change) bool {
	if m.name != "" && change.Event.Name != m.name {
		return true
	}
	event, err := internal(change, m.revision)
	if err != nil {
		return m.Fail(err)
	}
	matches, err := m.predicate.Matches(event)
	if err != nil {
		return m.Fail(err)
	}
	m.version = change.Version
	return !matches || m.Send(watch.Event{Type: change.Type, Object: event})
}

func (m *merged) sendStored(event watch.Event) bool {
	if event.Type == watch.Error {
		return m.Send(event)
	}
	object, err := meta.Accessor(event.Object)
	if err != nil {
		return m.Fail(err)
	}
	revision, err := (Versioner{}).ObjectResourceVersion(event.Object)
	if err != nil {
		return m.Fail(err)
	}
	m.revision = max(m.revision, revision)
	object.SetResourceVersion(formatVersion(revision, m.version))
	return m.Send(event)
}
