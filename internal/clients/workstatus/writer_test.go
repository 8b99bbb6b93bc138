package workstatus_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/workstatus"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

var key = types.NamespacedName{Namespace: "karmada-es-member1", Name: "nginx"}

// hub is an API server with one Work and a cache that may lag behind.
type hub struct {
	client.Client
	mu     sync.Mutex
	stored *workv1alpha1.Work // nil: does not exist
	cached *workv1alpha1.Work // nil: the cache is up to date
	fail   []error            // outcomes of the next updates, before they have an effect
	writes int
}

// named is a Work as its sources have it.
func named(key types.NamespacedName) *workv1alpha1.Work {
	return &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
}

func newHub() *hub {
	return &hub{stored: &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, UID: "u", ResourceVersion: "1", Generation: 1,
	}}}
}

func (h *hub) read(into client.Object, work *workv1alpha1.Work) error {
	if work == nil {
		return apierrors.NewNotFound(workv1alpha1.Resource("works"), key.Name)
	}
	work.DeepCopyInto(into.(*workv1alpha1.Work))
	return nil
}

func (h *hub) Get(_ context.Context, name client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if name != key {
		return h.read(obj, nil)
	}
	if h.cached != nil {
		return h.read(obj, h.cached)
	}
	return h.read(obj, h.stored)
}

func (h *hub) Status() client.SubResourceWriter { return statusWriter{hub: h} }

type statusWriter struct {
	client.SubResourceWriter
	hub *hub
}

func (s statusWriter) Update(_ context.Context, obj client.Object, _ ...client.SubResourceUpdateOption) error {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writes++
	if len(h.fail) > 0 {
		err := h.fail[0]
		h.fail = h.fail[1:]
		if err != nil {
			return err
		}
	}
	sent := obj.(*workv1alpha1.Work)
	if sent.ResourceVersion != h.stored.ResourceVersion {
		return apierrors.NewConflict(workv1alpha1.Resource("works"), key.Name, errors.New("modified"))
	}
	h.stored = h.stored.DeepCopy()
	sent.Status.DeepCopyInto(&h.stored.Status)
	h.bump()
	return h.read(obj, h.stored)
}

func (h *hub) status() workv1alpha1.WorkStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	return *h.stored.Status.DeepCopy()
}

func (h *hub) snapshot() *workv1alpha1.Work {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stored.DeepCopy()
}

func (h *hub) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.writes
}

func (h *hub) change(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

func (h *hub) bump() {
	version, _ := strconv.Atoi(h.stored.ResourceVersion)
	h.stored.ResourceVersion = strconv.Itoa(version + 1)
}

// live reads past the cache.
type live struct {
	client.Reader
	hub *hub
}

func (l live) Get(_ context.Context, name client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	if name != key {
		return l.hub.read(obj, nil)
	}
	return l.hub.read(obj, l.hub.stored)
}

// start runs a writer until the bubble's test function ends.
func start(t *testing.T, h *hub) (*workstatus.Writer, context.CancelFunc) {
	t.Helper()
	return startWith(t, workstatus.Config{Client: h, Live: live{hub: h}})
}

func startWith(t *testing.T, config workstatus.Config) (*workstatus.Writer, context.CancelFunc) {
	t.Helper()
	w, err := workstatus.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	return w, func() { cancel(); <-done }
}

// elapse moves the bubble's clock, and returns when nothing is left to do at that time.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func applied(work *workv1alpha1.Work, status *workv1alpha1.WorkStatus) {
	meta.SetStatusCondition(&status.Conditions, workv1alpha1.Applied(work.Generation))
}

func healthy(_ *workv1alpha1.Work, status *workv1alpha1.WorkStatus) {
	status.ManifestStatuses = []workv1alpha1.ManifestStatus{{
		Identifier: workv1alpha1.ResourceIdentifier{Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Name: "a"},
		Status:     &runtime.RawExtension{Raw: []byte(`{"b":1,"a":2}`)},
		Health:     workv1alpha1.ResourceHealthy,
	}}
}

func TestUpdatesWithinTheWindowAreOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub()
		w, stop := start(t, h)
		defer stop()
		w.Update(named(key), workstatus.Observe, healthy)
		w.Update(named(key), workstatus.Apply, applied)
		elapse(40 * time.Millisecond)
		if h.count() != 0 {
			t.Errorf("wrote %d times before the window was over", h.count())
		}
		elapse(20 * time.Millisecond)
		if h.count() != 1 || len(h.status().ManifestStatuses) != 1 || !meta.IsStatusConditionTrue(h.status().Conditions, workv1alpha1.WorkApplied) {
			t.Errorf("after the window: %d writes, status %+v", h.count(), h.status())
		}
		if n := len(h.status().Conditions); n != 5 {
			t.Errorf("the first write has %d conditions, want all five", n)
		}
	})
}

// TestTheWindowFollowsTheLoad has other work hold all slots when writes are due.
func TestTheWindowFollowsTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub()
		limiter := controlloop.NewLimiter(clock.RealClock{}, 1, time.Hour)
		loops := controlloop.NewSet(nil, clock.RealClock{})
		loops.Limit(limiter, nil, []string{"report"})
		w, stop := startWith(t, workstatus.Config{Client: h, Live: live{hub: h}, Loop: loops.Loop("report")})
		defer stop()
		var others []func()
		for range goruntime.GOMAXPROCS(0) {
			_, end := limiter.Acquire(t.Context())
			others = append(others, end)
		}
		for i := range 40 { // of Works that are gone: nothing is written
			w.Update(named(types.NamespacedName{Namespace: key.Namespace, Name: "gone-" + strconv.Itoa(i)}), workstatus.Apply, applied)
		}
		w.Update(named(key), workstatus.Apply, applied)
		elapse(500 * time.Millisecond)
		w.Update(named(key), workstatus.Observe, healthy)
		for _, end := range others {
			end()
		}
		synctest.Wait()
		if h.count() != 1 || len(h.status().ManifestStatuses) != 1 {
			t.Errorf("%d writes, status %+v: what was reported during the wait is not in the one write", h.count(), h.status())
		}
		unhealthy := func(work *workv1alpha1.Work, status *workv1alpha1.WorkStatus) {
			healthy(work, status)
			status.ManifestStatuses[0].Health = workv1alpha1.ResourceUnhealthy
		}
		w.Update(named(key), workstatus.Observe, unhealthy)
		elapse(900 * time.Millisecond)
		if h.count() != 1 {
			t.Error("a window after late writes is as short as before")
		}
		elapse(101 * time.Millisecond)
		if h.count() != 2 {
			t.Error("the window is longer than a second")
		}
		elapse(2 * time.Second)
		w.Update(named(key), workstatus.Observe, healthy)
		elapse(50 * time.Millisecond)
		if h.count() != 3 {
			t.Error("the window is long after the load")
		}
	})
}

// takes is how long reads takes for each.
const takes = 10 * time.Millisecond

// reads is a client that records in which order Works are read.
type reads struct {
	*hub
	names []string
}

func (r *reads) Get(ctx context.Context, name client.ObjectKey, obj client.Object, o ...client.GetOption) error {
	r.mu.Lock()
	r.names = append(r.names, name.Name)
	r.mu.Unlock()
	<-time.After(takes)
	return r.hub.Get(ctx, name, obj, o...)
}

