package aggregate

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// present is the run of the template of the fixture, and earlier the one before.
const present, earlier = "u/5", "u/4"

// ended is a copy that ended a run.
func ended(run string) workOption {
	return func(w *workv1alpha1.Work) {
		appliedAt(1)(w)
		reporting(`{"over":true}`, workv1alpha1.ResourceHealthy)(w)
		w.Status.ManifestStatuses[0].Finished = run
	}
}

func removed(w *workv1alpha1.Work) { w.Status.ManifestStatuses[0].Removed = true }

func running(w *workv1alpha1.Work) {
	appliedAt(1)(w)
	reporting(`{}`, workv1alpha1.ResourceHealthy)(w)
}

// recording is a binding to a and b with the record of a run.
func recording(run string, clusters ...string) *workv1alpha2.ResourceBinding {
	b := binding()
	b.Annotations = workv1alpha2.SetFinished(nil, workv1alpha2.Finished{Run: run, Clusters: clusters, Time: metav1.NewTime(start.Add(-time.Hour))})
	return b
}

func TestRunsThatClustersReport(t *testing.T) {
	for name, tc := range map[string]struct {
		works    []*workv1alpha1.Work
		finished map[string]string
		removed  []string
	}{
		"none ended":        {works: []*workv1alpha1.Work{work("a", running), work("b", running)}},
		"one ended":         {works: []*workv1alpha1.Work{work("a", ended(present)), work("b", running)}, finished: map[string]string{"a": present}},
		"of several runs":   {works: []*workv1alpha1.Work{work("a", ended(present)), work("b", ended(earlier))}, finished: map[string]string{"a": present, "b": earlier}},
		"one is gone":       {works: []*workv1alpha1.Work{work("a", ended(present)), work("b", ended(present), removed)}, finished: map[string]string{"a": present, "b": present}, removed: []string{"b"}},
		"of another object": {works: []*workv1alpha1.Work{work("a", ended(present), beside)}},
		"in another place":  {works: []*workv1alpha1.Work{work("c", ended(present))}},
		"nothing reported":  {works: []*workv1alpha1.Work{work("a")}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := specWith("a", "b")
			got := Fold(&spec, tc.works)
			if diff := cmp.Diff(tc.finished, got.Finished) + cmp.Diff(tc.removed, got.Removed); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// beside makes the object that ended one of two others that are in the Work.
func beside(w *workv1alpha1.Work) {
	w.Status.ManifestStatuses[0].Identifier.Name = "other"
	w.Status.ManifestStatuses = append(w.Status.ManifestStatuses, workv1alpha1.ManifestStatus{})
}

func TestTheBindingRecordsWhereARunEnded(t *testing.T) {
	for name, tc := range map[string]struct {
		binding *workv1alpha2.ResourceBinding
		works   []*workv1alpha1.Work
		edit    func(*fixture)
		want    []string // the clusters; nil for no record
		kept    bool     // the record is as it was
	}{
		"nothing ended":               {works: []*workv1alpha1.Work{work("a", running), work("b", running)}},
		"one ended":                   {works: []*workv1alpha1.Work{work("a", running), work("b", ended(present))}, want: []string{"b"}},
		"all ended":                   {works: []*workv1alpha1.Work{work("b", ended(present)), work("a", ended(present))}, want: []string{"a", "b"}},
		"an earlier run":              {works: []*workv1alpha1.Work{work("a", ended(earlier)), work("b", running)}},
		"a run that was made up":      {works: []*workv1alpha1.Work{work("a", ended("u")), work("b", ended("u/500"))}},
		"one more":                    {binding: recording(present, "a"), works: []*workv1alpha1.Work{work("a", ended(present)), work("b", ended(present))}, want: []string{"a", "b"}},
		"no more":                     {binding: recording(present, "a"), works: []*workv1alpha1.Work{work("a", ended(present)), work("b", running)}, want: []string{"a"}, kept: true},
		"the Work is gone":            {binding: recording(present, "a"), works: []*workv1alpha1.Work{work("b", running)}, want: []string{"a"}, kept: true},
		"its cluster was left":        {binding: recording(present, "c"), works: []*workv1alpha1.Work{work("a", running), work("b", ended(present))}, want: []string{"b", "c"}},
		"the next run":                {binding: recording(earlier, "a", "b"), works: []*workv1alpha1.Work{work("a", ended(earlier)), work("b", ended(earlier))}},
		"the next run, and its end":   {binding: recording(earlier, "a", "b"), works: []*workv1alpha1.Work{work("a", ended(present)), work("b", ended(earlier))}, want: []string{"a"}},
		"a record of another object":  {binding: recording("v/5", "a"), works: []*workv1alpha1.Work{work("a", running), work("b", running)}},
		"the template is gone":        {binding: recording(present, "a"), works: []*workv1alpha1.Work{work("b", ended(present))}, edit: func(s *fixture) { s.templates.object = nil }, want: []string{"a"}, kept: true},
		"the template is another one": {binding: recording(present, "a"), works: []*workv1alpha1.Work{work("b", ended(present))}, edit: func(s *fixture) { s.templates.object.SetUID("v") }, want: []string{"a"}, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := tc.binding
			if b == nil {
				b = binding()
			}
			s := newFixture(t, b, tc.works...)
			if tc.edit != nil {
				tc.edit(s)
			}
			s.clock.SetTime(start.Add(time.Minute))
			s.settle()
			got := workv1alpha2.FinishedOf(s.binding())
			if !slices.Equal(got.Clusters, tc.want) || len(tc.want) > 0 && got.Run != present {
				t.Errorf("it records %+v, want %v", got, tc.want)
			}
			if text, has := s.binding().Annotations[workv1alpha2.FinishedAnnotation]; has != (len(tc.want) > 0) {
				t.Errorf("the annotation is %q", text)
			}
			if changed := got.Time.After(start); len(tc.want) > 0 && changed == tc.kept {
				t.Errorf("it is of %s", got.Time)
			}
			version := s.binding().ResourceVersion
			s.settle()
			if again := s.binding().ResourceVersion; again != version {
				t.Error("it is written again")
			}
		})
	}
}

// settle reconciles until nothing is held back any more.
func (s *fixture) settle() {
	s.t.Helper()
	for range 9 {
		wait := s.reconcile()
		if wait == 0 {
			return
		}
		s.clock.SetTime(s.clock.Now().Add(wait))
	}
	s.t.Fatal("it does not settle")
}

// TestTheRecordFollowsTheStatus: the record has the status of the template stay as it is, so that the status of the end comes first.
func TestTheRecordFollowsTheStatus(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{}, "web", errors.New("changed"))
	for name, fail := range map[string]func(*fixture, error){
		"the binding":  func(s *fixture, err error) { s.refuse = err },
		"the template": func(s *fixture, err error) { s.templates.fail = err },
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, binding(), work("a", ended(present)), work("b", ended(present)))
			fail(s, conflict)
			if again := s.reconcile(); again == 0 {
				t.Error("a conflict is not tried again")
			}
			if text := s.binding().Annotations[workv1alpha2.FinishedAnnotation]; text != "" {
				t.Errorf("the record comes before the status: %s", text)
			}
			fail(s, nil)
			s.settle()
			if got := workv1alpha2.FinishedOf(s.binding()); !slices.Equal(got.Clusters, []string{"a", "b"}) {
				t.Errorf("it records %+v", got)
			}
		})
	}
}

