package fairqueue_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/flagship-k8s/flagship/internal/knowledge/fairqueue"
)

func newQueue(t *testing.T) *fairqueue.Queue[string] {
	t.Helper()
	q := fairqueue.New("", workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, time.Second), func(item string) string {
		group, _, _ := strings.Cut(item, "/")
		return group
	})
	t.Cleanup(q.ShutDown)
	return q
}

// serve takes n items out, one by one.
func serve(q *fairqueue.Queue[string], n int) []string {
	var served []string
	for range n {
		item, _ := q.Get()
		q.Done(item)
		served = append(served, item)
	}
	return served
}

func at(priority int) priorityqueue.AddOpts { return priorityqueue.AddOpts{Priority: ptr.To(priority)} }

func crowd(group string, n int) []string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf("%s/%05d", group, i)
	}
	return items
}

func TestALargeGroupDelaysOthersByOneRequest(t *testing.T) {
	q := newQueue(t)
	q.AddWithOpts(at(0), crowd("crowded", 10_000)...)
	serve(q, 137)
	q.Add("other/a")
	q.Add("another/a")
	got := serve(q, 3)
	slices.Sort(got)
	if diff := cmp.Diff([]string{"another/a", "crowded/00137", "other/a"}, got); diff != "" {
		t.Errorf("the next three (-want +got):\n%s", diff)
	}
	if n := q.Len(); n != 10_000-138 {
		t.Errorf("%d wait, want the rest of the crowd", n)
	}
}

func TestGroupsTakeTurns(t *testing.T) {
	q := newQueue(t)
	q.AddWithOpts(at(0), crowd("a", 4)...)
	q.AddWithOpts(at(0), crowd("b", 3)...)
	q.AddWithOpts(at(0), crowd("c", 1)...)
	want := []string{"a/00000", "b/00000", "c/00000", "a/00001", "b/00001", "a/00002", "b/00002", "a/00003"}
	if diff := cmp.Diff(want, serve(q, len(want))); diff != "" {
		t.Errorf("served (-want +got):\n%s", diff)
	}
}

func TestEveryRequestIsServedInTheEnd(t *testing.T) {
	q := newQueue(t)
	q.AddWithOpts(at(0), crowd("a", 100)...)
	// Newcomers of the same group and of others keep coming, two for each that is served.
	var served []string
	for i := range 400 {
		q.Add(fmt.Sprintf("a/new-%d", i))
		q.Add(fmt.Sprintf("b/new-%d", i))
		served = append(served, serve(q, 1)...)
	}
	for _, item := range crowd("a", 100) {
		if !slices.Contains(served, item) {
			t.Errorf("%s still waits after %d others", item, len(served))
		}
	}
}

func TestPriorityComesFirst(t *testing.T) {
	q := newQueue(t)
	q.AddWithOpts(at(-100), "quiet/a")
	q.AddWithOpts(at(0), crowd("crowded", 3)...)
	q.AddWithOpts(at(math.MaxInt32), "urgent/a")
	q.AddWithOpts(at(-100), "crowded/00002") // it waits at a higher one already
	q.AddWithOpts(at(5), "crowded/00001")
	want := []string{"urgent/a", "crowded/00001", "crowded/00000", "crowded/00002", "quiet/a"}
	if diff := cmp.Diff(want, serve(q, len(want))); diff != "" {
		t.Errorf("served (-want +got):\n%s", diff)
	}
	if n := q.Len(); n != 0 {
		t.Errorf("%d wait, want none", n)
	}
}

func TestPrioritiesAreHandedBack(t *testing.T) {
	for _, priority := range []int{0, 1, -1, -100, 1_000_000_000, math.MaxInt32, -math.MaxInt32} {
		q := newQueue(t)
		for _, item := range crowd("a", 3) {
			q.AddWithOpts(at(priority), item)
		}
		for range 3 {
			if item, got, _ := q.GetWithPriority(); got != priority {
				t.Errorf("%s has priority %d, want %d", item, got, priority)
			}
		}
	}
}

func TestAddedWhileHandled(t *testing.T) {
	q := newQueue(t)
	q.Add("a/x")
	item, _ := q.Get()
	q.Add("a/x")
	q.AddRateLimited("a/y")
	q.AddAfter("a/z", time.Millisecond)
	q.Done(item)
	got := serve(q, 3)
	slices.Sort(got)
	if diff := cmp.Diff([]string{"a/x", "a/y", "a/z"}, got); diff != "" {
		t.Errorf("served (-want +got):\n%s", diff)
	}
}
