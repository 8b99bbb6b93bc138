package member_test

import (
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/objectcache"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

const synced = `{"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}}`

// configMap is an object of the Work "w", with the fields of manager flagship and of others.
func configMap(name string, version int, ours string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"shop","resourceVersion":"%d","labels":{"karmada.io/managed":"true"},`+
		`"annotations":{"work.karmada.io/namespace":"karmada-es-member1","work.karmada.io/name":"w"},"managedFields":[`+
		`{"manager":"flagship","operation":"Apply","fieldsType":"FieldsV1","fieldsV1":{%s}},{"manager":"kubectl","operation":"Update","fieldsType":"FieldsV1","fieldsV1":{"f:x":{}}}]}}`, name, version, ours)
}

func event(kind, object string) string { return fmt.Sprintf(`{"type":%q,"object":%s}`, kind, object) }

// recorder writes down changes.
type recorder struct {
	mu      sync.Mutex
	changes []objectcache.Change
}

func (d *recorder) write(c objectcache.Change) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changes = append(d.changes, c)
}

func (d *recorder) len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.changes)
}

// take returns the changes so far and clears them.
func (d *recorder) take() []objectcache.Change {
	d.mu.Lock()
	defer d.mu.Unlock()
	changes := d.changes
	d.changes = nil
	return changes
}

// watching returns a connection that watches ConfigMaps, and the watch, synced with one object.
func watching(t *testing.T) (*server, *member.Conn, *recorder, *watcher) {
	t.Helper()
	s := newServer(t)
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.Query().Get("labelSelector"); got != "karmada.io/managed=true" {
			t.Errorf("objects are selected by %q", got)
		}
		if got := r.Header.Get("Accept-Encoding"); got != "identity" {
			t.Errorf("a watch accepts %q", got)
		}
		s.serveWatch(w, r)
	})
	fleet, conn := connect(t, s.URL, nil)
	d := &recorder{}
	fleet.OnChange(d.write)
	conn.Hold("test", configMaps)
	if conn.HasSynced(configMaps) {
		t.Error("synced before anything was read")
	}
	w := <-s.watches
	w.lines <- event("ADDED", configMap("a", 5, `"f:data":{"f:k":{}}`))
	w.lines <- fmt.Sprintf(synced, 6)
	eventually(t, "the watch is complete", func() bool { return d.len() == 2 })
	return s, conn, d, w
}

func TestWhatIsWatchedIsKnown(t *testing.T) {
	_, conn, d, w := watching(t)
	work := types.NamespacedName{Namespace: "karmada-es-member1", Name: "w"}
	a := types.NamespacedName{Namespace: "shop", Name: "a"}
	if diff := cmp.Diff([]objectcache.Change{{Cluster: "member1", Resource: configMaps, Object: a, Work: work, New: true, Listed: true}, {Cluster: "member1", Resource: configMaps, Synced: true}}, d.take()); diff != "" {
		t.Errorf("at first: -want +got:\n%s", diff)
	}
	obj, ok := conn.Lookup(configMaps, "shop", "a")
	if !ok || !conn.HasSynced(configMaps) {
		t.Fatal("the object is not known")
	}
	if fields := obj.GetManagedFields(); len(fields) != 1 || fields[0].Manager != ownership.FieldManager {
		t.Errorf("the fields of others are kept: %+v", fields)
	}
	if owned, complete := conn.Owned(work); !complete || len(owned) != 1 || owned[0].GetName() != "a" {
		t.Errorf("the Work owns %v", owned)
	}

	w.lines <- event("MODIFIED", configMap("a", 7, `"f:data":{"f:k":{}}`))
	w.lines <- event("MODIFIED", configMap("a", 8, ``))
	w.lines <- event("DELETED", configMap("a", 9, ``))
	eventually(t, "three changes are notified", func() bool { return d.len() == 3 })
	base := objectcache.Change{Cluster: "member1", Resource: configMaps, Object: a, Work: work}
	disowned, gone := base, base
	disowned.Disowned, gone.Gone = true, true
	changes := d.take()
	if last, ok := changes[2].Last(); !ok || last.GetResourceVersion() != "8" {
		t.Errorf("the deleted object was last %v", last)
	}
	changes[2].Last = nil
	if diff := cmp.Diff([]objectcache.Change{base, disowned, gone}, changes); diff != "" {
		t.Errorf("later: -want +got:\n%s", diff)
	}
	if _, ok := conn.Lookup(configMaps, "shop", "a"); ok || len(conn.Heads(work)) > 0 {
		t.Error("a deleted object is still known")
	}
}

// TestAnAnswerIsNoChangeOfOthers: what we own is another set of fields since we wrote them, not since others did.
func TestAnAnswerIsNoChangeOfOthers(t *testing.T) {
	_, conn, d, _ := watching(t)
	d.take()
	conn.AddWritten(configMaps, parse(t, configMap("b", 20, `"f:data":{}`)))
	conn.AddWritten(configMaps, parse(t, configMap("b", 21, `"f:data":{"f:k":{}},"f:metadata":{}`)))
	if changes := d.take(); len(changes) != 2 || changes[1].Disowned || changes[1].Object.Name != "b" {
		t.Errorf("the changes are %+v", changes)
	}
}

func TestAnAnswerIsKnownBeforeItsEvent(t *testing.T) {
	_, conn, d, w := watching(t)
	d.take()
	conn.AddWritten(configMaps, parse(t, configMap("b", 20, `"f:data":{}`)))
	if _, ok := conn.Lookup(configMaps, "shop", "b"); !ok || d.len() != 1 {
		t.Fatalf("what we wrote is not known, %d changes", d.len())
	}
	w.lines <- event("ADDED", configMap("b", 20, `"f:data":{}`))
	w.lines <- event("DELETED", configMap("b", 21, ``))
	eventually(t, "the deletion is notified", func() bool { return d.len() == 2 })
	conn.AddWritten(configMaps, parse(t, configMap("b", 20, `"f:data":{}`)))
	if _, ok := conn.Lookup(configMaps, "shop", "b"); ok {
		t.Error("an answer that came late brought a deleted object back")
	}
}

func TestAnAnswerOutlivesAListThatIsOlder(t *testing.T) {
	s := newServer(t)
	s.answer(s.serveWatch)
	_, conn := connect(t, s.URL, nil)
	conn.Hold("test", configMaps)
	w := <-s.watches
	conn.AddWritten(configMaps, parse(t, configMap("b", 20, `"f:data":{}`)))
	w.lines <- fmt.Sprintf(synced, 6)
	eventually(t, "the watch is complete", func() bool { return conn.HasSynced(configMaps) })
	if _, ok := conn.Lookup(configMaps, "shop", "b"); !ok {
		t.Error("an object we wrote after the list was made is not known")
	}
}

// An object that is replaced needs the watch of its kind again at once; a kind that no one uses costs nothing.
func TestAWatchEndsAMinuteAfterItsLastHolder(t *testing.T) {
	s := newServer(t)
	s.answer(s.serveWatch)
	clock := clocktesting.NewFakeClock(time.Now())
	_, conn := connect(t, s.URL, func(c *member.Config) { c.Clock = clock })
	conn.Hold("one", configMaps)
	conn.Hold("two", configMaps)
	(<-s.watches).lines <- fmt.Sprintf(synced, 6)
	eventually(t, "the watch is complete", func() bool { return conn.HasSynced(configMaps) })
	conn.Release("one")
	if clock.HasWaiters() {
		t.Error("the watch is about to end, although it is in use")
	}
	conn.Release("two")
	eventually(t, "the watch is about to end", clock.HasWaiters)
	conn.Hold("three", configMaps)
	clock.Step(61 * time.Second)
	conn.Release("three")
	eventually(t, "the watch is about to end again", clock.HasWaiters)
	clock.Step(59 * time.Second)
	if !conn.HasSynced(configMaps) {
		t.Error("the watch ended, although it was in use a minute ago")
	}
	clock.Step(2 * time.Second)
	eventually(t, "the watch has ended", func() bool { return !conn.HasSynced(configMaps) })
	select {
	case <-s.watches:
		t.Error("it was begun twice")
	default:
	}
}

// A server, or what stands before it, may hold a connection that is well and never answer.
func TestAWatchThatNeverBeginsIsTriedAgain(t *testing.T) {
	s := newServer(t)
	var mute atomic.Bool
	mute.Store(true)
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case mute.Load():
			<-r.Context().Done()
		case r.URL.Query().Get("watch") != "true": // what a watch cannot begin with is listed
			reply(w, http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "ConfigMapList", "metadata": map[string]any{"resourceVersion": "6"}, "items": []any{}})
		default:
			fmt.Fprintf(w, synced+"\n", 6)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	})
	_, conn := connect(t, s.URL, func(c *member.Config) { c.RequestTimeout, c.FailureThreshold = 100*time.Millisecond, 1 })
	conn.Hold("test", configMaps)
	eventually(t, "it counts as a failure of the member", func() bool { return conn.Health().Down })
	mute.Store(false)
	eventually(t, "the watch is complete", func() bool { return conn.HasSynced(configMaps) })
}

// A member that was restored from a backup shows earlier versions of what was seen.
func TestARestoredMemberIsNotTakenForALaggingOne(t *testing.T) {
	s, conn, d, w := watching(t)
	w.lines <- event("MODIFIED", configMap("a", 90, `"f:data":{"f:k":{}}`))
	eventually(t, "the change is notified", func() bool { return d.len() == 3 })
	d.take()
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("resourceVersion") != "" && r.URL.Query().Get("sendInitialEvents") == "" {
			refuse(w, http.StatusGone, metav1.StatusReasonExpired)
			return
		}
		s.serveWatch(w, r)
	})
	close(w.lines)
	w = <-s.watches
	w.lines <- event("ADDED", configMap("a", 5, `"f:data":{"f:k":{}}`))
	w.lines <- fmt.Sprintf(synced, 40)
	eventually(t, "the earlier version is notified", func() bool { return d.len() == 1 })
	if change := d.take()[0]; !change.Rewound || change.Object.Name != "a" {
		t.Errorf("notified of %+v", change)
	}
	if obj, ok := conn.Lookup(configMaps, "shop", "a"); !ok || obj.GetResourceVersion() != "5" {
		t.Error("the present version is not the one that is known")
	}
}

func TestAWatchThatBreaksGoesOnWhereItWas(t *testing.T) {
	s, conn, d, w := watching(t)
	d.take()
	close(w.lines)
	w = <-s.watches
	if w.rv != "6" {
		t.Errorf("the watch goes on from %q, want 6", w.rv)
	}
	// The member does not have that version any more: everything is read anew, but only what differs is a change.
	w.lines <- `{"type":"ERROR","object":{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Expired","code":410}}`
	w = <-s.watches
	w.lines <- event("ADDED", configMap("a", 5, `"f:data":{"f:k":{}}`))
	w.lines <- event("ADDED", configMap("new", 30, ``))
	w.lines <- fmt.Sprintf(synced, 31)
	eventually(t, "the new object is notified", func() bool { return d.len() == 1 })
	if got := d.take(); got[0].Object.Name != "new" {
		t.Errorf("notified: %+v", got)
	}
	if !conn.HasSynced(configMaps) {
		t.Error("not synced any more")
	}
}

func TestMembersThatCannotStreamAListAreListed(t *testing.T) {
	s := newServer(t)
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Get("sendInitialEvents") != "":
			refuse(w, http.StatusUnprocessableEntity, "Invalid")
		case r.URL.Query().Get("watch") != "":
			s.serveWatch(w, r)
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"6"},"items":[%s]}`, configMap("a", 5, `"f:data":{}`))
		}
	})
	_, conn := connect(t, s.URL, nil)
	conn.Hold("test", configMaps)
	notified := make(chan struct{})
	conn.WhenSynced(configMaps, func() { close(notified) })
	<-notified
	if obj, ok := conn.Lookup(configMaps, "shop", "a"); !ok || len(obj.GetManagedFields()) != 1 {
		t.Errorf("got %v, %t, want the object without the fields of others", obj, ok)
	}
	if w := <-s.watches; w.rv != "6" {
		t.Errorf("the watch begins at %q, want 6", w.rv)
	}
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return obj
}

// TestALateSubscriberMissesNothing that exists.
func TestALateSubscriberMissesNothing(t *testing.T) {
	s := newServer(t)
	s.answer(s.serveWatch)
	fleet, conn := connect(t, s.URL, nil)
	conn.Hold("test", configMaps)
	w := <-s.watches
	w.lines <- event("ADDED", configMap("a", 5, `"f:data":{}`))
	w.lines <- fmt.Sprintf(synced, 6)
	eventually(t, "the object is known", func() bool { return conn.HasSynced(configMaps) })
	var names []string
	fleet.Subscribe(func(name string) { names = append(names, name) })
	if diff := cmp.Diff([]string{"member1"}, names); diff != "" {
		t.Errorf("connections (-want +got):\n%s", diff)
	}
	var changes []objectcache.Change
	fleet.OnChange(func(c objectcache.Change) { changes = append(changes, c) })
	if len(changes) != 2 || !changes[0].New || !changes[0].Listed || changes[0].Object.Name == "" || !changes[1].Synced {
		t.Errorf("changes are %+v", changes)
	}
}

// TestConnectionsThatCameAndWentLeaveNothing counts goroutines: watches, their ends that were put off, and probes of members that are
// down end with the connection.
func TestConnectionsThatCameAndWentLeaveNothing(t *testing.T) {
	s := newServer(t)
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	fleet, _ := connect(t, s.URL, nil)
	before := runtime.NumGoroutine()
	const members = 100
	name := func(i int) string { return fmt.Sprintf("member-%d", i) }
	for i := range members {
		c := cluster(s.URL)
		if i%2 == 0 {
			c = cluster("https://127.0.0.1:1") // is down
		}
		c.Name, c.UID = name(i), types.UID(name(i))
		if err := fleet.Upsert(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		conn, _ := fleet.Get(c.Name)
		conn.Hold("a", configMaps)
		conn.Hold("b", configMaps, schema.GroupVersionResource{Version: "v1", Resource: "secrets"})
		conn.Release("b")
	}
	eventually(t, "members that are down are probed", func() bool {
		conn, _ := fleet.Get(name(0))
		return conn.Health().Down
	})
	for i := range members {
		fleet.Remove(name(i))
	}
	eventually(t, "the goroutines are gone", func() bool {
		s.CloseClientConnections() // those of the server
		return runtime.NumGoroutine() <= before+8
	})
}
