package remedy

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	remedyv1alpha1 "github.com/flagship-k8s/flagship/api/remedy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

func clusterWith(status metav1.ConditionStatus) *clusterv1alpha1.Cluster {
	c := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "eu"}}
	if status != "" {
		c.Status.Conditions = []metav1.Condition{{Type: clusterv1alpha1.ServiceDomainNameResolutionReady, Status: status}}
	}
	return c
}

func when(operator remedyv1alpha1.ClusterConditionOperator, status string) remedyv1alpha1.DecisionMatch {
	return remedyv1alpha1.DecisionMatch{ClusterConditionMatch: &remedyv1alpha1.ClusterConditionRequirement{
		ConditionType: clusterv1alpha1.ServiceDomainNameResolutionReady, Operator: operator, ConditionStatus: status}}
}

func of(spec remedyv1alpha1.RemedySpec) remedyv1alpha1.Remedy {
	return remedyv1alpha1.Remedy{Spec: spec}
}

func TestActionsFor(t *testing.T) {
	const equal, notEqual = remedyv1alpha1.ClusterConditionEqual, remedyv1alpha1.ClusterConditionNotEqual
	control := []remedyv1alpha1.RemedyAction{remedyv1alpha1.TrafficControl}
	matching := func(situations ...remedyv1alpha1.DecisionMatch) remedyv1alpha1.Remedy {
		return of(remedyv1alpha1.RemedySpec{Actions: control, DecisionMatches: situations})
	}
	named := func(names ...string) remedyv1alpha1.Remedy {
		return of(remedyv1alpha1.RemedySpec{Actions: control, ClusterAffinity: &remedyv1alpha1.ClusterAffinity{ClusterNames: names}})
	}
	leaving := matching()
	leaving.DeletionTimestamp = &metav1.Time{}
	yes := []string{"TrafficControl"}
	tests := map[string]struct {
		status   metav1.ConditionStatus
		remedies []remedyv1alpha1.Remedy
		want     []string
	}{
		"none":                               {"False", nil, []string{}},
		"always":                             {"", []remedyv1alpha1.Remedy{matching()}, yes},
		"equal":                              {"False", []remedyv1alpha1.Remedy{matching(when(equal, "False"))}, yes},
		"not equal":                          {"Unknown", []remedyv1alpha1.Remedy{matching(when(notEqual, "True"))}, yes},
		"no match":                           {"True", []remedyv1alpha1.Remedy{matching(when(equal, "False"), when(notEqual, "True"))}, []string{}},
		"one match is enough":                {"Unknown", []remedyv1alpha1.Remedy{matching(when(equal, "False"), when(equal, "Unknown"))}, yes},
		"an absent condition does not match": {"", []remedyv1alpha1.Remedy{matching(when(notEqual, "True"))}, []string{}},
		"a situation without a condition neither": {"False", []remedyv1alpha1.Remedy{matching(remedyv1alpha1.DecisionMatch{})}, []string{}},
		"this cluster":                   {"", []remedyv1alpha1.Remedy{named("us", "eu")}, yes},
		"other clusters":                 {"", []remedyv1alpha1.Remedy{named("us"), named()}, []string{}},
		"a Remedy that is being deleted": {"", []remedyv1alpha1.Remedy{leaving}, []string{}},
		"sorted, each once": {"", []remedyv1alpha1.Remedy{
			of(remedyv1alpha1.RemedySpec{Actions: []remedyv1alpha1.RemedyAction{"TrafficControl", "Alert"}}), matching()}, []string{"Alert", "TrafficControl"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, actionsFor(clusterWith(test.status), test.remedies)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReconcileWritesItsFieldOnly(t *testing.T) {
	cluster := clusterWith("False")
	remedy := of(remedyv1alpha1.RemedySpec{Actions: []remedyv1alpha1.RemedyAction{remedyv1alpha1.TrafficControl}, DecisionMatches: []remedyv1alpha1.DecisionMatch{
		when(remedyv1alpha1.ClusterConditionEqual, "False")}})
	remedy.Name = "dns"
	hub := fleettest.InMemory(t, nil, cluster, &remedy).Client
	r := &reporter{client: hub}
	reconciled := func() *clusterv1alpha1.Cluster {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(cluster)}); err != nil {
			t.Fatal(err)
		}
		got := &clusterv1alpha1.Cluster{}
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(cluster), got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := reconciled()
	if !slices.Equal(first.Status.RemedyActions, []string{"TrafficControl"}) || len(first.Status.Conditions) != 1 {
		t.Errorf("status %+v", first.Status)
	}
	if again := reconciled(); again.ResourceVersion != first.ResourceVersion {
		t.Error("a second reconcile writes")
	}
	if err := hub.Delete(t.Context(), &remedy); err != nil {
		t.Fatal(err)
	}
	if after := reconciled(); len(after.Status.RemedyActions) > 0 {
		t.Errorf("without a Remedy: %v", after.Status.RemedyActions)
	}
}
