package apiserver_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// eventsOf lists what a namespace has, as "object: message".
func eventsOf(items []corev1.Event) []string {
	var lines []string
	for _, e := range items {
		lines = append(lines, e.InvolvedObject.Name+": "+e.Message)
	}
	slices.Sort(lines)
	return lines
}

func publish(namespace, name, message string) {
	hub.Events().Publish(events.Success(corev1.ObjectReference{Kind: "ConfigMap", APIVersion: "v1", Namespace: namespace, Name: name}, events.SyncWorkSucceed, message))
}

func store(t *testing.T, namespace, name, message string) *corev1.Event {
	t.Helper()
	stored, err := clients.CoreV1().Events(namespace).Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: name + "."},
		InvolvedObject: corev1.ObjectReference{Kind: "ConfigMap", APIVersion: "v1", Namespace: namespace, Name: name},
		Type:           corev1.EventTypeWarning, Reason: "Failed", Message: message,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// eventNamespace makes a namespace, and waits until Events about its objects are kept.
func eventNamespace(t *testing.T, name string) {
	t.Helper()
	if _, err := clients.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		publish(name, "first", "1")
		if found, _ := hub.Events().List(name); len(found) == 0 {
			return "no Event is kept for a new namespace"
		}
		return ""
	})
}

func listEvents(t *testing.T, namespace string, options metav1.ListOptions) *corev1.EventList {
	t.Helper()
	list, err := clients.CoreV1().Events(namespace).List(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestEventsInMemoryAreListedWithThoseInStorage(t *testing.T) {
	const ns = "events-listed"
	eventNamespace(t, ns)
	publish(ns, "web", "written")
	stored := store(t, ns, "web", "refused")
	want := []string{"first: 1", "web: refused", "web: written"}
	if got := eventsOf(listEvents(t, ns, metav1.ListOptions{}).Items); !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	newer, err := clients.EventsV1().Events(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(newer.Items) != 3 {
		t.Errorf("events.k8s.io has %d Events, %v", len(newer.Items), err)
	}
	selected := listEvents(t, ns, metav1.ListOptions{FieldSelector: "involvedObject.name=web,reason=" + events.SyncWorkSucceed})
	if got := eventsOf(selected.Items); !slices.Equal(got, []string{"web: written"}) {
		t.Fatalf("a field selector finds %q", got)
	}
	inMemory := selected.Items[0]
	if inMemory.UID == "" || inMemory.ResourceVersion == "" || inMemory.Source.Component != "flagship" {
		t.Errorf("an Event in memory is %+v", inMemory)
	}
	first := listEvents(t, ns, metav1.ListOptions{Limit: 1})
	second := listEvents(t, ns, metav1.ListOptions{Limit: 1, Continue: first.Continue})
	if got := len(first.Items) + len(second.Items); first.Continue != "" && got != 3 {
		t.Errorf("pages have %d Events", got)
	}
	read, err := clients.CoreV1().Events(ns).Get(t.Context(), inMemory.Name, metav1.GetOptions{})
	if err != nil || read.UID != inMemory.UID || read.Message != "written" {
		t.Errorf("read %v, %v", read, err)
	}
	read.Message = "changed"
	if _, err := clients.CoreV1().Events(ns).Update(t.Context(), read, metav1.UpdateOptions{}); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("an Event in memory is updated: %v", err)
	}
	stale := stored.DeepCopy()
	stored.Message = "refused again"
	if _, err := clients.CoreV1().Events(ns).Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
		t.Errorf("updating a stored Event: %v", err)
	}
	if _, err := clients.CoreV1().Events(ns).Update(t.Context(), stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("a stale update of a stored Event: %v", err)
	}
	if err := clients.CoreV1().Events(ns).Delete(t.Context(), inMemory.Name, *metav1.NewPreconditionDeleteOptions("another")); !apierrors.IsConflict(err) {
		t.Errorf("deleting another Event of the name: %v", err)
	}
	if err := clients.CoreV1().Events(ns).Delete(t.Context(), inMemory.Name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if got, want := eventsOf(listEvents(t, ns, metav1.ListOptions{}).Items), []string{"first: 1", "web: refused again"}; !slices.Equal(got, want) {
		t.Errorf("after a deletion %q, want %q", got, want)
	}
	if err := clients.CoreV1().Events(ns).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if got := listEvents(t, ns, metav1.ListOptions{}).Items; len(got) > 0 {
		t.Errorf("after the deletion of all: %q", eventsOf(got))
	}
}

// next returns the next changes of a watch, sorted: the two parts of the collection have no common order.
func next(t *testing.T, w watch.Interface, count int) (lines []string, version string) {
	t.Helper()
	for range count {
		select {
		case e, ok := <-w.ResultChan():
			event, is := e.Object.(*corev1.Event)
			if !ok || !is {
				t.Fatalf("the watch ended with %v", e.Object)
			}
			lines, version = append(lines, fmt.Sprintf("%s %s: %s", e.Type, event.InvolvedObject.Name, event.Message)), event.ResourceVersion
		case <-time.After(3 * time.Minute):
			t.Fatalf("received only %q", lines)
		}
	}
	slices.Sort(lines)
	return lines, version
}

func TestAWatchOfEventsHasBothParts(t *testing.T) {
	const ns = "events-watched"
	eventNamespace(t, ns)
	begin := func(version string) watch.Interface {
		w, err := clients.CoreV1().Events(ns).Watch(t.Context(), metav1.ListOptions{ResourceVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
		return w
	}
	w := begin(listEvents(t, ns, metav1.ListOptions{}).ResourceVersion)
	publish(ns, "web", "1")
	store(t, ns, "web", "2")
	publish(ns, "web", "3")
	lines, version := next(t, w, 3)
	if want := []string{"ADDED web: 1", "ADDED web: 2", "MODIFIED web: 3"}; !slices.Equal(lines, want) {
		t.Errorf("watched %q, want %q", lines, want)
	}
	w.Stop()
	publish(ns, "web", "4")
	store(t, ns, "web", "5")
	lines, _ = next(t, begin(version), 2)
	if want := []string{"ADDED web: 5", "MODIFIED web: 4"}; !slices.Equal(lines, want) {
		t.Errorf("resumed with %q, want %q", lines, want)
	}
	lines, _ = next(t, begin("0"), 4)
	if want := []string{"ADDED first: 1", "ADDED web: 2", "ADDED web: 4", "ADDED web: 5"}; !slices.Equal(lines, want) {
		t.Errorf("from the beginning %q, want %q", lines, want)
	}
	if _, err := clients.CoreV1().Events(ns).Watch(t.Context(), metav1.ListOptions{ResourceVersion: "7"}); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("a version from before the two parts: %v", err)
	}
}

func TestAnInformerOfEventsHasBothParts(t *testing.T) {
	const ns = "events-informed"
	eventNamespace(t, ns)
	store(t, ns, "web", "stored")
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace(ns))
	informer := factory.Core().V1().Events().Informer()
	ctx, cancel := context.WithCancel(t.Context())
	defer factory.Shutdown()
	defer cancel()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("the informer did not sync")
	}
	if got := len(informer.GetStore().List()); got != 2 {
		t.Errorf("%d Events in a synced informer", got)
	}
	publish(ns, "web", "later")
	eventually(t, func() string {
		if got := len(informer.GetStore().List()); got != 3 {
			return fmt.Sprintf("%d Events in the informer", got)
		}
		return ""
	})
}

// A later namespace of the same name must not show what happened in the one before.
func TestEventsInMemoryGoWithTheirNamespace(t *testing.T) {
	const ns = "events-gone"
	eventNamespace(t, ns)
	if err := clients.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		_, err := clients.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the namespace is still there: %v", err)
		}
		return ""
	})
	publish(ns, "web", "late")
	if got := listEvents(t, "", metav1.ListOptions{FieldSelector: "involvedObject.namespace=" + ns}).Items; len(got) > 0 {
		t.Errorf("Events of a namespace that is gone: %q", eventsOf(got))
	}
}
