package aggregate

import (
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
)

// written has the metadata of one template.
type written struct {
	meta     *metav1.PartialObjectMetadata
	follower hubstore.Follower
}

func (w *written) Meta(hubstore.Ref) (*metav1.PartialObjectMetadata, bool) {
	return w.meta, w.meta != nil
}
func (w *written) Follow(follower hubstore.Follower) { w.follower = follower }

func template(uid types.UID, generation int64, created time.Time) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: uid, Generation: generation, CreationTimestamp: metav1.NewTime(created),
	}}
}

// made has a Work that was made of a generation of the template.
func made(generation int64) workOption {
	return func(w *workv1alpha1.Work) {
		w.Spec.Workload.Manifests = []workv1alpha1.Manifest{{}}
		w.Spec.Workload.Manifests[0].Raw = []byte(`{"metadata":{"annotations":{"` + workv1alpha1.TemplateGenerationAnnotation + `":"` +
			strconv.FormatInt(generation, 10) + `"}}}`)
	}
}

// TestArrival: what a user writes counts from then until all members have it, once, however late the Works follow.
func TestArrival(t *testing.T) {
	deployment := hubstore.Ref{GroupVersionKind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, Namespace: "shop", Name: "web"}
	for name, tc := range map[string]struct {
		// write is what happens before the Works are reported.
		write func(w *written, s *fixture)
		// works are those of clusters a and b.
		works [2][]workOption
		// want are the seconds that are measured; none for an empty list.
		want []float64
	}{
		"Created": {
			func(_ *written, s *fixture) { s.loop.arrivals.created(web, s.binding()) },
			[2][]workOption{{made(1), appliedAt(1)}, {made(1), appliedAt(1)}}, []float64{20 + 7},
		},
		"CreatedLongBeforeItsPolicy": {
			func(w *written, s *fixture) {
				w.meta.CreationTimestamp = metav1.NewTime(start.Add(-time.Hour))
				s.loop.arrivals.created(web, s.binding())
			},
			[2][]workOption{{made(1), appliedAt(1)}, {made(1), appliedAt(1)}}, []float64{7},
		},
		"Changed": {
			func(w *written, _ *fixture) { w.follower(deployment, template("u", 1, start), template("u", 2, start)) },
			[2][]workOption{{made(2), appliedAt(1)}, {made(2), appliedAt(1)}}, []float64{7},
		},
		"OneMemberLacksIt": {
			func(w *written, _ *fixture) { w.follower(deployment, template("u", 1, start), template("u", 2, start)) },
			[2][]workOption{{made(2), appliedAt(1)}, {made(2), failed("refused")}}, nil,
		},
		"OneWorkIsNotRendered": {
			func(w *written, _ *fixture) { w.follower(deployment, template("u", 1, start), template("u", 2, start)) },
			[2][]workOption{{made(2), appliedAt(1)}, {made(1), appliedAt(1)}}, nil,
		},
		"OneWorkIsNotAppliedSince": {
			func(w *written, _ *fixture) { w.follower(deployment, template("u", 1, start), template("u", 2, start)) },
			[2][]workOption{{made(2), appliedAt(1)}, {made(2), atGeneration(2), appliedAt(1)}}, nil,
		},
		"SameGeneration": {
			func(w *written, _ *fixture) { w.follower(deployment, template("u", 2, start), template("u", 2, start)) },
			[2][]workOption{{made(2), appliedAt(1)}, {made(2), appliedAt(1)}}, nil,
		},
		"Deleted": {
			func(w *written, _ *fixture) {
				w.follower(deployment, template("u", 1, start), template("u", 2, start))
				w.follower(deployment, template("u", 2, start), nil)
			},
			[2][]workOption{{made(2), appliedAt(1)}, {made(2), appliedAt(1)}}, nil,
		},
		"AnotherOfThatName": {
			func(w *written, _ *fixture) { w.follower(deployment, template("u", 5, start), template("v", 1, start)) },
			[2][]workOption{{made(2), appliedAt(1)}, {made(2), appliedAt(1)}}, nil,
		},
		"BeforeAStart": {func(*written, *fixture) {}, [2][]workOption{{made(2), appliedAt(1)}, {made(2), appliedAt(1)}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := binding()
			b.CreationTimestamp = metav1.NewTime(start)
			s := newFixture(t, b, work("a", tc.works[0]...), work("b", tc.works[1]...))
			w, registry := &written{meta: template("u", 1, start.Add(-20*time.Second))}, prometheus.NewRegistry()
			s.loop.arrivals = newArrivals(w, registry, s.clock)
			tc.write(w, s)
			s.clock.SetTime(start.Add(7 * time.Second))
			s.reconcile()
			s.clock.SetTime(start.Add(time.Hour))
			s.reconcile()
			count, sum := measured(t, registry)
			var want float64
			for _, seconds := range tc.want {
				want += seconds
			}
			if count != uint64(len(tc.want)) || sum != want {
				t.Errorf("measured %d times, %v s together, want %v", count, sum, tc.want)
			}
		})
	}
}

// TestArrivalsAreBounded: changes above the bound are not measured, and those that are noted go on.
func TestArrivalsAreBounded(t *testing.T) {
	a := &arrivals{underWay: map[Request]change{}}
	for i := range maxUnderWay + 10 {
		a.begin(Request{Namespace: "shop", Name: strconv.Itoa(i)}, change{})
	}
	a.begin(Request{Namespace: "shop", Name: "0"}, change{generation: 2})
	if len(a.underWay) != maxUnderWay || a.underWay[Request{Namespace: "shop", Name: "0"}].generation != 2 {
		t.Errorf("%d changes are noted, the first as %+v", len(a.underWay), a.underWay[Request{Namespace: "shop", Name: "0"}])
	}
}

func measured(t *testing.T, gatherer prometheus.Gatherer) (count uint64, sum float64) {
	t.Helper()
	families, err := gatherer.Gather()
	if err != nil || len(families) != 1 || families[0].GetType() != dto.MetricType_HISTOGRAM {
		t.Fatalf("gathered %v: %v", families, err)
	}
	h := families[0].Metric[0].Histogram
	return h.GetSampleCount(), h.GetSampleSum()
}
