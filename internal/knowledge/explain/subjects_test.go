package explain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
	"github.com/flagship-k8s/flagship/internal/knowledge/override"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

func TestSubjects(t *testing.T) {
	own := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "own"}}
	named := func(name string) fleetv1alpha1.ObjectIdentity { return fleetv1alpha1.ObjectIdentity{Name: name} }
	placed := binding([]workv1alpha2.TargetCluster{{Name: "m1"}}, condition(workv1alpha2.Scheduled, metav1.ConditionTrue, "Success", ""))
	refused := work(condition(workv1alpha1.WorkApplied, metav1.ConditionFalse, "AppliedFailed", "refused"))
	refused.Namespace, refused.Name = "karmada-es-m1", "web-1"
	again := "refused (applied again within 60s, and when the object changes in the member)"
	refused.Annotations = map[string]string{workv1alpha2.ResourceBindingNamespaceAnnotation: "shop", workv1alpha2.ResourceBindingNameAnnotation: "web-deployment"}
	tainted := ready()
	tainted.Name, tainted.Spec.Taints = "m1", []corev1.Taint{{Key: "env", Effect: corev1.TaintEffectNoSchedule}}
	for name, tc := range map[string]struct {
		steps []explain.Step
		want  []string
	}{
		"a policy": {
			explain.Propagation(own, []explain.Selected{
				{Template: named("a"), Owner: policy.KeyOf(own), Binding: placed}, {Template: named("b")}, {Template: named("c"), Owner: policy.Key{Name: "wide"}},
			}),
			[]string{
				"Template Done  belongs to this policy", "Binding Done  scheduled to m1 by schedule", "Template Waiting  is selected, and belongs to no policy yet",
				"Template Dropped  is selected, and belongs to ClusterPropagationPolicy wide",
			},
		},
		"a policy without objects": {explain.Propagation(own, nil), []string{"Policy Waiting  selects no object that you may get"}},
		"an override policy": {
			explain.Override("shop/own", "Deployment shop/web", placed, []explain.Target{{Name: "m1", Cluster: ready(), Overrides: []override.Verdict{
				{Policy: "wide", Applied: true, Reason: "applied"}, {Policy: "shop/own", Rule: 1, Reason: "cluster is not selected"},
			}}}),
			[]string{"Override Dropped m1 Deployment shop/web, rule 1: cluster is not selected by render"},
		},
		"a cluster": {
			explain.Cluster(tainted, []*workv1alpha1.Work{refused}),
			[]string{
				"Cluster Done m1 joined", "Cluster Done m1 Ready is True: ", "Cluster Done m1 has the taint env:NoSchedule", "Work Failed m1 Work web-1: " + again + " by apply",
			},
		},
		"a Work": {
			explain.Work(refused, "m1"),
			[]string{"Binding Done  the Work is written from this binding by render", "Work Done m1  by render", "Work Failed m1 " + again + " by apply"},
		},
	} {
		if diff := cmp.Diff(tc.want, lines(explain.Visible(tc.steps, everything))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	// What an override policy changes on top of another one needs the right to both, and the Works of a cluster need a right to each.
	nothing := func(explain.Right) bool { return false }
	for name, steps := range map[string][]explain.Step{
		"an override policy": explain.Override("shop/own", "x", placed, []explain.Target{{Name: "m1", Overrides: []override.Verdict{{Policy: "shop/own", Applied: true}}}}),
		"a cluster":          explain.Cluster(tainted, []*workv1alpha1.Work{refused})[3:],
	} {
		for _, step := range explain.Visible(steps, nothing) {
			if step.Outcome != fleetv1alpha1.OutcomeHidden {
				t.Errorf("%s without rights: %+v", name, step)
			}
		}
	}
}

// The answer about a cluster has what failed first, and is bounded.
func TestWorksOfACluster(t *testing.T) {
	var works []*workv1alpha1.Work
	add := func(name string, age int64, conditions ...metav1.Condition) *workv1alpha1.Work {
		w := work(conditions...)
		w.Namespace, w.Name, w.CreationTimestamp = "karmada-es-m1", name, metav1.Unix(1000-age, 0)
		works = append(works, w)
		return w
	}
	gone := add("gone", 0)
	gone.DeletionTimestamp = &metav1.Time{}
	for i := range 21 {
		add(fmt.Sprintf("waits-%02d", i), int64(i))
	}
	add("silent", 200, condition(workv1alpha1.WorkApplied, metav1.ConditionTrue, "", ""))
	applied := add("applied", 0, condition(workv1alpha1.WorkApplied, metav1.ConditionTrue, "", ""))
	applied.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{Health: workv1alpha1.ResourceHealthy}}
	add("refused", 100, condition(workv1alpha1.WorkApplied, metav1.ConditionFalse, "AppliedFailed", "refused"))
	cluster := ready()
	cluster.Name = "m1"
	got := lines(explain.Visible(explain.Cluster(cluster, works), everything))
	got = got[len(got)-21:]
	if !strings.HasPrefix(got[0], "Work Failed m1 Work refused: ") || !strings.HasPrefix(got[1], "Work Waiting m1 Work waits-00: ") || got[20] != "Work Waiting m1 4 more Works wait or failed" {
		t.Errorf("the steps are\n%s", strings.Join(got, "\n"))
	}
}
