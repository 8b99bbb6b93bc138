package fairqueue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/workqueue"

	"github.com/flagship-k8s/flagship/internal/knowledge/fairqueue"
)

// TestGroupsTakeTurnsWithoutPriorities: an object of a namespace comes after one of each other namespace, however many these have.
func TestGroupsTakeTurnsWithoutPriorities(t *testing.T) {
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: fairqueue.NewOrder(placeOf)})
	defer queue.ShutDown()
	for i := range 4 {
		queue.Add(fmt.Sprintf("large/%d", i))
	}
	queue.Add("large/0") // it keeps its place
	queue.Add("small/0")
	take := func(n int) (taken []string) {
		for range n {
			item, _ := queue.Get()
			queue.Done(item)
			taken = append(taken, item)
		}
		return taken
	}
	if diff := cmp.Diff([]string{"large/0", "small/0", "large/1"}, take(3)); diff != "" {
		t.Error(diff)
	}
	queue.Add("other/0")
	queue.Add("small/1")
	if queue.Len() != 4 {
		t.Errorf("%d wait, want 4", queue.Len())
	}
	if diff := cmp.Diff([]string{"large/2", "other/0", "small/1", "large/3"}, take(4)); diff != "" {
		t.Error(diff)
	}
	if queue.Len() != 0 {
		t.Errorf("%d wait, want none", queue.Len())
	}
}

// TestARequestChangesItsGroup: it then takes the turn of the other group.
func TestARequestChangesItsGroup(t *testing.T) {
	first := map[string]bool{}
	order := fairqueue.NewOrder(func(item string) fairqueue.Place {
		if first[item] {
			return fairqueue.Place{Class: "first"}
		}
		return fairqueue.Place{}
	})
	add := func(items ...string) {
		for _, item := range items {
			order.Push(item)
		}
	}
	move := func(item string) {
		first[item] = true
		order.Touch(item)
	}
	add("a", "b", "c", "d")
	order.Touch("c") // it keeps its place
	move("d")
	move("b")
	var taken []string
	for order.Len() > 2 {
		taken = append(taken, order.Pop())
	}
	move("c") // the last of its group
	add("e")
	for order.Len() > 0 {
		taken = append(taken, order.Pop())
	}
	if diff := cmp.Diff([]string{"a", "d", "b", "e", "c"}, taken); diff != "" {
		t.Error(diff)
	}
}

// TestGroupsTakeTurnsInTheirClass: classes take turns whatever number of groups each has, and groups within their class.
func TestGroupsTakeTurnsInTheirClass(t *testing.T) {
	order := fairqueue.NewOrder(placeOf)
	for _, item := range []string{"a/1", "a/2", "b/1", "c/1", "first/a/1", "first/a/2", "first/b/1"} {
		order.Push(item)
	}
	var taken []string
	for order.Len() > 0 {
		taken = append(taken, order.Pop())
	}
	if diff := cmp.Diff([]string{"a/1", "first/a/1", "b/1", "first/b/1", "c/1", "first/a/2", "a/2"}, taken); diff != "" {
		t.Error(diff)
	}
}

// TestAGroupLeavesTurnsForWhatTakesLong: one whose requests take a second leaves ten turns to others for each, and has all when no other waits.
func TestAGroupLeavesTurnsForWhatTakesLong(t *testing.T) {
	order := fairqueue.NewOrder(placeOf)
	push := func(items ...string) {
		for _, item := range items {
			order.Push(item)
		}
	}
	take := func(n int) (taken string) {
		for range n {
			taken += order.Pop()[:1]
		}
		return taken
	}
	push(crowd("large", 20)...)
	if got := take(1); got != "l" {
		t.Errorf("the first is of %s", got)
	}
	order.Charge(fairqueue.Place{Group: "large"}, 50*time.Millisecond) // no more than a turn
	push(crowd("small", 20)...)
	if got := take(4); got != "lsls" {
		t.Errorf("the next are of %s", got)
	}
	order.Charge(fairqueue.Place{Group: "large"}, time.Second)
	if got := take(12); got != "ssssssssssls" {
		t.Errorf("after one that took a second, the next are of %s", got)
	}
	order.Charge(fairqueue.Place{Group: "large"}, time.Hour)
	if got := take(10); got != "ssssssslll" {
		t.Errorf("after one that took an hour, the next are of %s", got)
	}
}

func placeOf(item string) fairqueue.Place {
	if rest, first := strings.CutPrefix(item, "first/"); first {
		group, _, _ := strings.Cut(rest, "/")
		return fairqueue.Place{Class: "first", Group: group}
	}
	group, _, _ := strings.Cut(item, "/")
	return fairqueue.Place{Group: group}
}
