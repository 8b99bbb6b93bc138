package memberqueue_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberqueue"
)

func cluster(name string) *clusterv1alpha1.Cluster {
	return &clusterv1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec:       clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Push, APIEndpoint: "https://127.0.0.1:1", InsecureSkipTLSVerification: true},
	}
}

// connect returns a fleet with a connection to a member that cannot be reached.
func connect(t *testing.T) *member.Fleet {
	t.Helper()
	fleet, err := member.NewFleet(member.Config{AllowLoopback: true, Credentials: func(context.Context, *clusterv1alpha1.Cluster) (member.Credential, error) {
		return member.Credential{Token: "token"}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := fleet.Upsert(t.Context(), cluster("member1")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fleet.Close)
	return fleet
}

// eventually waits for a state that other goroutines bring about.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.After(3 * time.Minute); !is(); {
		select {
		case <-deadline:
			t.Fatalf("never: %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func run(t *testing.T, queues *memberqueue.Queues) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := queues.Start(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// TestWhatChangedWaitsForOneOfTheOthers: also if its member could not be reached at first.
func TestWhatChangedWaitsForOneOfTheOthers(t *testing.T) {
	const others = 20
	var mu sync.Mutex
	var order []string
	var down atomic.Bool
	down.Store(true)
	queues := memberqueue.New("test", connect(t), clock.RealClock{}, 1, func(_ context.Context, cluster string, key types.NamespacedName) (time.Duration, error) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, key.Name)
		if down.Load() {
			return 0, &member.UnavailableError{Cluster: cluster, Cause: errors.New("down")}
		}
		return 0, nil
	})
	for i := range others {
		queues.Add("member2", types.NamespacedName{Name: fmt.Sprint(i)})
	}
	queues.AddFirst("member2", "", types.NamespacedName{Name: "changed"})
	run(t, queues)
	for _, state := range []string{"down", "up", "up again"} {
		eventually(t, "all are reconciled while the member is "+state, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(order) == others+1
		})
		mu.Lock()
		if at := slices.Index(order, "changed"); (at > 3) != (state == "up again") {
			t.Errorf("while the member is %s what changed is reconciled as number %d: %q", state, at, order)
		}
		order = nil
		mu.Unlock()
		down.Store(false)
		switch state {
		case "down":
			queues.Wake("member2")
		case "up":
			for i := range others {
				queues.Add("member2", types.NamespacedName{Name: fmt.Sprint(i)})
			}
			queues.Add("member2", types.NamespacedName{Name: "changed"})
		}
	}
}

// TestTenantsTakeTurns: what another tenant has changed waits for one of a tenant that has changed many, also if each of these failed before, and for
// none of those that take a second each, as large objects do.
func TestTenantsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		queues := memberqueue.New("test", connect(t), clock.RealClock{}, 1, func(_ context.Context, _ string, key types.NamespacedName) (time.Duration, error) {
			mu.Lock()
			order = append(order, key.Name)
			mu.Unlock()
			if strings.HasPrefix(key.Name, "large") {
				<-time.After(time.Second)
			}
			return 0, nil
		})
		for i := range 20 {
			queues.AddFirst("member2", "large", types.NamespacedName{Name: fmt.Sprintf("large-%d", i)})
		}
		for i := range 5 {
			queues.AddFirst("member2", "small", types.NamespacedName{Name: fmt.Sprintf("small-%d", i)})
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = queues.Start(ctx) })
		<-time.After(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		want := []string{"large-0", "small-0", "small-1", "small-2", "small-3", "small-4", "large-1"}
		if diff := cmp.Diff(want, order[:min(len(order), len(want))]); diff != "" {
			t.Errorf("reconciled first (-want +got):\n%s", diff)
		}
		if len(order) != 25 {
			t.Errorf("%d were reconciled, want 25", len(order))
		}
		cancel()
		running.Wait()
	})
}

