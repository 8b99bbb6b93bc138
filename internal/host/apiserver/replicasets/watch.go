package replicasets

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/kubernetes/pkg/apis/apps"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/native"
)

// progressPeriod is how often a watch requests progress while events wait for it.
const progressPeriod = 100 * time.Millisecond

// side is the watch of one collection in etcd.
type side struct {
	collection collection
	watch      watch.Interface
	// reached is the revision up to which all its events were received.
	reached uint64
}

// pending is an event that waits for the other side.
type pending struct {
	revision uint64
	event    watch.Event
}

// merged is one watch of stored and derived ReplicaSets. Events are sent in the order of their revisions, so that a client which
// resumes from what it received last misses none: an event waits until the other side has reached its revision, by an event of its own
// or by the progress that etcd reports on request. Two watch caches cannot be merged in this way, since they report their progress once a
// minute, so these watches are of etcd itself. Few clients have one: those that select stored ReplicaSets only, as the loops of the
// control plane do, do not.
type merged struct {
	native.Outlet // until cancel
	cancel        context.CancelFunc
	predicate     storage.SelectionPredicate
	name          string

	stored, deployments side
	// known is the metadata of the derived ReplicaSets that the client has, by Deployment.
	known map[types.NamespacedName]*apps.ReplicaSet
	queue []pending
	// sent is the revision of the last bookmark.
	sent uint64
}

func (s *Storage) watchBoth(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	from, err := s.Versioner().ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	initial := from == 0 && opts.SendInitialEvents == nil || opts.SendInitialEvents != nil && *opts.SendInitialEvents
	if from == 0 || initial {
		if from, err = s.stored.plain.GetCurrentResourceVersion(ctx); err != nil {
			return nil, err
		}
	}
	namespace, name := s.split(key)
	m := &merged{
		predicate: opts.Predicate, name: name, known: map[types.NamespacedName]*apps.ReplicaSet{}, sent: from, Outlet: native.Outlet{Result: make(chan watch.Event)},
		stored: side{collection: s.stored, reached: from}, deployments: side{collection: *s.deployments, reached: from},
	}
	ctx, m.cancel = context.WithCancel(ctx)
	m.Done = ctx.Done()
	first, err := m.start(ctx, key, s.deployments.key(namespace, ""), opts, from, initial)
	if err != nil {
		m.cancel()
		return nil, err
	}
	go m.run(ctx, first) // it ends with Stop and with the context, as the goroutines of upstream's watches do: nothing waits for those either
	return m, nil
}

