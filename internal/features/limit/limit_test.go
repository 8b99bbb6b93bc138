package limit

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// stored is what storage counts.
type stored map[string]Usage

func (s stored) Of(namespace string) (objects, bytes int64, known bool) {
	return s[namespace].Objects, s[namespace].Bytes, s != nil
}

func (s stored) Each(visit func(namespace string, objects, bytes int64)) {
	for namespace, u := range s {
		visit(namespace, u.Objects, u.Bytes)
	}
}

func newLimiter(s stored, limits Limits, storage *int64) (*Limiter, *[]events.Event) {
	published := &[]events.Event{}
	l := New(Deps{
		Limits: func() Limits { return limits }, Stored: s,
		StorageSize: func(context.Context) (int64, int64, error) { return *storage, 1000, nil },
		Client:      fake.NewClientBuilder().Build(), Events: events.RecorderFunc(func(e events.Event) { *published = append(*published, e) }),
		Metrics: prometheus.NewRegistry(), Clock: clocktesting.NewFakeClock(time.Unix(0, 0)),
	})
	l.synced = func() bool { return true }
	return l, published
}

func work(namespace string, size int) *workv1alpha1.Work {
	return &workv1alpha1.Work{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{workv1alpha2.ResourceBindingNamespaceAnnotation: namespace}},
		Spec: workv1alpha1.WorkSpec{Workload: workv1alpha1.WorkloadTemplate{
			Manifests: []workv1alpha1.Manifest{{RawExtension: runtime.RawExtension{Raw: make([]byte, size)}}},
		}},
	}
}

func TestParse(t *testing.T) {
	defaults := Limits{Objects: 5, Bytes: 50}
	for _, c := range []struct {
		objects, size string
		want          Limits
		wrong         int
	}{
		{"", "", defaults, 0},
		{"7", "", Limits{7, 50}, 0},
		{"0", "1Ki", Limits{-1, 1024}, 0},
		{"", "0", Limits{5, -1}, 0},
		{"-1", "-1", defaults, 2},
		{"many", "large", defaults, 2},
	} {
		annotations := map[string]string{}
		if c.objects != "" {
			annotations[workv1alpha1.ObjectLimitAnnotation] = c.objects
		}
		if c.size != "" {
			annotations[workv1alpha1.SizeLimitAnnotation] = c.size
		}
		if got, errs := parse(annotations); got.or(defaults) != c.want || len(errs) != c.wrong {
			t.Errorf("%v: %+v and %v, want %+v and %d errors", annotations, got, errs, c.want, c.wrong)
		}
	}
}

func TestCheck(t *testing.T) {
	yes, no := func() bool { return true }, func() bool { return false }
	for _, c := range []struct {
		reason  string
		usage   Usage
		limits  Limits
		creates bool
		grows   func() bool
		refused bool
	}{
		{"below both limits", Usage{4, 49}, Limits{5, 50}, true, yes, false},
		{"at the limit of objects, another one", Usage{5, 10}, Limits{5, 50}, true, yes, true},
		{"at the limit of objects, a larger one", Usage{5, 10}, Limits{5, 50}, false, yes, false},
		{"at the limit of bytes, another object", Usage{1, 50}, Limits{5, 50}, true, no, true},
		{"at the limit of bytes, a larger one", Usage{1, 50}, Limits{5, 50}, false, yes, true},
		{"at the limit of bytes, a smaller one", Usage{1, 50}, Limits{5, 50}, false, no, false},
		{"without limits", Usage{1 << 40, 1 << 50}, Limits{-1, -1}, true, yes, false},
	} {
		if err := c.limits.check("shop", c.usage, c.creates, c.grows); (err != nil) != c.refused {
			t.Errorf("%s: %v, refused should be %t", c.reason, err, c.refused)
		}
	}
}

func TestWorksCountForTheNamespaceOfTheirBinding(t *testing.T) {
	storage := int64(0)
	l, _ := newLimiter(stored{"shop": {3, 100}}, Limits{Objects: 5, Bytes: 1 << 20}, &storage)
	small, large, other := work("shop", 10), work("shop", 5000), work("", 10)
	l.workChanged(nil, small, true)
	l.workChanged(nil, other, true) // of a cluster-scoped template
	usage, _, _ := l.of("shop")
	if want := (Usage{4, 100 + SizeOf(small)}); usage != want {
		t.Errorf("after one Work: %+v, want %+v", usage, want)
	}
	l.workChanged(small, large, false)
	l.workChanged(nil, small, false)
	if err := l.CheckWork("shop", nil, small); err == nil {
		t.Error("a Work is admitted at the limit of objects")
	}
	if err := l.CheckWork("shop", small, large); err != nil {
		t.Errorf("a Work cannot be changed at the limit of objects: %v", err)
	}
	var exceeded *Exceeded
	if err := l.CheckUser("shop", true, nil); !errors.As(err, &exceeded) || exceeded.Used != 5 || !strings.Contains(err.Error(), "5 are stored") {
		t.Errorf("a user gets %v", err)
	}
	if err := l.CheckUser("karmada-system", true, nil); err != nil {
		t.Errorf("a namespace of the control plane has a limit: %v", err)
	}

	var woken []string
	more := true
	l.OnSpace(func(namespace string) bool {
		woken = append(woken, namespace)
		defer func() { more = false }()
		return more
	})
	l.wakeAll()
	if len(woken) > 0 {
		t.Error("what waits is woken without space")
	}
	l.workChanged(small, nil, false)
	for range 5 {
		l.wakeAll()
	}
	if len(woken) != 3 {
		t.Errorf("woken %d times, want once since there is space, and twice after wake returned that more waits", len(woken))
	}
}

