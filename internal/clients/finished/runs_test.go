package finished_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/finished"
	"github.com/flagship-k8s/flagship/internal/clients/member/objectcache"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin"
)

func job(t *testing.T, uid, generation, status string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(`{apiVersion: batch/v1, kind: Job, metadata: {name: once, namespace: shop, annotations: {
		resourcetemplate.karmada.io/uid: `+uid+`, resourcetemplate.karmada.io/generation: "`+generation+`"}}, status: `+status+`}`), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

const complete = `{succeeded: 1, conditions: [{type: Complete, status: "True"}]}`

// TestWhatEndedIsNotMadeAgain: for the same template, whoever says so: the Work's status, its annotation, or the last state of the object.
func TestWhatEndedIsNotMadeAgain(t *testing.T) {
	key := types.NamespacedName{Namespace: "karmada-es-member1", Name: "once"}
	reported := func(w *workv1alpha1.Work) {
		w.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{
			Identifier: workv1alpha1.ResourceIdentifier{Group: "batch", Version: "v1", Kind: "Job", Namespace: "shop", Name: "once"}, Finished: "a",
		}}
	}
	for name, test := range map[string]struct {
		last            string // the state in which the object went
		work            func(*workv1alpha1.Work)
		uid, generation string
		want            bool
	}{
		"Nothing":              {uid: "a", generation: "1"},
		"Reported":             {work: reported, uid: "a", generation: "1", want: true},
		"ReportedOtherUID":     {work: reported, uid: "b", generation: "1"},
		"JobOfNewGeneration":   {work: reported, uid: "a", generation: "2", want: true},
		"WentComplete":         {last: complete, uid: "a", generation: "1", want: true},
		"WentCompleteOtherUID": {last: complete, uid: "b", generation: "1"},
		"WentRunning":          {last: `{active: 1}`, uid: "a", generation: "1"},
		"EndedBeforeItLeft": {work: func(w *workv1alpha1.Work) {
			w.Annotations = map[string]string{workv1alpha1.FinishedAnnotation: "a"}
		}, uid: "a", generation: "1", want: true},
		"OtherObject": {work: func(w *workv1alpha1.Work) {
			reported(w)
			w.Status.ManifestStatuses[0].Identifier.Name = "other"
		}, uid: "a", generation: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			runs := finished.New(interpret.Chain(builtin.New(clocktesting.NewFakePassiveClock(time.Time{}))))
			work := &workv1alpha1.Work{}
			work.Namespace, work.Name = key.Namespace, key.Name
			if test.work != nil {
				test.work(work)
			}
			if test.last != "" {
				runs.Changed(t.Context(), objectcache.Change{Work: key, Gone: true, Last: func() (*unstructured.Unstructured, bool) { return job(t, "a", "1", test.last), true }})
			}
			status := runs.Status(work, job(t, test.uid, test.generation, "{}"))
			if (status != nil) != test.want {
				t.Errorf("it is known as ended: %+v, want %v", status, test.want)
			}
			if test.last == complete && test.want && (status.Status == nil || !status.Removed || status.Health != workv1alpha1.ResourceHealthy) {
				t.Errorf("its last status is %+v", status)
			}
			runs.Forget(key)
			if test.last != "" && runs.Status(work, job(t, "a", "1", "{}")) != nil {
				t.Error("it is known of a Work that is gone")
			}
		})
	}
}

// TestARunIsOfATemplate: an object that names no template has no run that could be held against another.
func TestARunIsOfATemplate(t *testing.T) {
	runs := finished.New(interpret.Chain(builtin.New(clocktesting.NewFakePassiveClock(time.Time{}))))
	stray := job(t, "a", "1", complete)
	stray.SetAnnotations(nil)
	if run, err := runs.Of(t.Context(), stray); run != "" || err != nil {
		t.Errorf("the run is %q, %v", run, err)
	}
}

// TestAReportOfOneObjectLeavesTheOthers: a Work may have several, and report one of them first.
func TestAReportOfOneObjectLeavesTheOthers(t *testing.T) {
	runs := finished.New(interpret.Chain(builtin.New(clocktesting.NewFakePassiveClock(time.Time{}))))
	work := &workv1alpha1.Work{}
	work.Namespace, work.Name = "karmada-es-member1", "both"
	first, second := job(t, "a", "1", complete), job(t, "b", "1", complete)
	second.SetName("twice")
	for _, gone := range []*unstructured.Unstructured{first, second} {
		runs.Changed(t.Context(), objectcache.Change{
			Work: types.NamespacedName{Namespace: work.Namespace, Name: work.Name}, Gone: true, Last: func() (*unstructured.Unstructured, bool) { return gone, true },
		})
	}
	work.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{
		Identifier: workv1alpha1.ResourceIdentifier{Group: "batch", Version: "v1", Kind: "Job", Namespace: "shop", Name: "once"}, Finished: "a",
	}}
	if runs.Status(work, first) == nil || runs.Status(work, second) == nil {
		t.Error("one of two objects that ran to their end would be made again")
	}
	work.Status.ManifestStatuses = nil
	if runs.Status(work, first) != nil {
		t.Error("what the Work has reported is kept for ever")
	}
}
