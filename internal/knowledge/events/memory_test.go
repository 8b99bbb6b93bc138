package events_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func memory() (*events.Memory, *clocktesting.FakePassiveClock) {
	clock := clocktesting.NewFakePassiveClock(epoch)
	return events.NewMemory(clock, 100, func(namespace string) bool { return namespace != "gone" }), clock
}

func deployment(namespace, name string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name)}
}

// list is what a reader receives, as "name reason count: message".
func list(m *events.Memory, namespace string) []string {
	changes, _ := m.List(namespace)
	var lines []string
	for _, c := range changes {
		e := c.Event
		lines = append(lines, fmt.Sprintf("%s %s %d: %s", e.InvolvedObject.Name, e.Reason, e.Count, e.Message))
	}
	slices.Sort(lines)
	return lines
}

// received drains a watch.
func received(w *events.Watch) []string {
	var lines []string
	for {
		select {
		case c, ok := <-w.Changes():
			if !ok {
				return append(lines, "closed")
			}
			lines = append(lines, line(c))
		default:
			return lines
		}
	}
}

func line(c events.Change) string {
	return fmt.Sprintf("%s %s %s", c.Type, c.Event.InvolvedObject.Name, c.Event.Message)
}

func TestOneEventInMemoryForAnObjectAndReason(t *testing.T) {
	m, clock := memory()
	_, w, err := m.Watch("shop", m.Version())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	m.Publish(events.Success(deployment("shop", "web"), events.SyncWorkSucceed, "1 Work"))
	m.Publish(events.Success(deployment("shop", "web"), events.SyncWorkSucceed, "1 Work"))
	m.Publish(events.Success(deployment("shop", "web"), events.SyncWorkSucceed, "2 Works"))
	m.Publish(events.Success(deployment("shop", "web"), events.GetReplicasSucceed, "3 replicas"))
	m.Publish(events.Success(deployment("other", "web"), events.SyncWorkSucceed, "1 Work"))
	if got, want := list(m, "shop"), []string{"web GetReplicasSucceed 1: 3 replicas", "web SyncWorkSucceed 3: 2 Works"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	if got := list(m, ""); len(got) != 3 {
		t.Errorf("all namespaces have %q", got)
	}
	if got, want := received(w), []string{"ADDED web 1 Work", "MODIFIED web 2 Works", "ADDED web 3 replicas"}; !slices.Equal(got, want) {
		t.Errorf("watched %q, want %q", got, want)
	}
	clock.SetTime(epoch.Add(10 * time.Minute))
	m.Publish(events.Success(deployment("shop", "web"), events.SyncWorkSucceed, "2 Works"))
	if got, want := received(w), []string{"MODIFIED web 2 Works"}; !slices.Equal(got, want) {
		t.Errorf("later watched %q, want %q", got, want)
	}
}

func TestEventsInMemoryOfANamespaceThatIsGoneAreDropped(t *testing.T) {
	m, _ := memory()
	m.Publish(events.Success(deployment("gone", "web"), events.SyncWorkSucceed, "1 Work"))
	m.Publish(events.Success(corev1.ObjectReference{Kind: "Cluster", Name: "m1"}, events.TaintClusterSucceed, "ok"))
	if got, want := list(m, ""), []string{"m1 TaintClusterSucceed 1: ok"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	if got := list(m, "default"); len(got) != 1 {
		t.Errorf("an Event about a cluster-scoped object is not in namespace default: %q", got)
	}
}

func TestEventsInMemoryEnd(t *testing.T) {
	m, clock := memory()
	m.Publish(events.Success(deployment("shop", "old"), events.SyncWorkSucceed, "1"))
	clock.SetTime(epoch.Add(30 * time.Minute))
	m.Publish(events.Success(deployment("shop", "new"), events.SyncWorkSucceed, "1"))
	version := m.Version()
	clock.SetTime(epoch.Add(time.Hour))
	if got, want := list(m, "shop"), []string{"new SyncWorkSucceed 1: 1"}; !slices.Equal(got, want) {
		t.Errorf("after an hour %q, want %q", got, want)
	}
	past, w, err := m.Watch("", version)
	if err != nil || len(past) != 1 || line(past[0]) != "DELETED old 1" {
		t.Fatalf("a watch from before the deletion begins with %v, %v", past, err)
	}
	w.Stop()
	w.Stop()
	found, _ := m.List("shop")
	m.Delete("shop", found[0].Event.Name, "another")
	if len(list(m, "shop")) != 1 {
		t.Error("an Event with another UID was deleted")
	}
	m.Delete("shop", found[0].Event.Name, found[0].Event.UID)
	if got := list(m, ""); len(got) != 0 {
		t.Errorf("after the deletion %q", got)
	}
}

// A tenant with many objects evicts its own Events only.
func TestEventsInMemoryAreBounded(t *testing.T) {
	m, clock := memory()
	m.Publish(events.Success(deployment("quiet", "web"), events.SyncWorkSucceed, "1"))
	for i := range 5000 {
		clock.SetTime(epoch.Add(time.Duration(i+1) * time.Millisecond))
		m.Publish(events.Success(deployment("noisy", fmt.Sprint(i)), events.SyncWorkSucceed, "1"))
	}
	noisy := list(m, "noisy")
	if len(noisy) != 4096 || slices.Contains(noisy, "0 SyncWorkSucceed 1: 1") || !slices.Contains(noisy, "4999 SyncWorkSucceed 1: 1") {
		t.Errorf("%d Events of one namespace are kept", len(noisy))
	}
	if len(list(m, "quiet")) != 1 {
		t.Error("the Event of another namespace was evicted")
	}
	for i := range 20000 {
		m.Publish(events.Success(deployment(fmt.Sprint("n", i%10), fmt.Sprint(i)), events.SyncWorkSucceed, "1"))
	}
	if all := list(m, ""); len(all) != 16384 {
		t.Errorf("%d Events are kept", len(all))
	}
	if len(list(m, "quiet")) != 1 {
		t.Error("the Event of another namespace was evicted for those of ten")
	}
	m.Publish(events.Success(deployment("late", "web"), events.SyncWorkSucceed, "1"))
	if len(list(m, "late")) != 1 || len(list(m, "quiet")) != 1 || len(list(m, "")) != 16384 {
		t.Error("the Event of a namespace that has few was evicted for another that has few")
	}
}

func TestAWatchOfEventsInMemoryResumes(t *testing.T) {
	m, _ := memory()
	m.Publish(events.Success(deployment("shop", "a"), events.SyncWorkSucceed, "1"))
	seen := m.Version()
	m.Publish(events.Success(deployment("shop", "a"), events.SyncWorkSucceed, "2"))
	m.Publish(events.Success(deployment("shop", "b"), events.SyncWorkSucceed, "1"))
	m.Publish(events.Success(deployment("other", "c"), events.SyncWorkSucceed, "1"))
	past, w, err := m.Watch("shop", seen)
	if err != nil {
		t.Fatal(err)
	}
	w.Stop()
	var lines []string
	for _, c := range past {
		lines = append(lines, line(c))
	}
	if want := []string{"MODIFIED a 2", "ADDED b 1"}; !slices.Equal(lines, want) {
		t.Errorf("resumes with %q, want %q", lines, want)
	}
	if past, w, err = m.Watch("", 0); err != nil || len(past) != 3 || past[0].Type != watch.Added {
		t.Errorf("a watch of everything begins with %v, %v", past, err)
	}
	w.Stop()
	for _, version := range []uint64{50, m.Version() + 1} {
		if _, _, err := m.Watch("", version); !errors.Is(err, events.ErrExpired) {
			t.Errorf("a watch from version %d of another process: %v", version, err)
		}
	}
	for i := range 1100 {
		m.Publish(events.Success(deployment("shop", fmt.Sprint(i)), events.SyncWorkSucceed, "1"))
	}
	found, _ := m.List("shop")
	for _, c := range found {
		m.Delete("shop", c.Event.Name, "")
	}
	if _, _, err := m.Watch("", seen); !errors.Is(err, events.ErrExpired) {
		t.Errorf("a watch from before dropped deletions: %v", err)
	}
}

func TestASlowWatchOfEventsInMemoryIsClosed(t *testing.T) {
	m, _ := memory()
	_, slow, err := m.Watch("", m.Version())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1500 {
		m.Publish(events.Success(deployment("shop", fmt.Sprint(i)), events.SyncWorkSucceed, "1"))
	}
	lines := received(slow)
	if len(lines) != 1025 || lines[1024] != "closed" {
		t.Errorf("received %d changes, the last is %q", len(lines), lines[len(lines)-1])
	}
}

func BenchmarkPublishInMemory(b *testing.B) {
	m, _ := memory()
	b.ReportAllocs()
	for i := range b.N {
		m.Publish(events.Success(deployment("shop", "web"), events.SyncWorkSucceed, fmt.Sprint(i%7)))
	}
}
