package fairqueue_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
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

// TestWhatIsDelayedDelaysNoneOfItsGroup: a turn is drawn when the delay is over, so that hundreds of objects that wait for their next check
// or after an error do not come before a new object of their namespace.
func TestWhatIsDelayedDelaysNoneOfItsGroup(t *testing.T) {
	for name, delay := range map[string]func(*fairqueue.Queue[string], []string){
		"after a time": func(q *fairqueue.Queue[string], items []string) {
			for _, item := range items {
				q.AddAfter(item, time.Hour)
			}
		},
		"after a time with a priority": func(q *fairqueue.Queue[string], items []string) {
			fairqueue.EnqueueAfter(q, 0, time.Hour, items...)
		},
		"after an error": func(q *fairqueue.Queue[string], items []string) {
			for _, item := range items {
				for range 20 {
					q.AddRateLimited(item) // the last delay of them is the longest, the first one counts
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t)
				delay(q, crowd("sick", 100))
				q.AddWithOpts(at(0), crowd("busy", 300)...)
				q.Add("sick/new")
				if served := serve(q, 2); !slices.Contains(served, "sick/new") {
					t.Errorf("served before the new one: %v", served)
				}
			})
		})
	}
}

// TestWhatWasDelayedTakesTurns: its delay makes a request neither the first nor the last.
func TestWhatWasDelayedTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		for _, item := range crowd("sick", 3) {
			q.AddAfter(item, time.Hour)
		}
		q.AddAfter("sick/soon", 2*time.Hour)
		q.Add("sick/soon") // the delay is no longer its
		q.AddWithOpts(at(0), crowd("busy", 4)...)
		if diff := cmp.Diff([]string{"busy/00000", "sick/soon"}, slices.Sorted(slices.Values(serve(q, 2)))); diff != "" {
			t.Errorf("served before the delay was over (-want +got):\n%s", diff)
		}
		<-time.After(time.Hour)
		synctest.Wait()
		q.Add("busy/new")
		q.Add("other/new")
		served := serve(q, 8)
		want := []string{"busy/00001", "sick/00000", "other/new", "busy/00002", "sick/00001", "busy/00003", "sick/00002", "busy/new"}
		for i, turn := range [][2]int{{0, 3}, {3, 5}, {5, 7}, {7, 8}} { // in one turn the order of groups is free
			got, want := slices.Sorted(slices.Values(served[turn[0]:turn[1]])), slices.Sorted(slices.Values(want[turn[0]:turn[1]]))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("turn %d (-want +got):\n%s", i, diff)
			}
		}
		if n := q.Len(); n != 0 {
			t.Errorf("%d wait, want none", n)
		}
	})
}

// TestADelayKeepsThePriority: that of the request, or a higher one that it is added with meanwhile.
func TestADelayKeepsThePriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		fairqueue.EnqueueAfter(q, 7, time.Hour, "a/x", "a/y")
		fairqueue.EnqueueAfter(q, 9, 2*time.Hour, "a/y")
		q.Add("a/x")
		if item, priority, _ := q.GetWithPriority(); item != "a/x" || priority != 7 {
			t.Errorf("%s came with priority %d, want a/x with 7", item, priority)
		}
		if item, priority, _ := q.GetWithPriority(); item != "a/y" || priority != 9 {
			t.Errorf("%s came with priority %d, want a/y with 9", item, priority)
		}
	})
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

// TestNoGroupHasAllWorkers: groups whose requests do not end leave workers to the groups that come later, also if there are several of them.
func TestNoGroupHasAllWorkers(t *testing.T) {
	for name, tc := range map[string]struct {
		workers int
		want    []int // what each group gets, one after the other
	}{
		"one":     {1, []int{1}},
		"two":     {2, []int{1, 1}},
		"eight":   {8, []int{6, 1, 1}},
		"sixteen": {16, []int{12, 3, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := shared(t, tc.workers)
				served := make(chan string, 100)
				for range tc.workers {
					go func() {
						if item, shutdown := q.Get(); !shutdown {
							served <- item
						}
					}()
				}
				for i, want := range tc.want {
					q.Add(fmt.Sprintf("%d/first", i))
					q.AddWithOpts(at(0), crowd(fmt.Sprint(i), 30)...)
					synctest.Wait()
					if got := len(served); got != want {
						t.Errorf("group %d has %d workers, want %d", i, got, want)
					}
					for len(served) > 0 {
						<-served
					}
				}
				if want := 31*len(tc.want) - tc.workers; q.Len() != want {
					t.Errorf("%d wait, want %d", q.Len(), want)
				}
			})
		})
	}
}

// TestWhatWasSetAsideIsServed: in the order of its group, once, when one of the group ends.
func TestWhatWasSetAsideIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := shared(t, 4)
		items := crowd("a", 10)
		q.AddWithOpts(at(0), items...)
		served := make(chan string, 20)
		go func() {
			for {
				item, shutdown := q.Get()
				if shutdown {
					return
				}
				served <- item
			}
		}()
		synctest.Wait()
		q.Add(items[5]) // it waits already
		var got, going []string
		for synctest.Wait(); len(served) > 0; synctest.Wait() {
			for len(served) > 0 {
				item := <-served
				got, going = append(got, item), append(going, item)
			}
			if len(going) > 3 {
				t.Errorf("%d are handled at a time", len(going))
			}
			q.Done(going[0])
			going = going[1:]
		}
		for _, item := range going {
			q.Done(item)
		}
		synctest.Wait()
		for len(served) > 0 {
			got = append(got, <-served)
		}
		if diff := cmp.Diff(items, got); diff != "" {
			t.Errorf("served (-want +got):\n%s", diff)
		}
		if n := q.Len(); n != 0 {
			t.Errorf("%d wait, want none", n)
		}
	})
}

// shared is the queue of a loop with so many workers.
func shared(t *testing.T, workers int) priorityqueue.PriorityQueue[string] {
	t.Helper()
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, time.Second)
	queue := fairqueue.Shared(workers, func(item string) string {
		group, _, _ := strings.Cut(item, "/")
		return group
	})("", limiter)
	t.Cleanup(queue.ShutDown)
	return queue.(priorityqueue.PriorityQueue[string])
}