func TestANamespaceHasLimitsOfItsOwn(t *testing.T) {
	storage := int64(0)
	l, _ := newLimiter(stored{"shop": {3, 100}}, Limits{}, &storage)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{workv1alpha1.ObjectLimitAnnotation: "3"}}}
	l.namespaceChanged(nil, namespace, true)
	if l.CheckUser("shop", true, nil) == nil {
		t.Error("the annotation has no effect")
	}
	l.namespaceChanged(namespace, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, false)
	if err := l.CheckUser("shop", true, nil); err != nil {
		t.Errorf("the annotation that was removed has an effect: %v", err)
	}
	l.namespaceChanged(namespace, namespace, false)
	l.namespaceChanged(namespace, nil, false)
	if err := l.CheckUser("shop", true, nil); err != nil {
		t.Errorf("the annotation of a namespace that is gone has an effect: %v", err)
	}
}

func TestNothingIsRefusedBeforeItIsCounted(t *testing.T) {
	storage := int64(0)
	l, _ := newLimiter(stored{"shop": {30, 100}}, Limits{Objects: 1}, &storage)
	l.synced = func() bool { return false }
	if err := l.CheckUser("shop", true, nil); err != nil {
		t.Error(err)
	}
}

func TestWarnings(t *testing.T) {
	counts, storage := stored{"shop": {1, 1}, "karmada-system": {1000, 1}}, int64(100)
	l, published := newLimiter(counts, Limits{Objects: 10}, &storage)
	w := warner{limiter: l, levels: map[string]int{}}
	for _, s := range []struct {
		objects, storage int64
		want             string
	}{
		{1, 100, ""},
		{8, 100, events.NamespaceNearLimit},
		{9, 100, ""},
		{10, 100, events.NamespaceLimitReached},
		{9, 100, ""},
		{10, 100, events.NamespaceLimitReached},
		{1, 100, ""},
		{1, 600, events.StorageNearQuota},
		{1, 700, ""},
		{1, 810, events.StorageNearQuota},
		{1, 100, ""},
	} {
		*published = nil
		counts["shop"], storage = Usage{s.objects, 1}, s.storage
		w.namespaces(t.Context())
		w.storage(t.Context())
		var got string
		for _, e := range *published {
			got += e.Reason
		}
		if got != s.want {
			t.Errorf("with %d objects and %d of 1000 bytes of storage: %q, want %q", s.objects, s.storage, got, s.want)
		}
	}
}

// TestRecordsCountForTheirCluster: an agent writes the annotations of its records, and as many records as it may.
func TestRecordsCountForTheirCluster(t *testing.T) {
	storage := int64(0)
	l, _ := newLimiter(stored{}, Limits{}, &storage)
	record := func(cluster string, size int) *workv1alpha1.Work {
		w := work("shop", size) // with the annotation of another tenant
		w.Namespace, w.Labels = workv1alpha1.ExecutionNamespace(cluster), map[string]string{workv1alpha1.EventsRecordLabel: "true"}
		return w
	}
	l.workChanged(nil, record("eu", bounds.MaxRecordBytes), true)
	if usage, _, _ := l.of("shop"); usage != (Usage{}) {
		t.Errorf("records count for namespace shop: %+v", usage)
	}
	if err := l.CheckRecord(nil, record("eu", 10)); err == nil {
		t.Error("a record is admitted at the bound of bytes")
	}
	if err := l.CheckRecord(record("eu", 10), record("eu", 20)); err == nil {
		t.Error("a record may grow at the bound of bytes")
	}
	if err := l.CheckRecord(record("eu", 20), record("eu", 10)); err != nil {
		t.Errorf("a record may not become smaller: %v", err)
	}
	if err := l.CheckRecord(nil, record("us", 10)); err != nil {
		t.Errorf("another cluster has that bound, too: %v", err)
	}
	l.workChanged(record("eu", bounds.MaxRecordBytes), nil, false)
	for range bounds.MaxRecords {
		l.workChanged(nil, record("eu", 10), false)
	}
	if err := l.CheckRecord(nil, record("eu", 10)); err == nil {
		t.Error("a record is admitted at the bound of records")
	}
}

// TestAReportIsNotPaidFor: a namespace has a Work, and its member reports as much as it likes.
func TestAReportIsNotPaidFor(t *testing.T) {
	w := work("shop", 10)
	w.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{Status: &runtime.RawExtension{Raw: make([]byte, 1_568_000)}}}
	if size := SizeOf(w); size > 40<<10 {
		t.Errorf("it counts as %d bytes", size)
	}
}