func TestAMemberThatHangsDelaysNoOther(t *testing.T) {
	fleet := connect(t)
	release := make(chan struct{})
	defer close(release)
	got := make(chan string, 10)
	queues := memberqueue.New("test", fleet, clock.RealClock{}, 2, func(_ context.Context, cluster string, key types.NamespacedName) (time.Duration, error) {
		if cluster == "hanging" {
			<-release
			return 0, nil
		}
		got <- key.Name
		return 0, nil
	})
	for _, name := range []string{"a", "b", "c", "d"} {
		queues.Add("hanging", types.NamespacedName{Name: name})
	}
	queues.Add("fine", types.NamespacedName{Name: "x"}) // before the start
	run(t, queues)
	queues.Add("fine", types.NamespacedName{Name: "y"})
	if first, second := <-got, <-got; first+second != "xy" && first+second != "yx" {
		t.Errorf("got %s and %s", first, second)
	}
}

func TestWhatCannotBeReachedWaitsForTheMember(t *testing.T) {
	fleet := connect(t)
	var tries atomic.Int32
	var back atomic.Bool
	done := make(chan struct{})
	queues := memberqueue.New("test", fleet, clock.RealClock{}, 1, func(context.Context, string, types.NamespacedName) (time.Duration, error) {
		tries.Add(1)
		if !back.Load() {
			return 0, &member.UnavailableError{Cluster: "lost", Cause: errors.New("gone")}
		}
		close(done)
		return 0, nil
	})
	run(t, queues)
	queues.Add("lost", types.NamespacedName{Name: "w"})
	eventually(t, "it was tried once", func() bool { return tries.Load() == 1 })
	back.Store(true)
	queues.Wake("lost")
	// Waking may come before the key is parked; the fleet notifies again with every change.
	eventually(t, "it was done", func() bool {
		queues.Wake("lost")
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
	fleet := connect(t)
	var tries atomic.Int32
	queues := memberqueue.New("test", fleet, clock.RealClock{}, 1, func(context.Context, string, types.NamespacedName) (time.Duration, error) {
		switch tries.Add(1) {
		case 1:
			return 0, errors.New("boom")
		case 2:
			return time.Millisecond, nil
		default:
			return 0, nil
		}
	})
	run(t, queues)
	queues.Add("m", types.NamespacedName{Name: "w"})
	eventually(t, "after an error, and after the pause that was requested", func() bool { return tries.Load() == 3 })
}

// TestALaterReconcileReplacesTheTimeOfTheNext: after a start each Work is given a time in case its watch is never complete, and the watch
// queues it before.
func TestALaterReconcileReplacesTheTimeOfTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := connect(t)
		begin := time.Now()
		var mu sync.Mutex // the time that passes orders nothing for the race detector
		var reconciled []time.Duration
		count := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(reconciled)
		}
		queues := memberqueue.New("test", fleet, clock.RealClock{}, 1, func(context.Context, string, types.NamespacedName) (time.Duration, error) {
			mu.Lock()
			defer mu.Unlock()
			reconciled = append(reconciled, time.Since(begin))
			if len(reconciled) == 2 {
				return 0, nil
			}
			return time.Minute, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := queues.Start(ctx); err != nil {
				t.Error(err)
			}
		})
		key := types.NamespacedName{Name: "w"}
		for range 3 { // at the start; when the watch is complete; much later
			queues.Add("member1", key)
			<-time.After(5 * time.Second)
			synctest.Wait()
			if count() == 2 {
				<-time.After(time.Hour)
				synctest.Wait()
			}
		}
		<-time.After(time.Minute)
		synctest.Wait()
		cancel()
		running.Wait()
		later := time.Hour + 10*time.Second
		if diff := cmp.Diff([]time.Duration{0, 5 * time.Second, later, later + time.Minute}, reconciled); diff != "" {
			t.Errorf("reconciled at other times (-want +got):\n%s", diff)
		}
	})
}

