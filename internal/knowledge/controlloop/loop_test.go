package controlloop_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

func newSet() (*controlloop.Set, *prometheus.Registry, *clocktesting.FakeClock) {
	registry, clock := prometheus.NewRegistry(), clocktesting.NewFakeClock(time.Unix(1000, 0))
	return controlloop.NewSet(registry, clock), registry, clock
}

func TestDoCountsWhatAReconcileEndedWith(t *testing.T) {
	set, registry, _ := newSet()
	loop := set.Loop("apply")
	for _, f := range []func(context.Context) error{
		func(context.Context) error { return nil },
		func(context.Context) error { return errBoom },
		func(context.Context) error { return fmt.Errorf("member1: %w", controlloop.ErrPostponed) },
		func(context.Context) error { panic("an unexpected object") },
	} {
		_ = loop.Do(t.Context(), "key", f)
	}
	want := map[string]float64{"success": 1, "error": 1, "postponed": 1, "panic": 1}
	got := map[string]float64{}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "flagship_loop_reconcile_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "result" {
					got[label.GetValue()] = m.GetCounter().GetValue()
				}
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reconciles by result (-want +got):\n%s", diff)
	}
}

// TestDoHasADeadline that is none of the context: requests would take it for theirs, and wait that long for an answer.
func TestDoHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, start := controlloop.NewSet(nil, clock.RealClock{}), time.Now()
		err := set.Loop("apply").Do(t.Context(), "key", func(ctx context.Context) error {
			if deadline, ok := ctx.Deadline(); ok {
				t.Errorf("the context has a deadline: %s", deadline)
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != controlloop.Deadline {
			t.Errorf("it ended after %s with %v", took, err)
		}
	})
}

func TestAStuckReconcileIsReported(t *testing.T) {
	set, _, clock := newSet()
	loop := set.Loop("apply")
	begun, release, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = loop.Do(t.Context(), "member1 shop/web", func(context.Context) error { // deaf to its context
			close(begun)
			<-release
			return nil
		})
	}()
	<-begun
	clock.Step(controlloop.Deadline)
	if err := loop.Check(); err != nil {
		t.Errorf("after its deadline: %v", err)
	}
	clock.Step(controlloop.Deadline + time.Second)
	if err := loop.Check(); err == nil || !strings.Contains(err.Error(), "member1 shop/web") {
		t.Errorf("a reconcile that does not return: %v, want an error with its key", err)
	}
	close(release)
	<-done
	if err := loop.Check(); err != nil {
		t.Errorf("after it returned: %v", err)
	}
}

// parts is a manager that keeps what is added.
type parts struct {
	ctrl.Manager
	added []manager.Runnable
}

func (p *parts) Add(r manager.Runnable) error {
	p.added = append(p.added, r)
	return nil
}

func TestCheckFollowsTheParts(t *testing.T) {
	set, _, _ := newSet()
	loop, mgr := set.Loop("enroll"), &parts{}
	if err := loop.Check(); err != nil {
		t.Errorf("a loop that runs within another one: %v", err)
	}
	add := func(f manager.RunnableFunc) {
		t.Helper()
		if err := loop.Manager(mgr).Add(f); err != nil {
			t.Fatal(err)
		}
	}
	add(func(context.Context) error { return nil }) // has something to do once
	fail := make(chan error)
	add(func(context.Context) error { return <-fail })
	if err := loop.Check(); err == nil {
		t.Error("a loop that was not started counts as running")
	}
	if err := mgr.added[0].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := loop.Check(); err != nil {
		t.Errorf("while it runs: %v", err)
	}
	ended := make(chan error)
	go func() { ended <- mgr.added[1].Start(t.Context()) }()
	fail <- errBoom
	if err := <-ended; !errors.Is(err, errBoom) {
		t.Errorf("the part returned %v", err)
	}
	if err := loop.Check(); !errors.Is(err, errBoom) {
		t.Errorf("after a part failed: %v", err)
	}
}

func TestTrackRecordsReconcilesOfControllers(t *testing.T) {
	set, _, clock := newSet()
	loop := set.Loop("enroll")
	mgr := loop.Manager(&parts{})
	_ = mgr.Add(manager.RunnableFunc(func(context.Context) error { return nil }))
	_ = mgr.Manager.(*parts).added[0].Start(t.Context())
	begun, release, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	tracked := controlloop.Track(mgr, reconcile.TypedFunc[string](func(context.Context, string) (reconcile.Result, error) {
		close(begun)
		<-release
		return reconcile.Result{}, nil
	}))
	go func() {
		defer close(done)
		_, _ = tracked.Reconcile(t.Context(), "web")
	}()
	<-begun
	clock.Step(time.Hour)
	if err := loop.Check(); err == nil || !strings.Contains(err.Error(), "web") {
		t.Errorf("a reconcile that does not return: %v", err)
	}
	close(release)
	<-done
}

// TestWhatDoesNotEndIsNamed in the error of the manager, whose own one has a duration alone.
func TestWhatDoesNotEndIsNamed(t *testing.T) {
	set, _, _ := newSet()
	mgr, end := &parts{}, make(chan struct{})
	for _, name := range []string{"apply", "render", "schedule"} {
		if err := set.Loop(name).Manager(mgr).Add(manager.RunnableFunc(func(context.Context) error {
			if name == "schedule" { // ends at once
				return nil
			}
			<-end
			return nil
		})); err != nil {
			t.Fatal(err)
		}
	}
	var running, reconciling sync.WaitGroup
	begun := make(chan struct{})
	reconciling.Go(func() {
		_ = set.Loop("apply").Do(t.Context(), "member1 shop/web", func(context.Context) error {
			close(begun)
			<-end
			return nil
		})
	})
	<-begun
	started := func(name string) bool { return set.Loop(name).Check() == nil }
	for _, part := range mgr.added {
		running.Go(func() { _ = part.Start(t.Context()) })
	}
	for !started("apply") || !started("render") || !started("schedule") {
		runtime.Gosched()
	}
	if err := set.Ended(nil); err != nil {
		t.Errorf("without an error: %v", err)
	}
	err := set.Ended(errBoom)
	if want := "boom; still running: apply, which reconciles member1 shop/web; render"; !errors.Is(err, errBoom) || err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	close(end)
	running.Wait()
	reconciling.Wait()
	if err := set.Ended(errBoom); err.Error() != errBoom.Error() {
		t.Errorf("after all parts ended: %q", err)
	}
}
