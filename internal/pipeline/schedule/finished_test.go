package schedule_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule"
)

// ranIn records that clusters ended the run of the template, which has the uid u.
func ranIn(clusters ...string) func(*workv1alpha2.ResourceBinding) {
	return func(b *workv1alpha2.ResourceBinding) {
		b.Spec.Resource.UID = "u"
		b.Annotations = workv1alpha2.SetFinished(b.Annotations, workv1alpha2.Finished{Run: "u", Clusters: clusters})
	}
}

func in(clusters ...string) func(*workv1alpha2.ResourceBinding) {
	return func(b *workv1alpha2.ResourceBinding) {
		for _, name := range clusters {
			b.Spec.Clusters = append(b.Spec.Clusters, workv1alpha2.TargetCluster{Name: name})
		}
	}
}

func TestWhatEndedEverywhereIsOver(t *testing.T) {
	some := affinity(named("m1", "m2"))
	inTerms := term("near", named("m1", "m2"))
	type edits = []func(*workv1alpha2.ResourceBinding)
	for name, tc := range map[string]struct {
		placement *policyv1alpha1.Placement
		edits     edits
		want      bool
	}{
		"divided, by static weights":         {placement(static("m1", 1, "m2", 1)), edits{in("m1", "m2"), ranIn("m1", "m2")}, true},
		"divided, by available replicas":     {placement(dynamic), edits{in("m1", "m2"), ranIn("m1", "m2")}, true},
		"aggregated":                         {placement(aggregated), edits{in("m1"), ranIn("m1")}, true},
		"divided, one still runs":            {placement(dynamic), edits{in("m1", "m2"), ranIn("m1")}, false},
		"divided, nothing ended":             {placement(dynamic), edits{in("m1", "m2"), ranIn()}, false},
		"divided, not placed yet":            {placement(dynamic), edits{ranIn()}, false},
		"divided, its clusters are gone":     {placement(dynamic), edits{ranIn("m1")}, true},
		"divided, it ended elsewhere, too":   {placement(dynamic), edits{in("m1"), ranIn("m1", "m2")}, true},
		"divided, of an earlier template":    {placement(dynamic), edits{in("m1"), ranIn("m1"), func(b *workv1alpha2.ResourceBinding) { b.Spec.Resource.UID = "v" }}, false},
		"in every cluster":                   {placement(duplicated), edits{in("m1", "m2"), ranIn("m1", "m2")}, false},
		"in every cluster that is selected":  {placement(duplicated, some), edits{in("m1", "m2"), ranIn("m1", "m2")}, false},
		"in every cluster, nothing said":     {nil, edits{in("m1", "m2"), ranIn("m1", "m2")}, false},
		"in some of the clusters":            {placement(duplicated, spread(byCluster, 1, 1)), edits{in("m1"), ranIn("m1")}, true},
		"in some, and one still runs":        {placement(duplicated, spread(byCluster, 2, 2)), edits{in("m1", "m2"), ranIn("m1")}, false},
		"in the clusters of one affinity":    {placement(duplicated, inTerms), edits{in("m1", "m2"), ranIn("m1", "m2")}, true},
		"a record that has no clusters left": {placement(dynamic), edits{in("m1"), annotated(workv1alpha2.FinishedAnnotation, `{"run":"u"}`)}, false},
		"a record that cannot be read":       {placement(dynamic), edits{in("m1"), annotated(workv1alpha2.FinishedAnnotation, `{`)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := schedule.IsOver(bindingOf("once", 2, tc.placement, tc.edits...)); got != tc.want {
				t.Errorf("it is over: %v, want %v", got, tc.want)
			}
		})
	}
}

// TestWhatIsOverStays where it ran, whatever becomes of the cluster, the placement or the number of replicas, and waits for nothing.
func TestWhatIsOverStays(t *testing.T) {
	for name, change := range map[string]func(*hub){
		"a better cluster": func(h *hub) { h.changeCluster("m2", available(900)) },
		"its cluster goes": func(h *hub) { h.changeCluster("m1", tainted("a", "b", "NoExecute")) },
		"another placement": func(h *hub) {
			h.change("once", func(b *workv1alpha2.ResourceBinding) { b.Spec.Placement = placement(aggregated, affinity(named("m2"))) })
		},
		"more replicas": func(h *hub) { h.change("once", func(b *workv1alpha2.ResourceBinding) { b.Spec.Replicas = 9 }) },
		"a request": func(h *hub) {
			h.change("once", func(b *workv1alpha2.ResourceBinding) {
				b.Spec.RescheduleTriggeredAt = b.Status.LastScheduledTime.DeepCopy()
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, member("m1"), member("m2"), bindingOf("once", 3, placement(aggregated, affinity(named("m1")))))
			h.reconcile("once")
			h.change("once", ranIn("m1"))
			change(h)
			h.writes, h.events = nil, nil
			if again := h.reconcile("once"); again != 0 {
				t.Errorf("it is scheduled again after %s", again)
			}
			h.expectTargets("once", name, targets("m1", 3))
			h.expect("only its generation is noted", statusOnly)
			h.reconcile("once")
			h.expect("once", nil)
		})
	}
}

// TestANewRunIsScheduled: what a binding skipped while the run before was over is caught up with when the record of that is removed.
func TestANewRunIsScheduled(t *testing.T) {
	h := newHub(t, member("m1"), member("m2"), bindingOf("once", 3, placement(aggregated, affinity(named("m1")))))
	h.reconcile("once")
	h.change("once", ranIn("m1"))
	h.change("once", func(b *workv1alpha2.ResourceBinding) { b.Spec.Replicas = 9 })
	h.reconcile("once")
	before := h.binding("once")
	after := before.DeepCopy()
	after.Annotations = workv1alpha2.SetFinished(after.Annotations, workv1alpha2.Finished{})
	if !schedule.Matters(before, after) {
		t.Error("the scheduler does not follow the record")
	}
	if err := h.client.Update(t.Context(), after); err != nil {
		t.Fatal(err)
	}
	h.reconcile("once")
	h.expectTargets("once", "the new run", targets("m1", 9))
}

// TestWhatIsOverWaitsForNothing: a binding that found no place, and ended elsewhere since, is not tried again when capacity is freed.
func TestWhatIsOverWaitsForNothing(t *testing.T) {
	h := newHub(t, member("m1", available(2)), bindingOf("once", 3, placement(dynamic)))
	key := types.NamespacedName{Namespace: "shop", Name: "once"}
	if again := h.reconcile("once"); again != 5*time.Minute || !h.controller.Waits(key) {
		t.Fatalf("without a place it is scheduled again after %s, and waits: %v", again, h.controller.Waits(key))
	}
	h.change("once", ranIn("m1"))
	if again := h.reconcile("once"); again != 0 || h.controller.Waits(key) {
		t.Errorf("it is scheduled again after %s, and waits: %v", again, h.controller.Waits(key))
	}
}
