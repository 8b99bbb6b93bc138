package restore

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
)

func TestDecide(t *testing.T) {
	since := metav1.NewTime(time.Date(2026, 11, 24, 4, 58, 12, 0, time.UTC))
	held := clusterv1alpha1.DispatchingHeld(clusterv1alpha1.ControlPlaneRestoredReason, "restored")
	resumed := clusterv1alpha1.DispatchingResumed()
	held.LastTransitionTime, resumed.LastTransitionTime = since, since
	const hold, resume, only = clusterv1alpha1.HoldDispatchingAnnotation, clusterv1alpha1.ResumeDispatchingAnnotation, clusterv1alpha1.ResumeOperationsAnnotation
	everything := member.HoldEverything
	before, after := since.Add(-time.Hour).Format(time.RFC3339), since.Add(time.Second).Format(time.RFC3339)
	for name, c := range map[string]struct {
		condition   *metav1.Condition
		annotations map[string]string
		counts      epochs
		want        decision
	}{
		"Fresh":                       {nil, nil, epochs{1, 1, true, false}, decision{}},
		"TheMemberIsBehind":           {nil, nil, epochs{2, 1, true, false}, decision{}},
		"Restored":                    {nil, nil, epochs{1, 2, true, false}, decision{held: true, hold: everything}},
		"AnotherOneCountsThere":       {nil, nil, epochs{2, 2, true, true}, decision{held: true, hold: everything}},
		"RestoredAndReported":         {&held, nil, epochs{1, 2, true, false}, decision{held: true, stated: true, hold: everything}},
		"Resumed":                     {&held, map[string]string{resume: after}, epochs{1, 2, true, false}, decision{held: true, stated: true, resume: true, hold: everything}},
		"ResumedAndCountedOnly":       {&held, map[string]string{resume: after}, epochs{3, 3, true, false}, decision{held: true, stated: true, resume: true, hold: everything}},
		"ResumedAndReported":          {&resumed, map[string]string{resume: after}, epochs{3, 3, true, false}, decision{}},
		"ResumedEarlier":              {&held, map[string]string{resume: before}, epochs{1, 2, true, false}, decision{held: true, stated: true, hold: everything}},
		"ByAnnotation":                {nil, map[string]string{hold: "audit"}, epochs{1, 1, true, false}, decision{held: true, hold: everything}},
		"TheAnnotationIsNotOverruled": {&held, map[string]string{hold: "audit", resume: after}, epochs{1, 1, true, false}, decision{held: true, stated: true, hold: everything}},
		"OnlyCreation":                {&held, map[string]string{only: after + " create"}, epochs{0, 2, true, false}, decision{held: true, stated: true, hold: member.Hold{Change: true, Delete: true}}},
		"OnlyTwo":                     {&held, map[string]string{only: after + " create,change"}, epochs{0, 2, true, false}, decision{held: true, stated: true, hold: member.Hold{Delete: true}}},
		"NoOperation":                 {&held, map[string]string{only: after + " everything"}, epochs{0, 2, true, false}, decision{held: true, stated: true, hold: everything}},
		"NoTime":                      {&held, map[string]string{only: "create"}, epochs{0, 2, true, false}, decision{held: true, stated: true, hold: everything}},
		"OnlyEarlier":                 {&held, map[string]string{only: before + " create"}, epochs{0, 2, true, false}, decision{held: true, stated: true, hold: everything}},
		"AnImportedControlPlaneMayDoAPart": {&held, map[string]string{hold: "import", only: after + " create"}, epochs{0, 0, true, false},
			decision{held: true, stated: true, hold: member.Hold{Change: true, Delete: true}}},
		// All of it was in the backup.
		"RestoredWhileResumedInPart": {&held, map[string]string{only: after + " create"}, epochs{0, 2, false, false}, decision{held: true, hold: everything}},
		"RestoredAfterResume":        {&held, map[string]string{resume: after}, epochs{0, 2, false, false}, decision{held: true, hold: everything}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Annotations: c.annotations}}
			if c.condition != nil {
				meta.SetStatusCondition(&cluster.Status.Conditions, *c.condition)
			}
			if got := decide(cluster, c.counts); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
