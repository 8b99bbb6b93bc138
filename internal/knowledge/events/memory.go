package events

import (
	"cmp"
	"container/list"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	recordutil "k8s.io/client-go/tools/record/util"
	"k8s.io/utils/clock"
)

const (
	// maxInMemory and maxInNamespace bound what is kept, some 700 bytes each. Beyond them the Event that was updated least recently is evicted,
	// of the namespace that has most: several namespaces of one tenant do not evict the Events of others.
	maxInMemory    = 16384
	maxInNamespace = 4096
	// lifetime is that of stored Events, too.
	lifetime = time.Hour
	// maxDeletions bounds the deletions that a watch can resume after.
	maxDeletions = 1024
	// watchBuffer bounds the changes that wait for one watch. A watch that is slower is closed, and its client starts another.
	watchBuffer = 1024
)

// ErrExpired is the error of a watch from a version whose later deletions are no longer stored: its client has to list again.
var ErrExpired = errors.New("the version is too old")

// Memory keeps Events of success in the memory of this process, one for each object and reason, with the latest message and a
// count. An Event is lost when the process ends, an hour after its last update, or when there are too many. Stored in etcd, these
// Events would be more than half of the writes that propagate an object.
//
// Each change has a version, higher than that of the change before.
type Memory struct {
	clock clock.PassiveClock
	// active is false for a namespace that does not exist or is being deleted. Its Events would be visible in a later namespace of
	// the same name.
	active func(namespace string) bool

	mu         sync.Mutex
	version    uint64
	identities map[identity]*entry
	namespaces map[string]*namespaceEvents
	// recent has all entries, the one that was updated last in front.
	recent *list.List
	// deletions are the latest, in the order of their versions. Those up to version dropped are no longer there.
	deletions []Change
	dropped   uint64
	watches   map[*Watch]struct{}
}

// identity is what an Event is about: two reports with the same identity are one Event.
type identity struct {
	object corev1.ObjectReference
	reason string
}

// namespaceEvents has the entries of one namespace.
type namespaceEvents struct {
	names  map[string]*entry
	recent *list.List
}

// entry is one Event in a third of the bytes of a corev1.Event.
type entry struct {
	report      Event
	name        string
	uid         types.UID
	first, last time.Time
	// sent is when watches last received it.
	sent             time.Time
	count            int32
	created, version uint64
	// inAll and inNamespace are its places in the two lists.
	inAll, inNamespace *list.Element
}

// Change is an Event after a change, or before its deletion. Watches share it; it must not be modified.
type Change struct {
	Type    watch.EventType
	Event   *corev1.Event
	Version uint64
}

// NewMemory returns an empty memory whose first version follows start. Processes should start at different versions, so that a
// version of another process is seldom taken for one of this. A nil active keeps Events of every namespace.
func NewMemory(clock clock.PassiveClock, start uint64, active func(namespace string) bool) *Memory {
	if active == nil {
		active = func(string) bool { return true }
	}
	return &Memory{
		clock:      clock,
		active:     active,
		version:    start,
		dropped:    start,
		identities: map[identity]*entry{},
		namespaces: map[string]*namespaceEvents{},
		recent:     list.New(),
		watches:    map[*Watch]struct{}{},
	}
}

// Publish implements Recorder. An equal report less than ten minutes after the last one increases the count, and is not sent to
// watches.
func (m *Memory) Publish(e Event) {
	if e.Object.Namespace != "" && !m.active(e.Object.Namespace) {
		return
	}
	e = e.valid()
	now := m.clock.Now()

	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire(now)
	id := identity{object: e.Object, reason: e.Reason}
	known, ok := m.identities[id]
	if !ok {
		m.add(id, e, now)
		return
	}
	repeated := known.report.Message == e.Message && now.Sub(known.sent) < window
	known.report, known.last = e, now
	known.count++
	m.recent.MoveToFront(known.inAll)
	m.namespaces[namespaceOf(e)].recent.MoveToFront(known.inNamespace)
	if !repeated {
		m.version++
		m.changed(known, watch.Modified, now)
	}
}

func (m *Memory) add(id identity, e Event, now time.Time) {
	namespace := namespaceOf(e)
	if events := m.namespaces[namespace]; events != nil && events.recent.Len() >= maxInNamespace {
		m.remove(oldest(events.recent), now)
	}
	if m.recent.Len() >= maxInMemory {
		m.remove(oldest(m.crowded(namespace).recent), now)
	}
	events, ok := m.namespaces[namespace]
	if !ok {
		events = &namespaceEvents{names: map[string]*entry{}, recent: list.New()}
		m.namespaces[namespace] = events
	}
	m.version++
	added := &entry{
		// Stored Events have a time in nanoseconds in their names, which is far from any version.
		report: e, name: recordutil.GenerateEventName(e.Object.Name, int64(m.version)), //nolint:gosec // a version is below 2^63
		uid: types.UID(uuid.NewString()), first: now, count: 1, created: m.version,
	}
	added.inAll, added.inNamespace = m.recent.PushFront(added), events.recent.PushFront(added)
	m.identities[id], events.names[added.name] = added, added
	m.changed(added, watch.Added, now)
}

// crowded is the namespace that an Event is evicted from for one of another: its own if that has its share, else the one that has most.
func (m *Memory) crowded(namespace string) *namespaceEvents {
	most := m.namespaces[namespace]
	if most != nil && most.recent.Len()*len(m.namespaces) >= maxInMemory {
		return most
	}
	for _, events := range m.namespaces {
		if most == nil || events.recent.Len() > most.recent.Len() {
			most = events
		}
	}
	return most
}