// TestABindingThatIsGoneHasNoRecord: it was deleted while its status was written.
func TestABindingThatIsGoneHasNoRecord(t *testing.T) {
	s := newFixture(t, binding(), work("a", ended(present)), work("b", ended(present)))
	s.refuse = apierrors.NewNotFound(schema.GroupResource{}, "web")
	s.reconcile()
	if text := s.binding().Annotations[workv1alpha2.FinishedAnnotation]; text != "" {
		t.Errorf("it is written to: %s", text)
	}
}

// TestAnUnstableSummaryDelaysNoRecord of what is in the status already: nothing would reconcile the binding again.
func TestAnUnstableSummaryDelaysNoRecord(t *testing.T) {
	s := newFixture(t, binding(), work("a", running), work("b"))
	s.settle()
	s.report("a", ended(present), func(w *workv1alpha1.Work) { w.Status.ManifestStatuses[0].Status.Raw = []byte(`{}`) })
	s.loop.pace.changed(web)
	s.settle()
	if got := workv1alpha2.FinishedOf(s.binding()); !slices.Equal(got.Clusters, []string{"a"}) {
		t.Errorf("it records %+v", got)
	}
}

func TestTheStatusOfATemplateThatIsOverStays(t *testing.T) {
	isOver := func(s *fixture) {
		s.templates.object.Object["status"] = map[string]any{"applied": "a,b", "over": true}
	}
	for name, tc := range map[string]struct {
		binding *workv1alpha2.ResourceBinding
		edit    func(*workv1alpha2.ResourceBinding)
		status  func(*fixture)
		want    string // the clusters that the status counts
	}{
		"ended everywhere":             {recording(present, "a", "b"), nil, isOver, "a,b"},
		"one runs":                     {recording(present, "a"), nil, isOver, "a"},
		"of an earlier run":            {recording(earlier, "a", "b"), nil, isOver, "a"},
		"its status is not of the end": {recording(present, "a", "b"), nil, func(*fixture) {}, "a"},
		"a cluster of a dependant runs": {recording(present, "a", "b"), func(b *workv1alpha2.ResourceBinding) {
			b.Spec.RequiredBy = []workv1alpha2.BindingSnapshot{{Clusters: targetsOf("c")}}
		}, isOver, "a"},
		"a cluster that is left runs": {recording(present, "a", "b"), func(b *workv1alpha2.ResourceBinding) {
			b.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{{FromCluster: "c", PurgeMode: policyv1alpha1.PurgeModeGracefully}}
		}, isOver, "a"},
		"in no cluster any more": {recording(present, "a"), func(b *workv1alpha2.ResourceBinding) { b.Spec.Clusters = nil }, isOver, "a,b"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.edit != nil {
				tc.edit(tc.binding)
			}
			s := newFixture(t, tc.binding, work("a", ended(present), removed), work("b"))
			tc.status(s)
			s.settle()
			if got, _, _ := unstructured.NestedString(s.templates.object.Object, "status", "applied"); got != tc.want {
				t.Errorf("the status counts %q, want %q", got, tc.want)
			}
			want := "The copy ran to its end and was removed in a: it is not made again there, and its status stays"
			if published := slices.ContainsFunc(s.events, func(e string) bool { return strings.HasSuffix(e, want) }); published != (len(tc.binding.Spec.Clusters) > 0) {
				t.Errorf("the events are %q", s.events)
			}
		})
	}
}

func targetsOf(names ...string) []workv1alpha2.TargetCluster {
	spec := specWith(names...)
	return spec.Clusters
}
