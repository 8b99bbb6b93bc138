package explain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
	"github.com/flagship-k8s/flagship/internal/knowledge/override"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

var (
	start = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	later = metav1.NewTime(start.Add(time.Hour))
)

func template() *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment"}}
	obj.SetNamespace("shop")
	obj.SetName("web")
	obj.SetCreationTimestamp(start)
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{
		{Manager: "kubectl", Time: &later}, {Manager: "flagship", Time: &later, Subresource: "status"},
	})
	return obj
}

func policies(t *testing.T) policy.Decision {
	t.Helper()
	selector := policyv1alpha1.ResourceSelector{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	own := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "own"}}
	wide := &policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "wide"}}
	own.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{selector}
	wide.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{selector}
	obj := template()
	return policy.Judge(policy.SubjectOf(obj.GroupVersionKind(), obj, nil), nil, []policyv1alpha1.Propagation{own, wide})
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: later}
}

func binding(clusters []workv1alpha2.TargetCluster, conditions ...metav1.Condition) *workv1alpha2.ResourceBinding {
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-deployment", CreationTimestamp: start}}
	b.Spec.Clusters, b.Status.Conditions = clusters, conditions
	return b
}

func ready() *clusterv1alpha1.Cluster {
	c := &clusterv1alpha1.Cluster{}
	c.Status.Conditions = []metav1.Condition{condition(clusterv1alpha1.ClusterConditionReady, metav1.ConditionTrue, "Ready", "")}
	return c
}

func work(conditions ...metav1.Condition) *workv1alpha1.Work {
	w := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: start}}
	w.Status.Conditions = conditions
	return w
}

// lines are steps as short texts.
func lines(steps []fleetv1alpha1.ExplanationStep) []string {
	var out []string
	for _, s := range steps {
		line := fmt.Sprintf("%s %s %s %s", s.Stage, s.Outcome, s.Cluster, s.Message)
		if s.Actor != "" {
			line += " by " + s.Actor
		}
		for _, e := range s.Fields {
			line += fmt.Sprintf(" [%s %s>%s]", e.Path, e.From, e.To)
		}
		if len(s.Remedies) > 0 {
			line += " remedy: " + strings.Join(s.Remedies, ", ")
		}
		out = append(out, line)
	}
	return out
}

func everything(explain.Right) bool { return true }

