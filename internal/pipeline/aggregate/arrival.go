package aggregate

import (
	"bytes"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
)

const (
	// maxUnderWay bounds the memory for changes that are not in all members yet: 2 MB.
	maxUnderWay = 16384
	// maxBefore is how much older than its binding a template may be for the binding to be due to it. An older one got its policy later.
	maxBefore = time.Minute
)

// Metadata has the metadata of templates, and reports changes; *hubstore.Store does.
type Metadata interface {
	Meta(hubstore.Ref) (*metav1.PartialObjectMetadata, bool)
	Follow(hubstore.Follower)
}

// arrivals measures how long it takes until all members have what a user writes. It has the changes that are under way in memory: those before
// a start, and those above maxUnderWay, are not measured.
type arrivals struct {
	seconds  prometheus.Observer
	metadata Metadata
	clock    clock.PassiveClock

	mu       sync.Mutex
	underWay map[Request]change
}

// change is one of a template.
type change struct {
	uid types.UID
	at  time.Time
	// generation is that of the template, 0 if any will do.
	generation int64
}

// newArrivals returns nil without metadata; its methods do nothing then.
func newArrivals(metadata Metadata, r prometheus.Registerer, c clock.PassiveClock) *arrivals {
	if metadata == nil {
		return nil
	}
	a := &arrivals{metadata: metadata, clock: c, underWay: map[Request]change{}, seconds: promauto.With(r).NewHistogram(prometheus.HistogramOpts{
		Name: "flagship_template_arrival_seconds",
		Help: "Time from the last write of a template by a user until it is applied in all of its members: from its creation, noted by the second, " +
			"or from the change of its generation, as the control plane receives it.",
		Buckets: []float64{1, 2, 5, 10, 30, 60, 120, 300, 900, 3600},
	})}
	metadata.Follow(a.changed)
	return a
}

// changed notes a change of a template. A template without a generation counts when it is created only: its resource version changes with
// what the control plane writes, too.
func (a *arrivals) changed(ref hubstore.Ref, before, after *metav1.PartialObjectMetadata) {
	request := Request{Namespace: ref.Namespace, Name: workv1alpha2.BindingName(ref.GroupVersionKind.Kind, ref.Name)}
	switch {
	case after == nil:
		a.end(request)
	case before.UID != after.UID || after.Generation > before.Generation:
		a.begin(request, change{uid: after.UID, at: a.clock.Now(), generation: after.Generation})
	}
}

// created notes that a template has a binding now.
func (a *arrivals) created(request Request, binding workv1alpha2.Binding) {
	if a == nil {
		return
	}
	of := binding.BindingSpec().Resource
	template, ok := a.metadata.Meta(hubstore.Ref{GroupVersionKind: of.GroupVersionKind(), Namespace: of.Namespace, Name: of.Name})
	if !ok || template.UID != of.UID {
		return
	}
	at := binding.GetCreationTimestamp().Time
	if age := at.Sub(template.CreationTimestamp.Time); age < maxBefore {
		at = template.CreationTimestamp.Time
	}
	a.begin(request, change{uid: of.UID, at: at})
}

func (a *arrivals) begin(request Request, c change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.underWay[request]; known || len(a.underWay) < maxUnderWay {
		a.underWay[request] = c
	}
}

func (a *arrivals) end(request Request) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.underWay, request)
}

// observe measures a change if all Works of the binding have it and are applied.
func (a *arrivals) observe(request Request, binding workv1alpha2.Binding, summary Summary, works []*workv1alpha1.Work) {
	if a == nil || len(summary.Missing) > 0 || len(summary.Items) == 0 {
		return
	}
	a.mu.Lock()
	c, ok := a.underWay[request]
	a.mu.Unlock()
	if !ok || c.uid != binding.BindingSpec().Resource.UID || unrendered(binding) || slices.ContainsFunc(works, func(w *workv1alpha1.Work) bool {
		return summary.has(w) && generationOf(w) < c.generation
	}) {
		return
	}
	a.seconds.Observe(max(0, a.clock.Since(c.at).Seconds()))
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.underWay[request] == c {
		delete(a.underWay, request)
	}
}

// has returns whether a Work is in a cluster that should have a copy.
func (s Summary) has(work *workv1alpha1.Work) bool {
	cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace)
	return ok && slices.ContainsFunc(s.Items, func(item workv1alpha2.AggregatedStatusItem) bool { return item.ClusterName == cluster })
}

// generationOf is the generation of the template that a Work was made of, which is in an annotation of the manifest; 0 if it has none. To
// decode the manifest would cost as much as to render it.
func generationOf(work *workv1alpha1.Work) int64 {
	for _, manifest := range work.Spec.Workload.Manifests {
		_, rest, found := bytes.Cut(manifest.Raw, []byte(`"`+workv1alpha1.TemplateGenerationAnnotation+`":"`))
		if !found {
			continue
		}
		number, _, _ := bytes.Cut(rest, []byte(`"`))
		generation, err := strconv.ParseInt(string(number), 10, 64)
		if err == nil {
			return generation
		}
	}
	return 0
}