func TestATaskThatPanicsIsTriedAgainAndStopsNothing(t *testing.T) {
	fleet := connect(t)
	var panics atomic.Int32
	others, mended := make(chan string, 10), make(chan struct{})
	queues := memberqueue.New("test", fleet, clock.RealClock{}, 1, func(_ context.Context, cluster string, key types.NamespacedName) (time.Duration, error) {
		if key.Name != "broken" {
			others <- cluster + "/" + key.Name
			return 0, nil
		}
		if panics.Add(1) < 3 {
			panic("an unexpected object")
		}
		close(mended)
		return 0, nil
	})
	run(t, queues)
	queues.Add("m", types.NamespacedName{Name: "broken"})
	queues.Add("m", types.NamespacedName{Name: "fine"})
	queues.Add("n", types.NamespacedName{Name: "fine"})
	if first, second := <-others, <-others; first == second {
		t.Errorf("got %s twice", first)
	}
	<-mended
}

// TestMembersThatCameAndWentLeaveNothing counts goroutines: workers of a member end with it, also if they had something to do
// when it went.
func TestMembersThatCameAndWentLeaveNothing(t *testing.T) {
	fleet := connect(t)
	var done atomic.Int32
	queues := memberqueue.New("test", fleet, clock.RealClock{}, 8, func(_ context.Context, cluster string, _ types.NamespacedName) (time.Duration, error) {
		if _, ok := fleet.Get(cluster); ok {
			return 0, &member.UnavailableError{Cluster: cluster, Cause: errors.New("gone")}
		}
		done.Add(1)
		return 0, nil
	})
	run(t, queues)
	before := runtime.NumGoroutine()
	const members = 100
	for i := range members {
		c := cluster("x")
		c.Name, c.UID = fmt.Sprintf("member-%d", i), types.UID(fmt.Sprintf("uid-%d", i))
		if err := fleet.Upsert(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		queues.Add(c.Name, types.NamespacedName{Name: "w"})
	}
	eventually(t, "the keys wait for their members", func() bool { return queues.Len() == members })
	for i := range members {
		fleet.Remove(fmt.Sprintf("member-%d", i))
	}
	eventually(t, "every key was worked on", func() bool { return done.Load() == members })
	eventually(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= before+8 })
}

// TestMembersWithoutWorkHaveNoGoroutines counts goroutines: workers come with keys and go with them.
func TestMembersWithoutWorkHaveNoGoroutines(t *testing.T) {
	fleet := connect(t)
	var done, most, active atomic.Int32
	hold := make(chan struct{})
	queues := memberqueue.New("test", fleet, clock.RealClock{}, 4, func(_ context.Context, cluster string, _ types.NamespacedName) (time.Duration, error) {
		if cluster == "member1" {
			n := active.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			<-hold
			active.Add(-1)
		}
		done.Add(1)
		return 0, nil
	})
	run(t, queues)
	eventually(t, "it runs", func() bool {
		queues.Add("first", types.NamespacedName{Name: "w"})
		return done.Load() > 0
	})
	before, others := runtime.NumGoroutine(), done.Load()
	const members = 100
	for i := range members {
		queues.Add(fmt.Sprintf("member-%d", i), types.NamespacedName{Name: "w"})
	}
	for i := range 20 {
		queues.Add("member1", types.NamespacedName{Name: fmt.Sprintf("w-%d", i)})
	}
	eventually(t, "as many workers run as may", func() bool { return active.Load() == 4 })
	close(hold)
	eventually(t, "every key was worked on", func() bool { return done.Load() >= others+members+20 })
	// The loop itself may have begun a goroutine after those were counted.
	eventually(t, "the workers are gone", func() bool { return runtime.NumGoroutine() <= before+8 })
	if most.Load() != 4 {
		t.Errorf("%d workers ran for one member, want 4 at most", most.Load())
	}
}