func oldest(l *list.List) *entry { return l.Back().Value.(*entry) }

// expire removes what was not updated for an hour.
func (m *Memory) expire(now time.Time) {
	for m.recent.Len() > 0 && now.Sub(oldest(m.recent).last) >= lifetime {
		m.remove(oldest(m.recent), now)
	}
}

func (m *Memory) remove(e *entry, now time.Time) {
	namespace := namespaceOf(e.report)
	events := m.namespaces[namespace]
	delete(m.identities, identity{object: e.report.Object, reason: e.report.Reason})
	delete(events.names, e.name)
	events.recent.Remove(e.inNamespace)
	m.recent.Remove(e.inAll)
	if events.recent.Len() == 0 {
		delete(m.namespaces, namespace)
	}
	m.version++
	m.changed(e, watch.Deleted, now)
	if len(m.deletions) == maxDeletions {
		m.dropped = m.deletions[0].Version
		m.deletions = m.deletions[1:]
	}
	m.deletions = append(m.deletions, Change{watch.Deleted, e.event(), e.version})
}

// changed gives an entry the latest version and sends it to the watches.
func (m *Memory) changed(e *entry, t watch.EventType, now time.Time) {
	e.version = m.version
	if t != watch.Deleted {
		e.last, e.sent = now, now
	}
	if len(m.watches) == 0 {
		return
	}
	change := Change{t, e.event(), e.version}
	for w := range m.watches {
		if w.namespace != "" && w.namespace != change.Event.Namespace {
			continue
		}
		select {
		case w.changes <- change:
		default:
			m.close(w)
		}
	}
}

// event is the API object. Its resourceVersion is that of the storage, which sets it.
func (e *entry) event() *corev1.Event {
	event := newEvent(e.report, e.name, e.first, e.last, e.count)
	event.UID = e.uid
	event.CreationTimestamp = event.FirstTimestamp
	return event
}

// Get returns the Event with a name.
func (m *Memory) Get(namespace, name string) (Change, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire(m.clock.Now())
	events, ok := m.namespaces[namespace]
	if !ok {
		return Change{}, false
	}
	e, ok := events.names[name]
	if !ok {
		return Change{}, false
	}
	return Change{watch.Modified, e.event(), e.version}, true
}

// List returns the Events of a namespace, or of all for "", by namespace and name, and the version at which they were so.
func (m *Memory) List(namespace string) ([]Change, uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire(m.clock.Now())
	all := m.since(namespace, 0)
	slices.SortFunc(all, byName)
	return all, m.version
}

func byName(a, b Change) int {
	return cmp.Or(cmp.Compare(a.Event.Namespace, b.Event.Namespace), cmp.Compare(a.Event.Name, b.Event.Name))
}

func byVersion(a, b Change) int { return cmp.Compare(a.Version, b.Version) }

// since returns the entries that changed after a version, in no order.
func (m *Memory) since(namespace string, version uint64) []Change {
	from := m.recent
	if namespace != "" {
		events, ok := m.namespaces[namespace]
		if !ok {
			return nil
		}
		from = events.recent
	}
	changes := make([]Change, 0, from.Len())
	for at := from.Front(); at != nil; at = at.Next() {
		e := at.Value.(*entry)
		switch {
		case e.created > version:
			changes = append(changes, Change{watch.Added, e.event(), e.version})
		case e.version > version:
			changes = append(changes, Change{watch.Modified, e.event(), e.version})
		}
	}
	return changes
}

// Delete removes an Event if there is one with this name, and with this UID unless it is empty.
func (m *Memory) Delete(namespace, name string, uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if events, ok := m.namespaces[namespace]; ok {
		if e, ok := events.names[name]; ok && (uid == "" || e.uid == uid) {
			m.remove(e, m.clock.Now())
		}
	}
}

// Version is that of the latest change.
func (m *Memory) Version() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.version
}

// Watch is a stream of changes.
type Watch struct {
	namespace string
	changes   chan Change
	memory    *Memory
}

// Changes is closed when the reader is too slow, and after Stop.
func (w *Watch) Changes() <-chan Change { return w.changes }

// Stop ends the watch. It may be called again.
func (w *Watch) Stop() {
	w.memory.mu.Lock()
	defer w.memory.mu.Unlock()
	w.memory.close(w)
}

func (m *Memory) close(w *Watch) {
	if _, ok := m.watches[w]; ok {
		delete(m.watches, w)
		close(w.changes)
	}
}

// Watch returns what changed after a version in a namespace, or in all for "", and a stream of what changes from now on. Version 0
// is before all Events. The error is ErrExpired for a version of another process, and for one after which deletions were dropped.
func (m *Memory) Watch(namespace string, version uint64) ([]Change, *Watch, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if version != 0 && (version < m.dropped || version > m.version) {
		return nil, nil, ErrExpired
	}
	past, order := m.since(namespace, version), byName
	if version != 0 {
		order = byVersion
		for _, d := range m.deletions {
			if d.Version > version && (namespace == "" || d.Event.Namespace == namespace) {
				past = append(past, d)
			}
		}
	}
	slices.SortFunc(past, order)
	w := &Watch{namespace: namespace, changes: make(chan Change, watchBuffer), memory: m}
	m.watches[w] = struct{}{}
	return past, w, nil
}
