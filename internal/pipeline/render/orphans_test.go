package render

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

func TestWorksBeforeTheirBindingWait(t *testing.T) {
	binding := nginxBinding("m1")
	s := newStage(t, threeClusters(binding)...)
	registry := prometheus.NewRegistry()
	s.reconciler.orphans = newOrphans(registry)
	s.mustReconcile(binding)
	s.vanish(binding)
	s.reconciler.lost.Clear() // a process that did not observe its deletion
	for range 2 {
		wantWrites(t, "it is unknown whether the binding was deleted", s.mustReconcile(binding))
	}
	if len(s.events) != 1 || s.events[0].Reason != events.WorkOrphaned || s.events[0].Object.Kind != "Work" {
		t.Errorf("events are %v, want one about the Work", s.events)
	}
	wantOrphans := func(reason string, n float64) {
		t.Helper()
		if got := testutil.ToFloat64(s.reconciler.orphans.count.WithLabelValues("m1")); got != n {
			t.Errorf("%s: %v orphans, want %v", reason, got, n)
		}
	}
	wantOrphans("while it waits", 1)
	restored := nginxBinding("m1")
	restored.ResourceVersion = ""
	if err := s.client.Create(t.Context(), restored); err != nil {
		t.Fatal(err)
	}
	wantWrites(t, "its binding comes and finds it as it should be", s.mustReconcile(restored))
	wantOrphans("with a binding", 0)
}

func TestWorksOfANamesakeWait(t *testing.T) {
	binding := nginxBinding("m1")
	s := newStage(t, threeClusters(binding)...)
	s.mustReconcile(binding)
	s.change(s.work("m1"), func() {})
	work := s.work("m1")
	s.change(work, func() { work.Labels[workv1alpha2.ResourceBindingPermanentIDLabel] = "of-a-backup" })
	s.reconciler.writes.Forget(client.ObjectKeyFromObject(work))
	s.vanish(binding)
	wantWrites(t, "the Work was made for an earlier binding of that name", s.mustReconcile(binding))
}

func TestBindingThatIsWantedGoesAlone(t *testing.T) {
	binding := nginxBinding("m1", "m2")
	s := newStage(t, threeClusters(binding)...)
	s.reconciler.deps.Wanted = func(context.Context, workv1alpha2.Binding) (bool, error) { return true, nil }
	s.mustReconcile(binding)
	if err := s.client.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	wantWrites(t, "its Works stay", s.mustReconcile(binding), "patch default/nginx-deployment")
	if len(s.events) != 1 || s.events[0].Reason != events.RestoreBinding {
		t.Errorf("events are %v, want one that says so", s.events)
	}
	s.vanish(binding)
	writes, result, err := s.reconcile(binding)
	if err != nil || result.RequeueAfter != returning {
		t.Errorf("got %v, %v, want another look in a moment", result, err)
	}
	wantWrites(t, "until the next binding comes", writes)
	s.reconciler.deps.Wanted = func(context.Context, workv1alpha2.Binding) (bool, error) { return false, nil }
	wantWrites(t, "none will come", s.mustReconcile(binding), "delete "+workM1, "delete "+workM2)
}

func TestKeeper(t *testing.T) {
	start := time.Unix(1000, 0)
	cases := map[string]struct {
		binding *workv1alpha2.ResourceBinding
		wanted  bool
		after   time.Duration
		change  func(*workv1alpha1.Work, *workv1alpha2.ResourceBinding)
		keeps   bool
		again   time.Duration
	}{
		"its binding orders it":               {binding: nginxBinding("m1"), keeps: true},
		"its binding left the cluster":        {binding: nginxBinding("m2")},
		"its binding is not scheduled yet":    {binding: nginxBinding(), change: func(_ *workv1alpha1.Work, b *workv1alpha2.ResourceBinding) { b.Status.SchedulerObservedGeneration = 0 }, keeps: true},
		"its binding goes and comes back":     {binding: goingBinding("m1"), wanted: true, keeps: true},
		"its binding goes for good":           {binding: goingBinding("m1")},
		"its binding went at the same moment": {after: grace / 2, again: returning},
		"it has no binding":                   {after: 2 * grace},
		"it is a copy":                        {binding: nginxBinding("m1"), change: func(w *workv1alpha1.Work, _ *workv1alpha2.ResourceBinding) { w.Name = "copy" }},
		"it was made by hand":                 {binding: nginxBinding("m1"), change: func(w *workv1alpha1.Work, _ *workv1alpha2.ResourceBinding) { w.Annotations = nil }},
		"its template is gone":                {binding: nginxBinding("m1"), change: func(_ *workv1alpha1.Work, b *workv1alpha2.ResourceBinding) { b.Spec.Resource.Name = "other" }},
	}
	for reason, c := range cases {
		t.Run(reason, func(t *testing.T) {
			work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
				Namespace: "karmada-es-m1", Name: workv1alpha1.WorkName("Deployment", "default", "nginx"), DeletionTimestamp: &metav1.Time{Time: start},
				Annotations: map[string]string{
					workv1alpha2.ResourceBindingNamespaceAnnotation: "default", workv1alpha2.ResourceBindingNameAnnotation: "nginx-deployment",
				},
			}}
			if c.change != nil {
				c.change(work, c.binding)
			}
			var objects []client.Object
			if c.binding != nil {
				objects = append(objects, c.binding)
			}
			s := newStage(t, objects...)
			keeper := Keeper{
				Reader: s.client, Clock: clocktesting.NewFakePassiveClock(start.Add(c.after)),
				Wanted:    func(context.Context, workv1alpha2.Binding) (bool, error) { return c.wanted, nil },
				Templates: s.templates,
			}
			keeps, again, err := keeper.Keeps(t.Context(), work)
			if err != nil || keeps != c.keeps || again != c.again {
				t.Errorf("got %v, %v, %v, want %v, %v", keeps, again, err, c.keeps, c.again)
			}
		})
	}
}

func goingBinding(clusters ...string) *workv1alpha2.ResourceBinding {
	binding := nginxBinding(clusters...)
	binding.DeletionTimestamp = &metav1.Time{Time: time.Unix(999, 0)}
	return binding
}