// TestNamespacesTakeTurns: the statuses of one namespace do not wait for all of those of another one.
func TestNamespacesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &reads{hub: newHub()}
		w, stop := startWith(t, workstatus.Config{Client: h, Live: live{hub: h.hub}, Workers: 1})
		defer stop()
		of := func(namespace, name string) *workv1alpha1.Work {
			work := named(types.NamespacedName{Namespace: key.Namespace, Name: name})
			work.Annotations = map[string]string{workv1alpha2.ResourceBindingNamespaceAnnotation: namespace}
			return work
		}
		for i := range 20 {
			w.Update(of("large", "large-"+strconv.Itoa(i)), workstatus.Apply, applied)
		}
		elapse(takes)
		w.Update(of("small", "small"), workstatus.Apply, applied)
		elapse(time.Second)
		if len(h.names) != 21 || !slices.Contains(h.names[:4], "small") {
			t.Errorf("the order of statuses is %q", h.names)
		}
	})
}

// TestAChangeByOthersIsReported to the sources, which report again; a write of the writer is no such change.
func TestAChangeByOthersIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub()
		w, stop := start(t, h)
		defer stop()
		var changes []types.NamespacedName
		w.OnForeignChange(func(work types.NamespacedName) { changes = append(changes, work) })
		event := func(before *workv1alpha1.Work) { w.Handler().OnUpdate(before, h.snapshot()) }

		before := h.snapshot()
		w.Update(named(key), workstatus.Apply, applied)
		elapse(time.Second)
		event(before)
		event(h.snapshot()) // as a resync does
		if len(changes) > 0 {
			t.Errorf("the writer's own write was taken for one of others: %v", changes)
		}
		before = h.snapshot()
		h.change(func() {
			h.stored = h.stored.DeepCopy()
			h.stored.Spec.Workload.Manifests = make([]workv1alpha1.Manifest, 1)
			h.bump()
		})
		event(before)
		if len(changes) > 0 {
			t.Errorf("a change of the spec was taken for one of the status: %v", changes)
		}
		before = h.snapshot()
		h.change(func() {
			h.stored = h.stored.DeepCopy()
			meta.RemoveStatusCondition(&h.stored.Status.Conditions, workv1alpha1.WorkApplied)
			h.bump()
		})
		event(before)
		if diff := cmp.Diff([]types.NamespacedName{key}, changes); diff != "" {
			t.Errorf("after a condition was removed (-want +got):\n%s", diff)
		}
	})
}

func TestWhatIsThereAlreadyIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub()
		w, stop := start(t, h)
		defer stop()
		w.Update(named(key), workstatus.Apply, applied)
		w.Update(named(key), workstatus.Observe, healthy)
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		// The server gives objects back in its own order of keys.
		h.change(func() { h.stored.Status.ManifestStatuses[0].Status.Raw = []byte(`{"a":2,"b":1}`) })
		w.Update(named(key), workstatus.Apply, applied)
		w.Update(named(key), workstatus.Observe, healthy)
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if h.count() != 1 {
			t.Errorf("%d writes, want only the first", h.count())
		}
	})
}

func TestUpdatesOfApplyComeBeforeThoseOfObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub()
		w, stop := start(t, h)
		defer stop()
		var isApplied bool
		w.Update(named(key), workstatus.Observe, func(_ *workv1alpha1.Work, status *workv1alpha1.WorkStatus) {
			isApplied = meta.IsStatusConditionTrue(status.Conditions, workv1alpha1.WorkApplied)
		})
		w.Update(named(key), workstatus.Apply, applied)
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !isApplied {
			t.Error("observe did not receive what apply reported before it in the same window")
		}
	})
}