// start reads what there is at a revision and watches from there. It returns the initial events.
func (m *merged) start(ctx context.Context, storedKey, deploymentsKey string, opts storage.ListOptions, from uint64, initial bool) (first []watch.Event, err error) {
	at := storage.ListOptions{ResourceVersion: strconv.FormatUint(from, 10), ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	at.Predicate, at.Recursive = storage.Everything, true
	var deployments apps.DeploymentList
	if err := m.deployments.collection.plain.GetList(ctx, deploymentsKey, at, &deployments); err != nil {
		return nil, err
	}
	for i := range deployments.Items {
		events, err := m.derived(watch.Added, &deployments.Items[i], 0)
		if err != nil {
			return nil, err
		}
		first = append(first, events...)
	}
	if initial {
		at.Predicate, at.Recursive = opts.Predicate, opts.Recursive
		var stored apps.ReplicaSetList
		if err := m.stored.collection.plain.GetList(ctx, storedKey, at, &stored); err != nil {
			return nil, err
		}
		for i := range stored.Items {
			first = append(first, watch.Event{Type: watch.Added, Object: &stored.Items[i]})
		}
		if opts.SendInitialEvents != nil && opts.Predicate.AllowWatchBookmarks {
			end := bookmark(from)
			end.Object.(*apps.ReplicaSet).Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
			first = append(first, end)
		}
	} else {
		first = nil // the client has them
	}
	on := storage.ListOptions{ResourceVersion: at.ResourceVersion, ProgressNotify: true, Recursive: opts.Recursive, Predicate: opts.Predicate}
	if m.stored.watch, err = m.stored.collection.plain.Watch(ctx, storedKey, on); err != nil {
		return nil, err
	}
	on.Recursive, on.Predicate = true, storage.Everything
	m.deployments.watch, err = m.deployments.collection.plain.Watch(ctx, deploymentsKey, on)
	return first, err
}

// Stop implements watch.Interface. It ends both sides, too.
func (m *merged) Stop() { m.cancel() }

// run sends until the client stops, or one side ends.
func (m *merged) run(ctx context.Context, first []watch.Event) {
	defer close(m.Result)
	defer m.cancel()
	for _, event := range first {
		if !m.Send(event) {
			return
		}
	}
	progress := time.NewTicker(progressPeriod)
	defer progress.Stop()
	for {
		select {
		case event, ok := <-m.stored.watch.ResultChan():
			if !ok || !m.take(ctx, &m.stored, event) {
				return
			}
		case event, ok := <-m.deployments.watch.ResultChan():
			if !ok || !m.take(ctx, &m.deployments, event) {
				return
			}
		case <-progress.C:
			m.requestProgress(ctx)
		case <-m.Done:
			return
		}
		if !m.flush() {
			return
		}
	}
}

// take adds an event of one side to the queue.
func (m *merged) take(ctx context.Context, s *side, event watch.Event) bool {
	if event.Type == watch.Error {
		m.Send(event)
		return false
	}
	revision, err := (storage.APIObjectVersioner{}).ObjectResourceVersion(event.Object)
	if err != nil {
		return m.Fail(err)
	}
	s.reached = max(s.reached, revision)
	if event.Type == watch.Bookmark {
		return true
	}
	waited := len(m.queue) > 0
	if s == &m.stored {
		m.queue = append(m.queue, pending{revision, event})
	} else {
		events, err := m.derived(event.Type, event.Object.(*apps.Deployment), revision)
		if err != nil {
			return m.Fail(err)
		}
		for _, event := range events {
			m.queue = append(m.queue, pending{revision, event})
		}
	}
	slices.SortStableFunc(m.queue, func(a, b pending) int { return int(int64(a.revision) - int64(b.revision)) })
	if !waited {
		m.requestProgress(ctx)
	}
	return true
}

// requestProgress has etcd report how far the side is that events wait for. It may not answer: then the next request does.
func (m *merged) requestProgress(ctx context.Context) {
	if len(m.queue) == 0 {
		return
	}
	for _, s := range []*side{&m.stored, &m.deployments} {
		if s.reached < m.queue[0].revision {
			_ = s.collection.plain.RequestWatchProgress(ctx)
		}
	}
}

// flush sends the events that both sides have reached, and then how far that is.
func (m *merged) flush() bool {
	reached := min(m.stored.reached, m.deployments.reached)
	for len(m.queue) > 0 && m.queue[0].revision <= reached {
		m.sent = m.queue[0].revision
		if !m.Send(m.queue[0].event) {
			return false
		}
		m.queue = m.queue[1:]
	}
	if len(m.queue) == 0 && reached > m.sent && m.predicate.AllowWatchBookmarks {
		m.sent = reached
		return m.Send(bookmark(reached))
	}
	return true
}

// derived returns what a change of a Deployment is to the derived ReplicaSets. A new template is another ReplicaSet: the end of the
// earlier one has the revision before, so that a client which resumes from it receives the new one.
func (m *merged) derived(change watch.EventType, d *apps.Deployment, revision uint64) (events []watch.Event, err error) {
	of := types.NamespacedName{Namespace: d.Namespace, Name: d.Name}
	before := m.known[of]
	var after *apps.ReplicaSet
	if change != watch.Deleted {
		if after, err = derive(d); err != nil {
			return nil, err
		}
		if after != nil {
			matches, err := m.predicate.Matches(after)
			if err != nil {
				return nil, fmt.Errorf("filtering ReplicaSets: %w", err)
			}
			if !matches || m.name != "" && m.name != after.Name {
				after = nil
			}
		}
	}
	kind := watch.Modified
	if before != nil && (after == nil || after.Name != before.Name) {
		gone := *before
		at := revision
		if after != nil {
			at--
		}
		gone.ResourceVersion = strconv.FormatUint(at, 10)
		events = append(events, watch.Event{Type: watch.Deleted, Object: &gone})
		before = nil
	}
	if after == nil {
		delete(m.known, of)
		return events, nil
	}
	if before == nil {
		kind = watch.Added
	}
	m.known[of] = &apps.ReplicaSet{ObjectMeta: after.ObjectMeta}
	return append(events, watch.Event{Type: kind, Object: after}), nil
}

func bookmark(revision uint64) watch.Event {
	var object runtime.Object = &apps.ReplicaSet{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.FormatUint(revision, 10)}}
	return watch.Event{Type: watch.Bookmark, Object: object}
}
