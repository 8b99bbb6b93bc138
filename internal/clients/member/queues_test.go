package member_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/flagship-k8s/flagship/internal/clients/member"
)

func run(t *testing.T, lanes *member.Queues) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := lanes.Start(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

func TestAMemberThatHangsDelaysNobodyElse(t *testing.T) {
	fleet, _ := connect(t, "https://127.0.0.1:1", nil)
	release := make(chan struct{})
	defer close(release)
	got := make(chan string, 10)
	lanes := member.NewQueues("test", fleet, clock.RealClock{}, 2, func(_ context.Context, cluster string, key types.NamespacedName) (time.Duration, error) {
		if cluster == "hanging" {
			<-release
			return 0, nil
		}
		got <- key.Name
		return 0, nil
	})
	for _, name := range []string{"a", "b", "c", "d"} {
		lanes.Add("hanging", types.NamespacedName{Name: name})
	}
	lanes.Add("fine", types.NamespacedName{Name: "x"}) // before the start
	run(t, lanes)
	lanes.Add("fine", types.NamespacedName{Name: "y"})
	if first, second := <-got, <-got; first+second != "xy" && first+second != "yx" {
		t.Errorf("got %s and %s", first, second)
	}
}

func TestWhatCannotBeReachedWaitsForTheMember(t *testing.T) {
	fleet, _ := connect(t, "https://127.0.0.1:1", nil)
	var tries atomic.Int32
	var back atomic.Bool
	done := make(chan struct{})
	lanes := member.NewQueues("test", fleet, clock.RealClock{}, 1, func(context.Context, string, types.NamespacedName) (time.Duration, error) {
		tries.Add(1)
		if !back.Load() {
			return 0, &member.UnavailableError{Cluster: "lost", Cause: errors.New("gone")}
		}
		close(done)
		return 0, nil
	})
	run(t, lanes)
	lanes.Add("lost", types.NamespacedName{Name: "w"})
	eventually(t, "it was tried once", func() bool { return tries.Load() == 1 })
	back.Store(true)
	lanes.Wake("lost")
	// Waking may come before the key is parked; the fleet tells again with every change.
	eventually(t, "it was done", func() bool {
		lanes.Wake("lost")
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	if n := tries.Load(); n != 2 {
		t.Errorf("%d tries, want one before and one after", n)
	}
}

func TestWhatFailsIsTriedAgain(t *testing.T) {
	fleet, _ := connect(t, "https://127.0.0.1:1", nil)
	var tries atomic.Int32
	lanes := member.NewQueues("test", fleet, clock.RealClock{}, 1, func(context.Context, string, types.NamespacedName) (time.Duration, error) {
		switch tries.Add(1) {
		case 1:
			return 0, errors.New("boom")
		case 2:
			return time.Millisecond, nil
		default:
			return 0, nil
		}
	})
	run(t, lanes)
	lanes.Add("m", types.NamespacedName{Name: "w"})
	eventually(t, "after an error, and after the pause that was asked for", func() bool { return tries.Load() == 3 })
}

func TestATaskThatPanicsIsTriedAgainAndStopsNothing(t *testing.T) {
	fleet, _ := connect(t, "https://127.0.0.1:1", nil)
	var panics atomic.Int32
	others, mended := make(chan string, 10), make(chan struct{})
	lanes := member.NewQueues("test", fleet, clock.RealClock{}, 1, func(_ context.Context, cluster string, key types.NamespacedName) (time.Duration, error) {
		if key.Name != "broken" {
			others <- cluster + "/" + key.Name
			return 0, nil
		}
		if panics.Add(1) < 3 {
			panic("an object that nobody expected")
		}
		close(mended)
		return 0, nil
	})
	run(t, lanes)
	lanes.Add("m", types.NamespacedName{Name: "broken"})
	lanes.Add("m", types.NamespacedName{Name: "fine"})
	lanes.Add("n", types.NamespacedName{Name: "fine"})
	if first, second := <-others, <-others; first == second {
		t.Errorf("got %s twice", first)
	}
	<-mended
}

func TestAKindThatAppearsIsFound(t *testing.T) {
	s := newServer(t)
	serve := func(kinds string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"example.io/v1","resources":[` + kinds + `]}`))
		}
	}
	s.answer(serve(`{"name":"bars","kind":"Bar","namespaced":false},{"name":"bars/status","kind":"Bar"}`))
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	_, conn := connect(t, s.URL, func(c *member.Config) { c.Clock = clock })
	foo, bar := schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: "Foo"}, schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: "Bar"}
	for range 5 {
		if _, err := conn.Mapping(t.Context(), foo); !meta.IsNoMatchError(err) {
			t.Fatalf("error is %v, want that there is no such kind", err)
		}
	}
	if m, err := conn.Mapping(t.Context(), bar); err != nil || m.Resource.Resource != "bars" || m.Namespaced {
		t.Errorf("Bar is %+v, %v", m, err)
	}
	if n := s.count("GET /apis/example.io/v1"); n != 1 {
		t.Errorf("the member was asked %d times at once", n)
	}
	s.answer(serve(`{"name":"foos","kind":"Foo","namespaced":true}`))
	clock.Step(time.Second)
	if m, err := conn.Mapping(t.Context(), foo); err != nil || m.Resource.Resource != "foos" || !m.Namespaced {
		t.Errorf("Foo is %+v, %v", m, err)
	}
	s.answer(func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusInternalServerError, "InternalError")
	})
	conn.Forget(foo.GroupVersion())
	clock.Step(time.Second)
	if _, err := conn.Mapping(t.Context(), foo); err == nil || meta.IsNoMatchError(err) {
		t.Errorf("a member that does not say what it serves: error is %v", err)
	}
}

// TestMembersThatCameAndWentLeaveNothing counts goroutines: workers of a member end with it, also if they had something to do
// when it went.
func TestMembersThatCameAndWentLeaveNothing(t *testing.T) {
	fleet, _ := connect(t, "https://127.0.0.1:1", nil)
	var done atomic.Int32
	lanes := member.NewQueues("test", fleet, clock.RealClock{}, 8, func(_ context.Context, cluster string, _ types.NamespacedName) (time.Duration, error) {
		if _, ok := fleet.Get(cluster); ok {
			return 0, &member.UnavailableError{Cluster: cluster, Cause: errors.New("gone")}
		}
		done.Add(1)
		return 0, nil
	})
	run(t, lanes)
	before := runtime.NumGoroutine()
	const members = 100
	for i := range members {
		c := cluster("https://127.0.0.1:1")
		c.Name, c.UID = fmt.Sprintf("member-%d", i), types.UID(fmt.Sprintf("uid-%d", i))
		if err := fleet.Upsert(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		lanes.Add(c.Name, types.NamespacedName{Name: "w"})
	}
	eventually(t, "the keys wait for their members", func() bool { return lanes.Len() == members })
	for i := range members {
		fleet.Remove(fmt.Sprintf("member-%d", i))
	}
	eventually(t, "every key was worked on", func() bool { return done.Load() == members })
	eventually(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= before+8 })
}
