package agentevents

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

func TestSuccesses(t *testing.T) {
	const generation = 2
	web := workv1alpha1.ManifestStatus{
		Identifier: workv1alpha1.ResourceIdentifier{Kind: "Deployment", Namespace: "shop", Name: "web"},
		Status:     &runtime.RawExtension{Raw: []byte(`{}`)}, Health: workv1alpha1.ResourceHealthy,
	}
	role := workv1alpha1.ManifestStatus{Identifier: workv1alpha1.ResourceIdentifier{Kind: "ClusterRole", Name: "reader"}, Health: workv1alpha1.ResourceUnknown}
	failed := workv1alpha1.Applied(generation)
	failed.Status = metav1.ConditionFalse
	for name, tc := range map[string]struct {
		status workv1alpha1.WorkStatus
		want   []string
	}{
		"Nothing": {workv1alpha1.WorkStatus{}, nil},
		"Applied": {
			workv1alpha1.WorkStatus{Conditions: []metav1.Condition{workv1alpha1.Dispatching(generation), workv1alpha1.Applied(generation)}},
			[]string{"WorkDispatching: " + workv1alpha1.DispatchingMessage, "SyncSucceed: 1 manifests are applied"},
		},
		"AppliedBefore": {workv1alpha1.WorkStatus{Conditions: []metav1.Condition{workv1alpha1.Applied(generation - 1)}}, nil},
		"Failed":        {workv1alpha1.WorkStatus{Conditions: []metav1.Condition{failed}}, nil},
		"Suspended": {
			workv1alpha1.WorkStatus{Conditions: []metav1.Condition{workv1alpha1.DispatchingSuspended(generation), workv1alpha1.Applied(generation)}},
			[]string{"WorkDispatching: " + workv1alpha1.SuspendDispatchingMessage},
		},
		"Reported": {
			workv1alpha1.WorkStatus{ManifestStatuses: []workv1alpha1.ManifestStatus{web, role}},
			[]string{"ReflectStatusSucceed: The status of Deployment shop/web is read", "InterpretHealthSucceed: Deployment shop/web is Healthy"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			work := &workv1alpha1.Work{Status: tc.status}
			work.Generation, work.Spec.Workload.Manifests = generation, make([]workv1alpha1.Manifest, 1)
			var got []string
			for _, e := range successes(work) {
				if !e.InMemory {
					t.Errorf("%s would be stored", e.Reason)
				}
				got = append(got, e.Reason+": "+e.Message)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
