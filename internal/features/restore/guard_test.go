package restore

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

func TestDecide(t *testing.T) {
	since := metav1.NewTime(time.Date(2026, 11, 24, 4, 58, 12, 0, time.UTC))
	held := clusterv1alpha1.DispatchingHeld(clusterv1alpha1.ControlPlaneRestoredReason, "restored")
	resumed := clusterv1alpha1.DispatchingResumed()
	held.LastTransitionTime, resumed.LastTransitionTime = since, since
	const hold, resume = clusterv1alpha1.HoldDispatchingAnnotation, clusterv1alpha1.ResumeDispatchingAnnotation
	before, after := since.Add(-time.Hour).Format(time.RFC3339), since.Add(time.Second).Format(time.RFC3339)
	for name, c := range map[string]struct {
		condition   *metav1.Condition
		annotations map[string]string
		own, theirs int32
		want        decision
	}{
		"Fresh":                       {nil, nil, 1, 1, decision{}},
		"TheMemberIsBehind":           {nil, nil, 2, 1, decision{}},
		"Restored":                    {nil, nil, 1, 2, decision{held: true}},
		"RestoredAndReported":         {&held, nil, 1, 2, decision{held: true, stated: true}},
		"Resumed":                     {&held, map[string]string{resume: after}, 1, 2, decision{held: true, stated: true, resume: true}},
		"ResumedAndCountedOnly":       {&held, map[string]string{resume: after}, 3, 3, decision{held: true, stated: true, resume: true}},
		"ResumedAndReported":          {&resumed, map[string]string{resume: after}, 3, 3, decision{}},
		"ResumedEarlier":              {&held, map[string]string{resume: before}, 1, 2, decision{held: true, stated: true}},
		"ByAnnotation":                {nil, map[string]string{hold: "audit"}, 1, 1, decision{held: true}},
		"TheAnnotationIsNotOverruled": {&held, map[string]string{hold: "audit", resume: after}, 1, 1, decision{held: true, stated: true}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Annotations: c.annotations}}
			if c.condition != nil {
				meta.SetStatusCondition(&cluster.Status.Conditions, *c.condition)
			}
			if got := decide(cluster, c.own, c.theirs); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
