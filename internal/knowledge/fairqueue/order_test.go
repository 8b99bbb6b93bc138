package fairqueue_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/workqueue"

	"github.com/flagship-k8s/flagship/internal/knowledge/fairqueue"
)

// TestGroupsTakeTurnsWithoutPriorities: an object of a namespace comes after one of each other namespace, however many these have.
func TestGroupsTakeTurnsWithoutPriorities(t *testing.T) {
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: fairqueue.NewOrder(namespaceOf)})
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
	order := fairqueue.NewOrder(func(item string) string {
		if first[item] {
			return "first"
		}
		return ""
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

func namespaceOf(item string) string {
	namespace, _, _ := strings.Cut(item, "/")
	return namespace
}