func TestNothingIsLost(t *testing.T) {
	refused := apierrors.NewConflict(workv1alpha1.Resource("works"), key.Name, errors.New("modified"))
	tests := map[string]struct {
		reason string
		change func(*hub)
		writes int
	}{
		"Conflict":     {"another client changed the Work since it was cached", func(h *hub) { h.cached = h.stored.DeepCopy(); h.bump() }, 2},
		"ServerBusy":   {"a write that failed is tried again", func(h *hub) { h.fail = []error{apierrors.NewTooManyRequests("busy", 1)} }, 2},
		"ManyConflict": {"a Work that keeps changing is tried again later", func(h *hub) { h.fail = []error{refused, refused, refused} }, 4},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHub()
				tc.change(h)
				w, stop := start(t, h)
				defer stop()
				w.Update(named(key), workstatus.Apply, applied)
				w.Update(named(key), workstatus.Observe, healthy)
				elapse(time.Minute)
				if len(h.status().ManifestStatuses) != 1 || !meta.IsStatusConditionTrue(h.status().Conditions, workv1alpha1.WorkApplied) {
					t.Errorf("%s: status is %+v", tc.reason, h.status())
				}
				if h.count() != tc.writes {
					t.Errorf("%s: %d requests, want %d", tc.reason, h.count(), tc.writes)
				}
			})
		})
	}
}

func TestACacheThatLagsDoesNotUndoTheLastWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub()
		w, stop := start(t, h)
		defer stop()
		h.change(func() { h.cached = h.stored.DeepCopy() }) // and stays behind
		w.Update(named(key), workstatus.Apply, applied)
		elapse(time.Second)
		w.Update(named(key), workstatus.Observe, healthy)
		elapse(time.Second)
		if !meta.IsStatusConditionTrue(h.status().Conditions, workv1alpha1.WorkApplied) {
			t.Error("the second write undid the first")
		}
		if h.count() != 2 {
			t.Errorf("%d requests, want 2: the writer caches what it wrote", h.count())
		}
	})
}

func TestShutdownWritesWhatIsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub()
		w, stop := start(t, h)
		w.Update(named(key), workstatus.Apply, applied)
		stop()
		if h.count() != 1 {
			t.Errorf("%d writes, want 1", h.count())
		}
	})
}

func TestAWorkThatIsGoneIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub()
		h.cached, h.stored = h.stored, nil
		h.fail = []error{apierrors.NewNotFound(workv1alpha1.Resource("works"), key.Name)}
		w, stop := start(t, h)
		defer stop()
		w.Update(named(key), workstatus.Apply, applied)
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		elapse(time.Minute)
		if h.count() != 1 {
			t.Errorf("%d requests for a Work that does not exist, want 1", h.count())
		}
	})
}

func TestSubscribersGetTheSource(t *testing.T) {
	w, err := workstatus.New(workstatus.Config{Client: newHub(), Live: live{hub: newHub()}})
	if err != nil {
		t.Fatal(err)
	}
	var reported []workstatus.Source
	w.OnUpdate(func(_ types.NamespacedName, by workstatus.Source) { reported = append(reported, by) })
	w.Update(named(key), workstatus.Apply, applied)
	w.Update(named(key), workstatus.Observe, healthy)
	if diff := cmp.Diff([]workstatus.Source{workstatus.Apply, workstatus.Observe}, reported); diff != "" {
		t.Error(diff)
	}
}

func TestASourceThatPanicsDoesNotStopOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub()
		w, stop := start(t, h)
		defer stop()
		var failing atomic.Bool
		failing.Store(true)
		w.Update(named(key), workstatus.Apply, applied)
		w.Update(named(key), workstatus.Observe, func(work *workv1alpha1.Work, status *workv1alpha1.WorkStatus) {
			meta.SetStatusCondition(&status.Conditions, workv1alpha1.NotAvailable(work.Generation, "half of it"))
			if failing.Load() {
				panic("an unexpected object")
			}
			healthy(work, status)
		})
		elapse(60 * time.Millisecond)
		if !meta.IsStatusConditionTrue(h.status().Conditions, workv1alpha1.WorkApplied) {
			t.Error("what the other source said was not written")
		}
		if c := meta.FindStatusCondition(h.status().Conditions, workv1alpha1.WorkAvailable); c != nil && c.Message == "half of it" {
			t.Error("half of what the source said was written")
		}
		failing.Store(false)
		elapse(time.Minute)
		if len(h.status().ManifestStatuses) != 1 {
			t.Error("it was not tried again")
		}
	})
}
