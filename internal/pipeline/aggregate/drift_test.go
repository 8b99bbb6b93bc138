package aggregate

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// TestDriftOfABinding: the condition has how many copies differ and since when, is written only when it changes, and goes with the last of them.
func TestDriftOfABinding(t *testing.T) {
	at := func(minute int) metav1.Time { return metav1.NewTime(time.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC)) }
	work := func(cluster string, since *metav1.Time) *workv1alpha1.Work {
		w := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: workv1alpha1.ExecutionNamespace(cluster), Name: "w"}}
		if since != nil {
			c := workv1alpha1.Drifted(1, workv1alpha1.DriftPausedReason)
			c.LastTransitionTime = *since
			meta.SetStatusCondition(&w.Status.Conditions, c)
		}
		return w
	}
	spec := &workv1alpha2.ResourceBindingSpec{Clusters: []workv1alpha2.TargetCluster{{Name: "a"}, {Name: "b"}, {Name: "c"}}}
	early, late := at(4), at(9)
	summary := Fold(spec, []*workv1alpha1.Work{work("a", &late), work("b", &early), work("c", nil), work("d", &early)})
	var conditions []metav1.Condition
	if summary.sameDrift(conditions) {
		t.Fatal("the condition is not missing")
	}
	summary.setDrift(&conditions, 7)
	c := meta.FindStatusCondition(conditions, workv1alpha2.Drifted)
	const want = "driftedObjects: 2, oldest: 2026-01-02T03:04:00Z, clusters: a, b"
	if c == nil || c.Status != metav1.ConditionTrue || c.Message != want || !c.LastTransitionTime.Equal(&early) || c.ObservedGeneration != 7 {
		t.Errorf("the condition is %+v, want %q", c, want)
	}
	if !summary.sameDrift(conditions) {
		t.Error("the condition would be written again")
	}
	calm := Fold(spec, []*workv1alpha1.Work{work("a", nil)})
	if calm.sameDrift(conditions) {
		t.Error("the condition would stay")
	}
	if calm.setDrift(&conditions, 7); len(conditions) != 0 || !calm.sameDrift(conditions) {
		t.Errorf("there are conditions: %+v", conditions)
	}
}