func TestTemplate(t *testing.T) {
	placed := []workv1alpha2.TargetCluster{{Name: "m1", Replicas: 2}}
	scheduled := condition(workv1alpha2.Scheduled, metav1.ConditionTrue, "Success", "")
	healthy := work(condition(workv1alpha1.WorkApplied, metav1.ConditionTrue, "AppliedSuccessful", "applied but for fields of other managers"),
		condition(workv1alpha1.WorkAvailable, metav1.ConditionTrue, "ResourcesAvailable", ""))
	healthy.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{
		Identifier: workv1alpha1.ResourceIdentifier{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "web"},
		Health:     workv1alpha1.ResourceHealthy, Status: &runtime.RawExtension{Raw: []byte(`{"replicas": 2, "readyReplicas": 1}`)},
	}}
	for name, tc := range map[string]struct {
		change func(*explain.Facts)
		want   []string
	}{
		"no policy": {
			func(f *explain.Facts) { f.Policies, f.Binding = policy.Decision{}, nil },
			[]string{
				"Template Done   by kubectl",
				"Policy Waiting  no policy selects the object: create a PropagationPolicy in its namespace, or a ClusterPropagationPolicy",
			},
		},
		"never leaves": {
			func(f *explain.Facts) { f.Stays, f.Binding = "it stays on the control plane", nil },
			[]string{"Template Done   by kubectl", "Template Failed  it stays on the control plane"},
		},
		"owned by another kind": {
			func(f *explain.Facts) {
				f.Template.SetLabels(map[string]string{policyv1alpha1.ResourceTemplateClaimedByLabel: "MultiClusterService"})
				f.Binding = nil
			},
			[]string{"Template Done   by kubectl", "Policy Done  no policy applies: the object belongs to MultiClusterService"},
		},
		"no binding yet": {
			func(f *explain.Facts) { f.Binding = nil },
			[]string{
				"Template Done   by kubectl", "Policy Done  selects the object by name, priority 0",
				"Policy Dropped  PropagationPolicy shop/own is of the object's own namespace", "Binding Waiting  the binding is not created yet by propagate",
			},
		},
		"no cluster fits": {
			func(f *explain.Facts) {
				f.Binding = binding(nil, condition(workv1alpha2.Scheduled, metav1.ConditionFalse, "NoClusterFit", "0/1 clusters fit"))
				f.Candidates = []explain.Candidate{{Name: "m1", Filter: "TaintToleration", Dropped: []string{"has taint a:NoSchedule"}, Remedies: []string{"tolerate a:NoSchedule"}}}
			},
			[]string{
				"Binding Done   by propagate", "Binding Waiting  0/1 clusters fit by schedule",
				"Cluster Dropped m1 has taint a:NoSchedule by schedule remedy: tolerate a:NoSchedule",
			},
		},
		"the whole path": {
			func(f *explain.Facts) {
				f.Binding = binding(placed, scheduled, condition(workv1alpha2.FullyApplied, metav1.ConditionTrue, "FullyAppliedSuccess", "all applied"))
				f.Binding.BindingStatus().AggregatedStatus = []workv1alpha2.AggregatedStatusItem{{ClusterName: "m1", Applied: true, Health: workv1alpha2.ResourceHealthy}}
				f.Candidates = []explain.Candidate{{Name: "m1", Target: true, Replicas: ptr.To(int32(2))}}
				f.Targets = []explain.Target{{Name: "m1", Cluster: ready(), Work: healthy, WorkName: "web-1", Overrides: []override.Verdict{
					{Policy: "other", Reason: override.ReasonResourceUnselected},
					{Policy: "wide", Applied: true, Reason: "applied", Edits: []override.Edit{{Path: "/a", From: "x", To: map[string]any{"b": int64(1)}}}},
					{Policy: "shop/own", Rule: 1, Reason: "cluster is not selected"},
				}}}
			},
			[]string{
				"Binding Done   by propagate", "Binding Done  scheduled to m1 (2) by schedule", "Cluster Done m1 chosen by schedule",
				`Override Done m1 rule 0: applied by render [/a "x">{"b":1}]`, "Override Dropped m1 rule 1: cluster is not selected by render",
				"Work Done m1  by render", "Work Done m1 applied but for fields of other managers by apply",
				"Member Done m1 Healthy, 1 of 2 replicas are ready by observe", "Status Done m1 applied by aggregate", "Status Done  all applied by aggregate",
			},
		},
		"held, not ready, unhealthy": {
			func(f *explain.Facts) {
				f.Binding = binding(placed, scheduled)
				f.Binding.BindingStatus().AggregatedStatus = []workv1alpha2.AggregatedStatusItem{{ClusterName: "m1", AppliedMessage: "refused"}}
				lost := ready()
				lost.Status.Conditions[0].Status, lost.Status.Conditions[0].Message = metav1.ConditionFalse, "no answer"
				held := work(condition(workv1alpha1.WorkApplied, metav1.ConditionFalse, workv1alpha1.AppliedHeldReason, "would do harm"),
					condition(workv1alpha1.WorkDegraded, metav1.ConditionTrue, "ResourcesUnhealthy", "unhealthy for 5m"))
				held.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{Health: workv1alpha1.ResourceUnhealthy}}
				f.Targets = []explain.Target{{Name: "m1", Cluster: lost, Work: held, OverrideError: "cannot be edited"}}
			},
			[]string{
				"Binding Done   by propagate", "Binding Done  scheduled to m1 (2) by schedule", "Cluster Waiting m1 the cluster is not ready: no answer",
				"Override Failed m1 cannot be edited by render", "Work Done m1  by render", "Work Waiting m1 would do harm by apply",
				"Member Failed m1 Unhealthy: unhealthy for 5m by observe", "Status Failed m1 refused by aggregate",
			},
		},
	} {
		facts := explain.Facts{Template: template(), Policies: policies(t), Binding: binding(nil)}
		tc.change(&facts)
		got := lines(explain.Visible(explain.Template(facts), everything))
		if facts.Binding != nil { // the first three are those of "no binding yet"
			got = got[3:]
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestNothingIsShownWithoutTheRight: with each right taken away, no name of what it protects is in the answer.
func TestNothingIsShownWithoutTheRight(t *testing.T) {
	b := binding([]workv1alpha2.TargetCluster{{Name: "m1"}}, condition(workv1alpha2.Scheduled, metav1.ConditionTrue, "Success", ""))
	facts := explain.Facts{
		Template: template(), Policies: policies(t), Binding: b,
		Candidates: []explain.Candidate{{Name: "m1", Target: true}, {Name: "secret-cluster", Filter: "TaintToleration", Dropped: []string{"has taint secret-taint"}}},
		Targets: []explain.Target{{Name: "m1", Cluster: ready(), Work: work(), WorkName: "web-1", Overrides: []override.Verdict{
			{Policy: "secret-override", Applied: true, Edits: []override.Edit{{Path: "/a", To: "secret-value"}}},
			{Policy: "shop/own", Applied: true, Edits: []override.Edit{{Path: "/a", From: "secret-value", To: "public"}}},
		}}},
	}
	for _, tc := range []struct {
		without func(explain.Right) bool
		absent  []string
		hidden  string
	}{
		{func(r explain.Right) bool { return r.Name == "secret-cluster" }, []string{"secret-cluster", "secret-taint"}, "needs get on clusters.cluster.karmada.io"},
		{func(r explain.Right) bool { return r.Name == "secret-override" }, []string{"secret-override", "secret-value"}, "needs get on clusteroverridepolicies.policy.karmada.io"},
		{func(r explain.Right) bool { return r.Resource == "clusterpropagationpolicies" }, []string{"wide"}, "needs get on clusterpropagationpolicies.policy.karmada.io"},
		{func(r explain.Right) bool { return r.Resource == "propagationpolicies" }, []string{"shop/own is of"}, "needs get on propagationpolicies.policy.karmada.io"},
		{func(r explain.Right) bool { return r.Resource == "works" }, []string{"web-1"}, "needs get on works.work.karmada.io"},
		{func(r explain.Right) bool { return r.Resource == "resourcebindings" }, []string{"m1", "web-deployment"}, "needs get on resourcebindings.work.karmada.io"},
	} {
		steps := explain.Visible(explain.Template(facts), func(r explain.Right) bool { return !tc.without(r) })
		all := fmt.Sprintf("%+v %v", lines(steps), steps)
		for _, s := range steps {
			all += fmt.Sprintf(" %v", s.Object)
		}
		for _, secret := range tc.absent {
			if strings.Contains(all, secret) {
				t.Errorf("without the right, %q is in the answer:\n%s", secret, strings.Join(lines(steps), "\n"))
			}
		}
		if !slices.ContainsFunc(steps, func(s fleetv1alpha1.ExplanationStep) bool {
			return s.Outcome == fleetv1alpha1.OutcomeHidden && s.Message == tc.hidden
		}) {
			t.Errorf("no step has %q:\n%s", tc.hidden, strings.Join(lines(steps), "\n"))
		}
	}
	// The steps that need no right are about the template alone.
	for _, step := range explain.Template(facts) {
		if len(step.Needs) == 0 && step.Stage != fleetv1alpha1.StageTemplate {
			t.Errorf("a step of stage %s reveals more than the template and needs no right: %s", step.Stage, step.Message)
		}
	}
}

func TestDependencies(t *testing.T) {
	b := binding(nil)
	b.Spec.RequiredBy = []workv1alpha2.BindingSnapshot{{Namespace: "shop", Name: "front-deployment"}}
	b.Annotations = map[string]string{
		workv1alpha2.DependenciesAnnotation: `[{"apiVersion":"v1","kind":"Secret","namespace":"shop","name":"key"},{"apiVersion":"v1","kind":"Secret","namespace":"shop"}]`,
	}
	want := []string{
		"Template Done   by kubectl", "Dependency Done  goes wherever shop/front-deployment goes, which depends on it by propagate",
		"Dependency Done  goes wherever the object goes, if it exists by propagate", "Binding Done   by propagate",
	}
	steps := explain.Visible(explain.Template(explain.Facts{Template: template(), Binding: b}), everything)
	if diff := cmp.Diff(want, lines(steps)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if named := steps[2].Object; named.Kind != "Secret" || named.Namespace != "shop" || named.Name != "key" {
		t.Errorf("the dependency is %+v", named)
	}
}

func TestSummary(t *testing.T) {
	step := func(outcome fleetv1alpha1.ExplanationOutcome) fleetv1alpha1.ExplanationStep {
		return fleetv1alpha1.ExplanationStep{Stage: fleetv1alpha1.StageWork, Cluster: "m1", Outcome: outcome, Message: "so"}
	}
	for want, steps := range map[string][]fleetv1alpha1.ExplanationStep{
		"Nothing failed and nothing waits.":         {step(fleetv1alpha1.OutcomeDone), step(fleetv1alpha1.OutcomeDropped)},
		"Nothing that you may see failed or waits.": {step(fleetv1alpha1.OutcomeHidden)},
		"Work in m1 waits: so":                      {step(fleetv1alpha1.OutcomeHidden), step(fleetv1alpha1.OutcomeWaiting)},
		"Work in m1 failed: so":                     {step(fleetv1alpha1.OutcomeWaiting), step(fleetv1alpha1.OutcomeFailed)},
	} {
		if got := explain.Summary(steps); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestSimilar(t *testing.T) {
	for _, tc := range []struct {
		name, written string
		want          bool
	}{
		{"nginx", "ngnix", true}, {"web", "webshop", true}, {"webshop", "web", true}, {"api", "web", false},
		{"settings", "setting", true}, {"settings", "sittangs", true}, {"settings", "sealing", false}, {"a", "b", false},
	} {
		if got := explain.Similar(tc.name, tc.written); got != tc.want {
			t.Errorf("%s and %s: %v", tc.name, tc.written, got)
		}
	}
}

func TestOnlyCluster(t *testing.T) {
	facts := explain.Facts{Template: template(), Binding: binding(nil), Candidates: []explain.Candidate{{Name: "m1"}, {Name: "m2"}}}
	for cluster, want := range map[string]int{"m1": 1, "m2": 1, "m3": 1} {
		n := 0
		for _, step := range explain.OnlyCluster(explain.Template(facts), facts, cluster, everything) {
			if step.Cluster == cluster {
				n++
			} else if step.Cluster != "" {
				t.Errorf("%s: a step about %s", cluster, step.Cluster)
			}
		}
		if n != want {
			t.Errorf("%s: %d steps, want %d", cluster, n, want)
		}
	}
	// Without the right to the binding the answers about a target, another cluster and one that does not exist are equal.
	facts.Targets = []explain.Target{{Name: "m1", Cluster: ready(), Work: work(), WorkName: "web-1"}}
	var answers []string
	for _, cluster := range []string{"m1", "m2", "m3"} {
		may := func(r explain.Right) bool { return r.Resource != "resourcebindings" && r.Resource != "clusters" }
		steps := explain.Visible(explain.OnlyCluster(explain.Template(facts), facts, cluster, may), may)
		answers = append(answers, strings.Join(lines(steps), "\n"))
	}
	if answers[0] != answers[1] || answers[1] != answers[2] {
		t.Errorf("the answers show which cluster is a target:\n%s", strings.Join(answers, "\n\n"))
	}
}

// wrong is a Deployment in a member about which everything is well, but for what a test changes.
func wrong(t *testing.T, change func(*explain.Facts, *workv1alpha1.Work)) explain.Facts {
	t.Helper()
	w := work(condition(workv1alpha1.WorkApplied, metav1.ConditionTrue, "AppliedSuccessful", workv1alpha1.AppliedSuccessfulMessage),
		condition(workv1alpha1.WorkAvailable, metav1.ConditionTrue, "ResourcesAvailable", ""), condition(workv1alpha1.WorkProgressing, metav1.ConditionFalse, "RolloutFinished", ""))
	w.Generation = 2
	for i := range w.Status.Conditions {
		w.Status.Conditions[i].ObservedGeneration = 2
	}
	w.Spec.Workload.Manifests = []workv1alpha1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"spec":{"replicas":3}}`)}}}
	w.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{
		Identifier: workv1alpha1.ResourceIdentifier{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "web"},
		Health:     workv1alpha1.ResourceHealthy, Status: &runtime.RawExtension{Raw: []byte(`{"replicas":3,"readyReplicas":3,"desiredReplicas":3}`)},
	}}
	b := binding([]workv1alpha2.TargetCluster{{Name: "m1", Replicas: 3}}, condition(workv1alpha2.Scheduled, metav1.ConditionTrue, "Success", ""),
		condition(workv1alpha2.FullyApplied, metav1.ConditionTrue, "FullyAppliedSuccess", ""))
	b.Generation, b.Status.SchedulerObservedGeneration = 4, 4
	b.Status.AggregatedStatus = []workv1alpha2.AggregatedStatusItem{{ClusterName: "m1", Applied: true, Health: workv1alpha2.ResourceHealthy}}
	facts := explain.Facts{Template: template(), Policies: policies(t), Binding: b, Targets: []explain.Target{{Name: "m1", Cluster: ready(), Work: w, WorkName: "web-1"}}}
	change(&facts, w)
	return facts
}

// reports has a Work say what a member reports of its object.
func reports(w *workv1alpha1.Work, health workv1alpha1.ResourceHealth, group, status string) {
	m := &w.Status.ManifestStatuses[0]
	m.Health, m.Identifier.Group, m.Status = health, group, nil
	if status != "" {
		m.Status = &runtime.RawExtension{Raw: []byte(status)}
	}
}

// TestWhatIsWrongInAMemberIsNamed: while the binding is content, for each way in which an object can be wrong.
func TestWhatIsWrongInAMemberIsNamed(t *testing.T) {
	set := func(kind string, status metav1.ConditionStatus, reason, message string) func(*explain.Facts, *workv1alpha1.Work) {
		return func(_ *explain.Facts, w *workv1alpha1.Work) {
			c := condition(kind, status, reason, message)
			c.ObservedGeneration = 2
			w.Status.Conditions = append(slices.DeleteFunc(w.Status.Conditions, func(c metav1.Condition) bool { return c.Type == kind }), c)
		}
	}
	says := func(health workv1alpha1.ResourceHealth, group, status string) func(*explain.Facts, *workv1alpha1.Work) {
		return func(_ *explain.Facts, w *workv1alpha1.Work) { reports(w, health, group, status) }
	}
	for name, tc := range map[string]struct {
		change func(*explain.Facts, *workv1alpha1.Work)
		want   string
	}{
		"nothing": {func(*explain.Facts, *workv1alpha1.Work) {}, "Nothing failed and nothing waits."},
		"a quota refuses pods": {says(workv1alpha1.ResourceUnhealthy, "apps", `{"desiredReplicas":3,"conditions":[{"type":"Available","status":"False"},
			{"type":"ReplicaFailure","status":"True","reason":"FailedCreate","message":"exceeded quota: q"}]}`),
			"Member in m1 waits: Unhealthy, 0 of 3 replicas are ready; condition ReplicaFailure is True, FailedCreate: exceeded quota: q"},
		"fewer replicas than are wanted": {says(workv1alpha1.ResourceUnhealthy, "apps", `{"replicas":1,"readyReplicas":1,"desiredReplicas":3}`),
			"Member in m1 waits: Unhealthy, 1 of 3 replicas are ready"},
		"fewer than the manifest has": {says(workv1alpha1.ResourceUnhealthy, "example.io", `{"replicas":1,"readyReplicas":1}`),
			"Member in m1 waits: Unhealthy, 1 of 3 replicas are ready"},
		"fewer of a kind that counts no ready ones": {says(workv1alpha1.ResourceUnhealthy, "example.io", `{"replicas":1}`), "Member in m1 waits: Unhealthy, has 1 of 3 replicas"},
		"no replicas are known":                     {says(workv1alpha1.ResourceUnhealthy, "example.io", `{"phase":"Pending"}`), "Member in m1 waits: Unhealthy"},
		"a status of another form":                  {says(workv1alpha1.ResourceUnhealthy, "example.io", `{"replicas":"many"}`), "Member in m1 waits: Unhealthy"},
		"a condition of a kind that is healthy": {says(workv1alpha1.ResourceHealthy, "example.io", `{"conditions":[{"type":"Suspended","status":"True"}]}`),
			"Member in m1 waits: Healthy; condition Suspended is True"},
		"a health that is not reported": {says(workv1alpha1.ResourceUnknown, "example.io", ""),
			"Member in m1 waits: the health is not known: nothing in the cluster has reported a status of the object"},
		"no report": {func(_ *explain.Facts, w *workv1alpha1.Work) { w.Status.ManifestStatuses = nil },
			"Member in m1 waits: the cluster has not reported yet what it has"},
		"admission refuses": {set(workv1alpha1.WorkApplied, metav1.ConditionFalse, workv1alpha1.AppliedForbiddenReason, "no right is missing"),
			"Work in m1 failed: no right is missing (applied again within 60s, and when the object changes in the member)"},
		"a conflict": {set(workv1alpha1.WorkApplied, metav1.ConditionFalse, workv1alpha1.AppliedFailedReason, "applied but for fields of other managers: .spec.x"),
			"Work in m1 failed: applied but for fields of other managers: .spec.x (applied again within 60s, and when the object changes in the member)"},
		"the definition is missing": {set(workv1alpha1.WorkApplied, metav1.ConditionFalse, workv1alpha1.AppliedFailedReason, "the member does not serve it"),
			"Work in m1 failed: the member does not serve it (applied again within 60s, and when the object changes in the member)"},
		"fields are dropped": {set(workv1alpha1.WorkApplied, metav1.ConditionTrue, workv1alpha1.AppliedSuccessfulReason, workv1alpha1.AppliedWithout(2, ".spec.x").Message),
			"Work in m1 waits: Manifest has been successfully applied, but for fields that the cluster does not serve: .spec.x"},
		"the latest is not applied": {func(_ *explain.Facts, w *workv1alpha1.Work) { w.Generation = 3 }, "Work in m1 waits: an earlier version is applied, the latest is not yet"},
		"the brake":                 {set(workv1alpha1.WorkApplied, metav1.ConditionFalse, workv1alpha1.AppliedBrakedReason, "too many are removed"), "Work in m1 waits: too many are removed"},
		"dispatching is suspended": {set(workv1alpha1.WorkDispatching, metav1.ConditionFalse, workv1alpha1.SuspendDispatchingReason, workv1alpha1.SuspendDispatchingMessage),
			"Work in m1 waits: Work dispatching is in a suspended state."},
		"drift is reported": {set(workv1alpha1.WorkDrifted, metav1.ConditionTrue, workv1alpha1.DriftReportedReason, "fields differ"), "Work in m1 waits: fields differ"},
		"drift is disputed": {set(workv1alpha1.WorkDrifted, metav1.ConditionTrue, workv1alpha1.DriftDisputedReason, "fields differ"), "Work in m1 failed: fields differ"},
		"it is gone": {set(workv1alpha1.WorkAvailable, metav1.ConditionFalse, workv1alpha1.ResourcesMissingReason, "Not on the managed cluster: x"),
			"Member in m1 waits: Healthy: Not on the managed cluster: x, 3 of 3 replicas are ready"},
		"it is unhealthy for long": {set(workv1alpha1.WorkDegraded, metav1.ConditionTrue, workv1alpha1.ResourcesUnhealthyReason, "Unhealthy for long: x"),
			"Member in m1 failed: Healthy: Unhealthy for long: x, 3 of 3 replicas are ready"},
		"it is rolled out": {set(workv1alpha1.WorkProgressing, metav1.ConditionTrue, workv1alpha1.RollingOutReason, "Waiting for x"),
			"Member in m1 waits: Healthy: Waiting for x, 3 of 3 replicas are ready"},
		"the Work is being deleted": {func(_ *explain.Facts, w *workv1alpha1.Work) { w.DeletionTimestamp = &later }, "Work in m1 waits: it is being deleted, and awaits the deletion in the member"},
		"the template is being deleted": {func(f *explain.Facts, _ *workv1alpha1.Work) {
			f.Template.SetDeletionTimestamp(&later)
			f.Template.SetFinalizers([]string{"a/b"})
		}, "Template waits: it is being deleted, and awaits the finalizers a/b"},
		"the template is paused": {func(f *explain.Facts, _ *workv1alpha1.Work) {
			f.Template.Object["spec"] = map[string]any{"paused": true}
		}, "Template waits: the object itself says that nothing is to happen: spec.paused is true"},
		"the template is suspended": {func(f *explain.Facts, _ *workv1alpha1.Work) {
			f.Template.Object["spec"] = map[string]any{"suspend": true}
		}, "Template waits: the object itself says that nothing is to happen: spec.suspend is true"},
		"the cluster is not ready": {func(f *explain.Facts, _ *workv1alpha1.Work) {
			f.Targets[0].Cluster.Status.Conditions[0].Status, f.Targets[0].Cluster.Status.Conditions[0].Message = metav1.ConditionUnknown, "no answer"
		}, "Cluster in m1 waits: the cluster is not ready: no answer"},
		"the cluster sends too much": {func(f *explain.Facts, _ *workv1alpha1.Work) {
			f.Targets[0].Cluster.Status.Conditions = append(f.Targets[0].Cluster.Status.Conditions, clusterv1alpha1.ResourcesNotCounted("pods"))
		}, "Cluster in m1 waits: what is reported of objects in the cluster may be old: what the cluster sends is not read in full: pods"},
		"a part of the rights": {func(f *explain.Facts, _ *workv1alpha1.Work) {
			f.Targets[0].Cluster.Status.Conditions = append(f.Targets[0].Cluster.Status.Conditions, clusterv1alpha1.ResourcesNotReadable("no nodes"))
		}, "Nothing failed and nothing waits."},
		"replicas are not known": {func(f *explain.Facts, _ *workv1alpha1.Work) {
			status := f.Binding.BindingStatus()
			status.Conditions = append(status.Conditions, workv1alpha2.DivisionWarningCondition(4, workv1alpha2.ReplicasUnknownReason, "not known"))
		}, "Binding waits: not known"},
		"a change is not scheduled": {func(f *explain.Facts, _ *workv1alpha1.Work) {
			f.Binding.BindingStatus().SchedulerObservedGeneration = 3
		},
			"Binding waits: scheduled to m1 (3); its latest change is not scheduled yet"},
		"the status cannot be written": {func(f *explain.Facts, _ *workv1alpha1.Work) {
			f.StatusUnwritable = true
			f.Binding.BindingStatus().AggregatedStatus[0].Status = &runtime.RawExtension{Raw: []byte(`{"phase":"Done"}`)}
		}, "Status waits: " + explain.NoStatusSubresource},
		"a kind without status": {func(f *explain.Facts, _ *workv1alpha1.Work) { f.StatusUnwritable = true }, "Nothing failed and nothing waits."},
		"the status is unknown": {func(f *explain.Facts, _ *workv1alpha1.Work) {
			f.Binding.BindingStatus().AggregatedStatus[0].Health = workv1alpha2.ResourceUnknown
		}, "Status in m1 waits: applied, and its health is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := explain.Summary(explain.Visible(explain.Template(wrong(t, tc.change)), everything)); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
	facts := wrong(t, func(f *explain.Facts, _ *workv1alpha1.Work) {
		f.Targets[0].Overrides = []override.Verdict{{Policy: "shop/own", Applied: true, Reason: override.ReasonNoEffect}}
	})
	if got := lines(explain.Visible(explain.Template(facts), everything)); !slices.Contains(got, "Override Dropped m1 rule 0: changes nothing by render") {
		t.Errorf("an override without effect is\n%s", strings.Join(got, "\n"))
	}
}
