package storage

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// full is storage of objects that stay the same, and measures how long they take to be listed again.
type full struct {
	*restarting
	objects  int
	listed   time.Time
	relisted time.Duration
}

func (f *full) GetList(ctx context.Context, key string, opts storage.ListOptions, list apiruntime.Object) error {
	f.listed = time.Now()
	pods := list.(*corev1.PodList)
	pods.Items = make([]corev1.Pod, f.objects)
	for i := range pods.Items {
		pods.Items[i] = *pod(strconv.Itoa(i+1), "Running")
		pods.Items[i].Name = "pod-" + strconv.Itoa(i)
	}
	return f.restarting.GetList(ctx, key, opts, list)
}

func (f *full) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	if opts.SendInitialEvents == nil {
		f.relisted = time.Since(f.listed)
	}
	return f.restarting.Watch(ctx, key, opts)
}

func (f *full) Stats(context.Context) (storage.Stats, error) {
	return storage.Stats{ObjectCount: int64(f.objects)}, nil
}

// BenchmarkWatchRestart is what a watch cache frees by listing again after a burst of events, ten for each object, and how long the
// list takes. The pause of a second that the watch cache makes before is in ns/op.
func BenchmarkWatchRestart(b *testing.B) {
	for _, objects := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(objects), func(b *testing.B) {
			for range b.N {
				restart(b, objects)
			}
		})
	}
}

func restart(b *testing.B, objects int) {
	b.Helper()
	b.StopTimer()
	heap := func() float64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return float64(stats.HeapAlloc)
	}
	clk := clocktesting.NewFakeClock(time.Now())
	store := &full{restarting: &restarting{watches: make(chan *watch.FakeWatcher)}, objects: objects}
	empty := heap()
	c, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage: cacheStorage{store, clk}, Versioner: storage.APIObjectVersioner{}, GroupResource: corev1.Resource("pods"),
		EventsHistoryWindow: cacher.DefaultEventFreshDuration, ResourcePrefix: "/pods/",
		KeyFunc:      func(obj apiruntime.Object) (string, error) { return storage.NamespaceKeyFunc("/pods/", obj) },
		NewFunc:      func() apiruntime.Object { return &corev1.Pod{} },
		NewListFunc:  func() apiruntime.Object { return &corev1.PodList{} },
		GetAttrsFunc: storage.DefaultNamespaceScopedAttr,
		Codec:        scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion),
	})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Stop()
	w := <-store.watches
	for i := range eventsPerObject * max(objects, minEvents/eventsPerObject) {
		changed := pod(strconv.Itoa(100_001+i), "phase"+strconv.Itoa(i))
		changed.Name = "pod-" + strconv.Itoa(i%objects)
		w.Modify(changed)
	}
	burst := heap()
	b.StartTimer()
	for again := false; !again; {
		clk.Step(idlePeriod)
		select {
		case <-store.watches:
			again = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	b.StopTimer()
	b.ReportMetric((burst-empty)/float64(objects), "before-B/object")
	b.ReportMetric((heap()-empty)/float64(objects), "after-B/object")
	b.ReportMetric(float64(store.relisted.Nanoseconds())/float64(objects), "list-ns/object")
	b.StartTimer()
}

// BenchmarkWatchEvents is what passing an event on costs that shares what it can with the version before it.
func BenchmarkWatchEvents(b *testing.B) {
	events := make([]watch.Event, 1000)
	for i := range events {
		events[i] = watch.Event{Type: watch.Modified, Object: pod(strconv.Itoa(i+1), "Running")}
	}
	for name, wrap := range map[string]func(storage.Interface) storage.Interface{
		"Direct":       func(s storage.Interface) storage.Interface { return s },
		"CacheStorage": func(s storage.Interface) storage.Interface { return cacheStorage{s, clock.RealClock{}} },
	} {
		b.Run(name, func(b *testing.B) {
			fake := watch.NewFake()
			w, err := wrap(source{watch: fake}).Watch(b.Context(), "/pods", storage.ListOptions{})
			if err != nil {
				b.Fatal(err)
			}
			defer w.Stop()
			go func() {
				for i := range b.N {
					fake.Action(events[i%len(events)].Type, events[i%len(events)].Object)
				}
			}()
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				<-w.ResultChan()
			}
		})
	}
}
