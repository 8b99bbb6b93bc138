package controlloop_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

var errBoom = errors.New("boom")

func TestCatchPanic(t *testing.T) {
	if err := controlloop.CatchPanic(func() error { return nil }); err != nil {
		t.Errorf("a function that returns nil gives %v", err)
	}
	if err := controlloop.CatchPanic(func() error { return errBoom }); !errors.Is(err, errBoom) {
		t.Errorf("a function that returns an error gives %v", err)
	}

	err := controlloop.CatchPanic(func() error {
		list := []error{}
		return list[len(list)]
	})
	panicked, ok := errors.AsType[*controlloop.PanicError](err)
	if !ok {
		t.Fatalf("a function that panics gives %v", err)
	}
	if _, ok := errors.AsType[runtime.Error](err); !ok {
		t.Errorf("%v does not unwrap to what the runtime said", err)
	}
	if !strings.Contains(string(panicked.Stack), "TestCatchPanic") {
		t.Errorf("the stack does not show where it happened:\n%s", panicked.Stack)
	}
	if strings.Contains(err.Error(), "panic_test.go") {
		t.Errorf("the message holds the stack: %v", err)
	}
	if err := controlloop.CatchPanic(func() error { panic("text") }); err == nil || err.Error() != "panic: text" {
		t.Errorf("got %v", err)
	}
}

// results returns how many reconciles of a loop ended with what.
func results(t *testing.T, registry prometheus.Gatherer, metric string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		if family.GetName() != metric {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := m.GetLabel()
			found[labels[len(labels)-1].GetValue()] = m.GetCounter().GetValue()
		}
	}
	return found
}

func TestATurnThatPanicsIsLoggedAndCounted(t *testing.T) {
	set, registry, _ := newSet()
	loop := controlloop.Of(set.Loop("evict").Manager(&parts{}))
	var lines []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	turn := func(f func() error) bool {
		return loop.Turn(ctx, "checking clusters", func(context.Context) error { return f() })
	}
	if turn(func() error { panic("an unexpected object") }) || turn(func() error { return errBoom }) || !turn(func() error { return nil }) {
		t.Error("a turn does not return whether it succeeded")
	}
	if diff := cmp.Diff(map[string]float64{"panic": 1, "error": 1, "success": 1}, results(t, registry, "flagship_loop_reconcile_total")); diff != "" {
		t.Errorf("turns by result (-want +got):\n%s", diff)
	}
	if len(lines) != 2 || !strings.Contains(lines[0], "panic_test.go") || !strings.Contains(lines[1], "boom") {
		t.Errorf("logged are %q, want the panic with its stack, and the error", lines)
	}
	ended, end := context.WithCancel(ctx)
	end()
	loop.Turn(ended, "checking clusters", func(ctx context.Context) error { return ctx.Err() })
	if len(lines) != 2 {
		t.Errorf("logged is %q when the loop ends", lines[2:])
	}
}

// TestAPanicInAControllerIsThatOfOneObject: a controller goes on with the other objects, and comes back to the one.
func TestAPanicInAControllerIsThatOfOneObject(t *testing.T) {
	set, _, _ := newSet()
	counted := func() float64 {
		return results(t, metrics.Registry, "controller_runtime_reconcile_panics_total")["panicking"]
	}
	before := counted() // this process may have run the test before
	mended, others := make(chan struct{}), make(chan string, 1)
	attempts := 0 // there is one worker
	reconciler := controlloop.Track(set.Loop("panicking").Manager(&parts{}), reconcile.TypedFunc[string](func(_ context.Context, key string) (reconcile.Result, error) {
		switch {
		case key != "broken":
			others <- key
		case attempts < 2:
			attempts++
			panic("an unexpected object")
		default:
			close(mended)
		}
		return reconcile.Result{}, nil
	}))
	loop, err := controller.NewTypedUnmanaged("panicking", controller.TypedOptions[string]{
		Reconciler: reconciler, RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, time.Millisecond), SkipNameValidation: new(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := loop.Watch(source.TypedFunc[string](func(_ context.Context, queue workqueue.TypedRateLimitingInterface[string]) error {
		queue.Add("broken")
		queue.Add("fine")
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- loop.Start(ctx) }()
	if got := <-others; got != "fine" {
		t.Errorf("reconciled is %s", got)
	}
	<-mended
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if panics := counted() - before; panics != 2 {
		t.Errorf("%v panics are counted, want 2", panics)
	}
}

// TestAPartIsStartedAgainAfterAPanic, until it returns.
func TestAPartIsStartedAgainAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		mgr, starts := controlloop.NewSet(registry, clock.RealClock{}).Loop("events").Manager(&parts{}), 0
		r := controlloop.Restarted(mgr, manager.RunnableFunc(func(context.Context) error {
			if starts++; starts < 3 {
				panic("an unexpected event")
			}
			return errBoom
		}))
		if err := r.Start(t.Context()); !errors.Is(err, errBoom) || starts != 3 {
			t.Errorf("it was started %d times, and returned %v", starts, err)
		}
		if diff := cmp.Diff(map[string]float64{"panic": 2}, results(t, registry, "flagship_loop_reconcile_total")); diff != "" {
			t.Errorf("counted (-want +got):\n%s", diff)
		}
		ended, end := context.WithCancel(t.Context())
		if err := controlloop.Restarted(mgr, manager.RunnableFunc(func(context.Context) error { end(); panic("an unexpected event") })).Start(ended); err != nil {
			t.Errorf("when the manager ends, it returns %v", err)
		}
	})
}

// TestAPanicOfAPartOfAReconcileIsCounted: the rest of the reconcile goes on, and it returns the panic as an error.
func TestAPanicOfAPartOfAReconcileIsCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	mgr := controlloop.NewSet(registry, clock.RealClock{}).Loop("render").Manager(&parts{})
	var lines []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	tracked := controlloop.Track(mgr, reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, errors.Join(errBoom, controlloop.CatchPanic(func() error { panic("an unexpected object") }))
	}))
	if _, err := tracked.Reconcile(ctx, reconcile.Request{}); !errors.Is(err, errBoom) {
		t.Errorf("the error is %v", err)
	}
	if diff := cmp.Diff(map[string]float64{"panic": 1}, results(t, registry, "flagship_loop_reconcile_total")); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "panic_test.go") {
		t.Errorf("logged are %q, want the panic with its stack", lines)
	}
}
