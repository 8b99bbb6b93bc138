package storage

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// timed is an object as storage wraps it that has the time when it was decoded.
type timed struct{ runtime.Object }

func (timed) RecordTime() time.Time    { return time.Time{} }
func (t timed) Unwrap() runtime.Object { return t.Object }

// source is storage with a watch that the test feeds, and a number of objects.
type source struct {
	storage.Interface
	watch   *watch.FakeWatcher
	objects int64
}

func (s source) Watch(context.Context, string, storage.ListOptions) (watch.Interface, error) {
	return s.watch, nil
}

func (s source) Stats(context.Context) (storage.Stats, error) {
	return storage.Stats{ObjectCount: s.objects}, nil
}

func TestEventsPassAsTheyAre(t *testing.T) {
	fake := watch.NewFake()
	w, err := cacheStorage{source{watch: fake}, clock.RealClock{}}.Watch(t.Context(), "/pods", storage.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first, second := pod("1", "Pending"), pod("2", "Running")
	go func() {
		fake.Add(timed{first})
		fake.Modify(timed{second})
		fake.Stop()
	}()
	for _, want := range []watch.Event{{Type: watch.Added, Object: timed{first}}, {Type: watch.Modified, Object: timed{second}}} {
		if got := <-w.ResultChan(); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	if _, open := <-w.ResultChan(); open {
		t.Error("the watch goes on after its end")
	}
	if &first.Spec.Containers[0] != &second.Spec.Containers[0] {
		t.Error("what is wrapped is not shared")
	}
}

func TestTheHistoryOfABurstIsDropped(t *testing.T) {
	tests := map[string]struct {
		reason  string
		objects int64 // that are left
		events  int
		trickle bool // and then one event a minute
		want    bool
	}{
		"Gone":     {"what was deleted is not kept", 0, minEvents, false, true},
		"Worn":     {"few objects were written again and again", minEvents / eventsPerObject, minEvents, false, true},
		"Arrived":  {"to read all of them again would cost more", minEvents, minEvents, false, false},
		"FewCame":  {"nothing to speak of", 0, 100, false, false},
		"StillOn":  {"what goes on pushes the history out by itself", 0, minEvents, true, false},
		"NeverAny": {"nothing at all", 0, 0, false, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := watch.NewFake()
				w, err := cacheStorage{source{watch: fake, objects: tc.objects}, clock.RealClock{}}.Watch(t.Context(), "/pods", storage.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				over := false
				done := make(chan struct{})
				go func() {
					defer close(done)
					for e := range w.ResultChan() {
						over = over || e.Type == watch.Error && apierrors.IsResourceExpired(apierrors.FromObject(e.Object))
					}
				}()
				for i := range tc.events {
					fake.Modify(pod(strconv.Itoa(i), "Running"))
				}
				for range 10 {
					<-time.After(time.Minute)
					if tc.trickle {
						fake.Modify(pod("1", "Running"))
					}
				}
				w.Stop()
				<-done
				if over != tc.want {
					t.Errorf("%s: started over %t", tc.reason, over)
				}
			})
		})
	}
}

// restarting is storage of no objects, in a world that has come to a version, whose watches the test feeds.
type restarting struct {
	storage.Interface
	lists   atomic.Int32
	watches chan *watch.FakeWatcher
}

func (*restarting) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

func (r *restarting) GetList(_ context.Context, _ string, _ storage.ListOptions, list runtime.Object) error {
	r.lists.Add(1)
	list.(*corev1.PodList).ResourceVersion = "100000"
	return nil
}

func (r *restarting) Watch(_ context.Context, _ string, opts storage.ListOptions) (watch.Interface, error) {
	if opts.SendInitialEvents != nil {
		return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil) // a list, then
	}
	w := watch.NewFake()
	r.watches <- w
	return w, nil
}

func (*restarting) Stats(context.Context) (storage.Stats, error)              { return storage.Stats{}, nil }
func (*restarting) EnableResourceSizeEstimation(storage.KeysFunc) error       { return nil }
func (*restarting) GetCurrentResourceVersion(context.Context) (uint64, error) { return 100000, nil }
func (*restarting) RequestWatchProgress(context.Context) error                { return nil }
func (*restarting) CompactRevision() int64                                    { return 0 }
func (*restarting) ReadinessCheck() error                                     { return nil }

// A watch cache takes the end of a watch as it should: it reads what there is, and goes on.
func TestAWatchCacheListsAgainAfterABurst(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	store := &restarting{watches: make(chan *watch.FakeWatcher)}
	c, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage: cacheStorage{store, clk}, Versioner: storage.APIObjectVersioner{}, GroupResource: corev1.Resource("pods"),
		EventsHistoryWindow: cacher.DefaultEventFreshDuration, ResourcePrefix: "/pods/",
		KeyFunc:      func(obj runtime.Object) (string, error) { return storage.NamespaceKeyFunc("/pods/", obj) },
		NewFunc:      func() runtime.Object { return &corev1.Pod{} },
		NewListFunc:  func() runtime.Object { return &corev1.PodList{} },
		GetAttrsFunc: storage.DefaultNamespaceScopedAttr,
		Codec:        scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	burstOf := func(w *watch.FakeWatcher) {
		for i := range minEvents {
			w.Delete(pod(strconv.Itoa(100001+i), "Running"))
		}
	}
	first := <-store.watches
	burstOf(first)
	for second := (*watch.FakeWatcher)(nil); second == nil; {
		clk.Step(idlePeriod)
		select {
		case second = <-store.watches:
			if lists := store.lists.Load(); lists != 2 {
				t.Errorf("it was read %d times, want once at the start and once after the burst", lists)
			}
		case <-time.After(100 * time.Millisecond):
		}
	}
}
