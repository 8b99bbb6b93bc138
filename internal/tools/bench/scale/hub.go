package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/bench/fleet"
)

// hub is the control plane that is measured.
type hub struct {
	*fleet.Fleet
	kube    kubernetes.Interface
	dynamic dynamic.Interface
}

func serve(ctx context.Context, o Options, dir string, port int, log io.Writer) (*hub, error) {
	f, err := fleet.Serve(ctx, o.Binary, dir, port, log, o.serverFlags()...)
	if err != nil {
		return nil, err
	}
	return newHub(f)
}

// serverFlags are without an audit log, which would be written for the requests of the bench.
func (o Options) serverFlags() []string {
	return append([]string{"--audit-log-path", "none"}, o.flags...)
}

func newHub(f *fleet.Fleet) (_ *hub, err error) {
	h := &hub{Fleet: f}
	if h.kube, err = kubernetes.NewForConfig(f.Hub); err == nil {
		h.dynamic, err = dynamic.NewForConfig(f.Hub)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("building a client: %w", err), f.End())
	}
	return h, nil
}

// metricLine is a line of the text format, without labels or with.
var metricLine = regexp.MustCompile(`(?m)^(\w+)(\{[^}]*\})? (\S+)$`)

// metrics adds up the samples of some metrics.
func (h *hub) metrics(ctx context.Context, names ...string) (map[string]float64, error) {
	text, err := h.raw(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	return sums(string(text), names...)
}

func sums(text string, names ...string) (map[string]float64, error) {
	found := map[string]float64{}
	for _, name := range names {
		found[name] = 0
	}
	for _, m := range metricLine.FindAllStringSubmatch(text, -1) {
		if _, wanted := found[m[1]]; !wanted {
			continue
		}
		value, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			return nil, fmt.Errorf("reading the metric %s: %w", m[1], err)
		}
		found[m[1]] += value
	}
	return found, nil
}

func (h *hub) raw(ctx context.Context, path string, parameters ...string) ([]byte, error) {
	request := h.kube.Discovery().RESTClient().Get().AbsPath(path)
	for i := 0; i+1 < len(parameters); i += 2 {
		request = request.Param(parameters[i], parameters[i+1])
	}
	raw, err := request.DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return raw, nil
}

// heapAlloc is a line of the text form of a heap profile.
var heapAlloc = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)

// live is the heap after a collection of garbage.
func (h *hub) live(ctx context.Context) (float64, error) {
	text, err := h.raw(ctx, "/debug/pprof/heap", "gc", "1", "debug", "1")
	if err != nil {
		return 0, err
	}
	m := heapAlloc.FindSubmatch(text)
	if m == nil {
		return 0, errors.New("the heap profile does not have its size")
	}
	return strconv.ParseFloat(string(m[1]), 64)
}

// profile writes profiles of the time in which a step runs. The returned function waits for them.
func (h *hub) profile(ctx context.Context, dir, step string) func() error {
	if dir == "" {
		return func() error { return nil }
	}
	write := func(kind string, raw []byte, err error) error {
		if err == nil {
			err = os.MkdirAll(dir, 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, step+"-"+kind+".pprof"), raw, 0o600)
		}
		return err
	}
	done := make(chan error, 1)
	go func() {
		raw, err := h.raw(ctx, "/debug/pprof/profile", "seconds", "20")
		done <- write("cpu", raw, err)
	}()
	return func() error {
		raw, err := h.raw(ctx, "/debug/pprof/heap", "gc", "1")
		goroutines, failure := h.raw(ctx, "/debug/pprof/goroutine")
		return errors.Join(<-done, write("heap", raw, err), write("goroutine", goroutines, failure))
	}
}

// readiness follows the Ready condition of all Clusters.
type readiness struct {
	mu    sync.Mutex
	ready map[string]time.Time // since when, as seen here
	stop  func()
}

var clusters = clusterv1alpha1.SchemeGroupVersion.WithResource("clusters")

func (h *hub) watchReadiness(ctx context.Context) (*readiness, error) {
	ctx, cancel := context.WithCancel(ctx)
	factory := dynamicinformer.NewDynamicSharedInformerFactory(h.dynamic, 0)
	r := &readiness{ready: map[string]time.Time{}, stop: func() {
		cancel()
		factory.Shutdown()
	}}
	_, err := factory.ForResource(clusters).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    r.see,
		UpdateFunc: func(_, obj any) { r.see(obj) },
	})
	if err != nil {
		r.stop()
		return nil, fmt.Errorf("watching clusters: %w", err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return r, nil
}

func (r *readiness) see(obj any) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	since, before := r.ready[u.GetName()]
	switch now := isReady(u); {
	case now && !before:
		r.ready[u.GetName()] = time.Now()
	case !now && before && !since.IsZero():
		delete(r.ready, u.GetName())
	}
}

func isReady(u *unstructured.Unstructured) bool {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, item := range list {
		c, _ := item.(map[string]any)
		if c["type"] == clusterv1alpha1.ClusterConditionReady {
			return c["status"] == string(metav1.ConditionTrue)
		}
	}
	return false
}

func (r *readiness) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ready)
}

func (r *readiness) at(name string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ready[name]
}

// until waits for a condition that is read every quarter of a second.
func until(ctx context.Context, what string, holds func() (bool, error)) error {
	return every(ctx, 250*time.Millisecond, what, holds)
}

// every waits for a condition that is read once in a period.
func every(ctx context.Context, period time.Duration, what string, holds func() (bool, error)) error {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		if ok, err := holds(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		}
	}
}

// calm waits until nothing waits in a work queue for a while, and returns when that began.
func (b *bench) calm(ctx context.Context) (time.Time, error) {
	const quiet = 3 * time.Second
	var since time.Time
	err := until(ctx, "the work queues to be empty", func() (bool, error) {
		depths, err := b.metrics(ctx, "workqueue_depth", "flagship_loop_queue_depth")
		// A control plane that is too busy to answer is not calm.
		switch empty := err == nil && depths["workqueue_depth"]+depths["flagship_loop_queue_depth"] == 0; {
		case !empty:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		}
		return !since.IsZero() && time.Since(since) >= quiet, nil
	})
	return since, err
}

// countWorks counts the Works without reading them.
func (h *hub) countWorks(ctx context.Context) (int, error) {
	list, err := h.dynamic.Resource(works).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, fmt.Errorf("counting works: %w", err)
	}
	n := len(list.Items)
	if accessor, err := meta.ListAccessor(list); err == nil && accessor.GetRemainingItemCount() != nil {
		n += int(*accessor.GetRemainingItemCount())
	}
	return n, nil
}

func loadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return load
}
