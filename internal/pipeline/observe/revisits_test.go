package observe

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// visits are what was visited, in order.
type visits struct {
	mu   sync.Mutex
	list []string
}

func (v *visits) add(visited string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.list = append(v.list, visited)
}

func (v *visits) all() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.list)
}

func revisiting(t *testing.T) (*revisits, *visits) {
	t.Helper()
	seen := &visits{}
	s := newRevisits(controlloop.NewSet(nil, clock.RealClock{}).Loop("test"), func(_ context.Context, cluster string, work types.NamespacedName) error {
		seen.add(cluster + "/" + work.Name)
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { s.run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return s, seen
}

// addAll adds several Works of a cluster.
func (r *revisits) addAll(cluster string, works ...types.NamespacedName) {
	for _, work := range works {
		r.add(cluster, work)
	}
}

func worksNamed(prefix string, n int) []types.NamespacedName {
	var works []types.NamespacedName
	for i := range n {
		works = append(works, types.NamespacedName{Name: fmt.Sprintf("%s%d", prefix, i)})
	}
	return works
}

// elapse moves the bubble's clock, and returns when nothing is left to do at that time.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// Losing a large member is no burst, and losing three of them is none either.
func TestRevisitsAreSteadyHoweverMuchIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seen := revisiting(t)
		for _, cluster := range []string{"a", "b", "c"} {
			s.addAll(cluster, worksNamed("w", 2000)...)
		}
		for second := range 60 {
			before := len(seen.all())
			elapse(time.Second)
			if got := len(seen.all()) - before; got < 90 || got > 101 {
				t.Fatalf("%d Works were visited in second %d, want a hundred", got, second)
			}
		}
		elapse(time.Second)
		if len(seen.all()) != 6000 {
			t.Errorf("%d Works were visited of 6000", len(seen.all()))
		}
	})
}

func TestRevisitsKeepNoSmallClusterWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seen := revisiting(t)
		s.addAll("large", worksNamed("w", 2000)...)
		elapse(100 * time.Millisecond)
		s.addAll("small", worksNamed("w", 3)...)
		before := len(seen.all())
		elapse(80 * time.Millisecond)
		small := 0
		for _, visited := range seen.all()[before:] {
			if visited[:2] == "sm" {
				small++
			}
		}
		if small != 3 {
			t.Errorf("%d of the small cluster's 3 Works had their turn in %v", small, seen.all()[before:])
		}
	})
}

func TestRevisitsVisitOnceWhatIsAddedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seen := revisiting(t)
		s.addAll("a", worksNamed("w", 5)...)
		s.addAll("a", worksNamed("w", 5)...)
		elapse(time.Second)
		if len(seen.all()) > 6 { // one may have been visited between the two
			t.Errorf("visited %v", seen.all())
		}
		before := len(seen.all())
		s.addAll("a", worksNamed("w", 1)...)
		elapse(time.Second)
		if len(seen.all()) != before+1 {
			t.Errorf("a Work that was visited is not visited again: %v", seen.all())
		}
	})
}
