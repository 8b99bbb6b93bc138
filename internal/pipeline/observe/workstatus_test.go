package observe

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
)

// seen is a finding about a ConfigMap.
func seen(name string, health workv1alpha1.ResourceHealth) finding {
	return finding{
		observed: observed{id: workv1alpha1.ResourceIdentifier{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: name}, object: &unstructured.Unstructured{}},
		health:   health,
	}
}

func missing(name string) finding {
	f := seen(name, workv1alpha1.ResourceUnknown)
	f.object = nil
	return f
}

func ailing(name string) finding {
	f := seen(name, workv1alpha1.ResourceUnhealthy)
	f.unhealthyForLong = true
	return f
}

func extra(f finding) finding {
	f.extra = true
	return f
}

func TestReport(t *testing.T) {
	const healthy, unhealthy = workv1alpha1.ResourceHealthy, workv1alpha1.ResourceUnhealthy
	applied := workv1alpha1.Applied(2)
	tests := map[string]struct {
		reason  string
		before  []metav1.Condition
		objects []finding
		pause   bool // the Work is suspended
		// status and reason of the three conditions
		available, progressing, degraded string
	}{
		"Done":        {"all there, all healthy", []metav1.Condition{applied}, []finding{seen("a", healthy)}, false, "True ResourcesAvailable", "False RolloutFinished", "False ResourcesHealthy"},
		"RollingOut":  {"not healthy yet", []metav1.Condition{applied}, []finding{seen("a", unhealthy)}, false, "True ResourcesAvailable", "True RollingOut", "False ResourcesHealthy"},
		"NotApplied":  {"apply has not written it", []metav1.Condition{workv1alpha1.NotApplied(2, "x")}, []finding{seen("a", healthy)}, false, "True ResourcesAvailable", "True Applying", "False ResourcesHealthy"},
		"OldApplied":  {"apply has written what was wanted before", []metav1.Condition{workv1alpha1.Applied(1)}, []finding{seen("a", healthy)}, false, "True ResourcesAvailable", "True Applying", "False ResourcesHealthy"},
		"Missing":     {"one is not there", []metav1.Condition{applied}, []finding{seen("a", healthy), missing("b")}, false, "False ResourcesMissing", "True RollingOut", "False ResourcesHealthy"},
		"BrokeDown":   {"a rollout that ended has ended", []metav1.Condition{applied, workv1alpha1.Progressed(2)}, []finding{seen("a", unhealthy)}, false, "True ResourcesAvailable", "False RolloutFinished", "False ResourcesHealthy"},
		"NextRollout": {"the end of an earlier rollout is not that of this", []metav1.Condition{applied, workv1alpha1.Progressed(1)}, []finding{seen("a", unhealthy)}, false, "True ResourcesAvailable", "True RollingOut", "False ResourcesHealthy"},
		"Ailing":      {"unhealthy for long", []metav1.Condition{applied}, []finding{ailing("a")}, false, "True ResourcesAvailable", "True RollingOut", "True ResourcesUnhealthy"},
		"Leftover":    {"what is no manifest any more says nothing about the Work", []metav1.Condition{applied}, []finding{seen("a", healthy), extra(ailing("b"))}, false, "True ResourcesAvailable", "False RolloutFinished", "False ResourcesHealthy"},
		"Suspended":   {"a Work that is not dispatched is not waited for", nil, []finding{seen("a", healthy)}, true, "True ResourcesAvailable", "False RolloutFinished", "False ResourcesHealthy"},
		"Empty":       {"a Work of nothing", []metav1.Condition{applied}, nil, false, "True ResourcesAvailable", "False RolloutFinished", "False ResourcesHealthy"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			status := &workv1alpha1.WorkStatus{Conditions: tc.before}
			findings{generation: 2, suspended: tc.pause, objects: tc.objects}.report(nil, status)
			for kind, want := range map[string]string{workv1alpha1.WorkAvailable: tc.available, workv1alpha1.WorkProgressing: tc.progressing, workv1alpha1.WorkDegraded: tc.degraded} {
				c := meta.FindStatusCondition(status.Conditions, kind)
				if got := string(c.Status) + " " + c.Reason; got != want || c.ObservedGeneration != 2 {
					t.Errorf("%s: %s is %s of generation %d, want %s", tc.reason, kind, got, c.ObservedGeneration, want)
				}
			}
			if len(status.ManifestStatuses) != len(tc.objects) {
				t.Errorf("%s: %d manifests are reported of %d", tc.reason, len(status.ManifestStatuses), len(tc.objects))
			}
		})
	}
}

func TestMessagesNameWhatIsMissing(t *testing.T) {
	f := findings{generation: 1}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"} {
		f.objects = append(f.objects, missing(name))
	}
	message := f.available().Message
	if !strings.Contains(message, "ConfigMap shop/a, ") || !strings.HasSuffix(message, "and 2 more") {
		t.Errorf("message is %q", message)
	}
}

func TestMemberCannotBeReached(t *testing.T) {
	shared := []workv1alpha1.ManifestStatus{{Health: workv1alpha1.ResourceHealthy}}
	status := &workv1alpha1.WorkStatus{ManifestStatuses: shared, Conditions: []metav1.Condition{workv1alpha1.Applied(1)}}
	unreachable(1, "member1")(nil, status)
	c := meta.FindStatusCondition(status.Conditions, workv1alpha1.WorkAvailable)
	if c == nil || c.Status != metav1.ConditionUnknown || !strings.Contains(c.Message, "member1") {
		t.Errorf("Available is %+v", c)
	}
	if status.ManifestStatuses[0].Health != workv1alpha1.ResourceUnknown || shared[0].Health != workv1alpha1.ResourceHealthy {
		t.Errorf("health is %s, and %s in the cache", status.ManifestStatuses[0].Health, shared[0].Health)
	}
	if !meta.IsStatusConditionTrue(status.Conditions, workv1alpha1.WorkApplied) {
		t.Error("what was applied is applied, whether or not it can be seen")
	}
}

func TestIsLost(t *testing.T) {
	tests := map[string]struct {
		condition *metav1.Condition
		want      bool
	}{
		"NeverReported": {nil, false},
		"Ready":         {&metav1.Condition{Status: metav1.ConditionTrue, Reason: clusterv1alpha1.ClusterReadyReason}, false},
		"NotReady":      {&metav1.Condition{Status: metav1.ConditionFalse, Reason: clusterv1alpha1.ClusterNotReadyReason}, false},
		"NotReachable":  {&metav1.Condition{Status: metav1.ConditionFalse, Reason: clusterv1alpha1.ClusterNotReachableReason}, true},
		"Silent":        {&metav1.Condition{Status: metav1.ConditionUnknown}, true},
	}
	for name, tc := range tests {
		c := &clusterv1alpha1.Cluster{}
		if tc.condition != nil {
			tc.condition.Type = clusterv1alpha1.ClusterConditionReady
			c.Status.Conditions = []metav1.Condition{*tc.condition}
		}
		if got := isLost(c); got != tc.want {
			t.Errorf("%s: lost is %t", name, got)
		}
	}
}

func TestWithExtras(t *testing.T) {
	obj := func(kind, name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"namespace": "shop", "name": name}}}
	}
	objects := []observed{
		{id: workv1alpha1.ResourceIdentifier{Ordinal: 0, Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "a"}},
		{id: workv1alpha1.ResourceIdentifier{Ordinal: 1, Version: "v1", Kind: "Secret", Namespace: "shop", Name: "a"}},
	}
	old := obj("ConfigMap", "old")
	old.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: ownership.FieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:data":{}}`),
	}})
	got := withExtras(ownership.ControlPlane{}, objects, []*unstructured.Unstructured{old, obj("Secret", "a"), obj("ConfigMap", "copied-by-a-user")})
	if got[0].object != nil || got[1].object == nil || len(got) != 3 {
		t.Fatalf("got %+v", got)
	}
	want := workv1alpha1.ResourceIdentifier{Ordinal: 2, Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "old"}
	if diff := cmp.Diff(want, got[2].id); diff != "" || !got[2].extra {
		t.Errorf("what was a manifest once, extra %t: -want +got:\n%s", got[2].extra, diff)
	}
}

func TestIdentify(t *testing.T) {
	got, err := identify(3, []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"shop"},"spec":{"x":[1]}}`))
	want := workv1alpha1.ResourceIdentifier{Ordinal: 3, Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "a"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, -want +got:\n%s", err, diff)
	}
	if _, err := identify(0, []byte(`[]`)); err == nil {
		t.Error("a list is an object")
	}
}

func TestDiagnose(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	w := &Works{clock: clock, degradedAfter: func() time.Duration { return time.Minute }, unhealthySince: map[types.NamespacedName]map[string]time.Time{}}
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Name: "w"}}
	look := func(health workv1alpha1.ResourceHealth) (bool, time.Duration) {
		objects := []finding{seen("a", health)}
		again := w.diagnose(work, objects)
		return objects[0].unhealthyForLong, again
	}
	steps := []struct {
		after  time.Duration
		health workv1alpha1.ResourceHealth
		ailing bool
		again  time.Duration
	}{
		{0, workv1alpha1.ResourceUnhealthy, false, time.Minute},
		{20 * time.Second, workv1alpha1.ResourceUnhealthy, false, 40 * time.Second},
		{40 * time.Second, workv1alpha1.ResourceUnhealthy, true, 0},
		{time.Second, workv1alpha1.ResourceHealthy, false, 0},
		{time.Hour, workv1alpha1.ResourceUnhealthy, false, time.Minute},
		{time.Hour, workv1alpha1.ResourceUnknown, false, 0},
	}
	for i, step := range steps {
		clock.Step(step.after)
		if ailing, again := look(step.health); ailing != step.ailing || again != step.again {
			t.Errorf("step %d: ailing %t, again after %v, want %t, %v", i, ailing, again, step.ailing, step.again)
		}
	}
	if len(w.unhealthySince) > 0 {
		t.Errorf("kept for nothing: %v", w.unhealthySince)
	}
	// A process that has just begun to watch takes from the Work what was before.
	meta.SetStatusCondition(&work.Status.Conditions, findings{objects: []finding{{observed: seen("a", "").observed, unhealthyForLong: true}}}.degraded())
	work.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{Identifier: seen("a", "").id, Health: workv1alpha1.ResourceUnhealthy}}
	if ailing, again := look(workv1alpha1.ResourceUnhealthy); !ailing || again != 0 {
		t.Errorf("after a restart: ailing %t, again after %v, want true and never", ailing, again)
	}
}

// After a restart, an object that its degraded Work reports as unhealthy has been so for long.
func TestDegradedIsReadFromTheWorkAfterARestart(t *testing.T) {
	for name, tc := range map[string]struct {
		condition metav1.Condition
		health    workv1alpha1.ResourceHealth
		want      bool
	}{
		"Degraded and unhealthy": {workv1alpha1.Degraded(1, "Unhealthy for long: ConfigMap shop/b"), unhealthy, true},
		"Degraded and healthy":   {workv1alpha1.Degraded(1, "Unhealthy for long: ConfigMap shop/a"), healthy, false},
		"Unhealthy a while":      {workv1alpha1.NotDegraded(1), unhealthy, false},
	} {
		t.Run(name, func(t *testing.T) {
			id := workv1alpha1.ResourceIdentifier{Kind: "ConfigMap", Namespace: "shop", Name: "a"}
			work := &workv1alpha1.Work{Status: workv1alpha1.WorkStatus{
				Conditions: []metav1.Condition{tc.condition}, ManifestStatuses: []workv1alpha1.ManifestStatus{{Identifier: id, Health: tc.health}},
			}}
			if got := wasUnhealthyForLong(work, &finding{observed: observed{id: id}}); got != tc.want {
				t.Errorf("it ailed before: %t, want %t", got, tc.want)
			}
		})
	}
}

// A Deployment that another control plane made names a template of that one as long as apply leaves its annotations.
func TestTheGenerationOfAnotherControlPlane(t *testing.T) {
	const uid, generation = workv1alpha1.TemplateUIDAnnotation, workv1alpha1.TemplateGenerationAnnotation
	manifest := []byte(`{"metadata": {"annotations": {"resourcetemplate.karmada.io/uid": "new", "resourcetemplate.karmada.io/generation": "2"}}}`)
	for name, tc := range map[string]struct {
		manifest []byte
		live     map[string]string
		want     string // "" if the object has its own generation
	}{
		"Left":       {manifest, map[string]string{uid: "old", generation: "7"}, "2"},
		"Own":        {manifest, map[string]string{uid: "new", generation: "1"}, ""},
		"Recorded":   {manifest, map[string]string{uid: "old", generation: "7", workv1alpha1.LastAppliedAnnotation: "a."}, ""},
		"NoTemplate": {[]byte(`{"metadata": {}}`), map[string]string{uid: "old", generation: "7"}, ""},
		"Foreign":    {manifest, nil, ""},
		"Extra":      {nil, map[string]string{uid: "old", generation: "7"}, ""},
	} {
		live := &unstructured.Unstructured{Object: map[string]any{}}
		live.SetAnnotations(tc.live)
		current, unknown := observed{manifest: tc.manifest}.ofTemplate(live)
		if (current != nil) != (tc.want != "") {
			t.Errorf("%s: it has another generation: %t", name, current != nil)
			continue
		}
		if current == nil {
			continue
		}
		if _, has := unknown.GetAnnotations()[generation]; has || current.GetAnnotations()[generation] != tc.want || live.GetAnnotations()[generation] != tc.live[generation] {
			t.Errorf("%s: the annotations are %v and %v", name, current.GetAnnotations(), unknown.GetAnnotations())
		}
	}

	status := func(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }
	f := seen("a", workv1alpha1.ResourceHealthy)
	f.status, f.unapplied = status("applied"), status("unapplied")
	for want, condition := range map[string]metav1.Condition{"applied": workv1alpha1.Applied(2), "unapplied": workv1alpha1.Applied(1)} {
		got := &workv1alpha1.WorkStatus{Conditions: []metav1.Condition{condition}}
		findings{generation: 2, objects: []finding{f}}.report(&workv1alpha1.Work{}, got)
		if is := string(got.ManifestStatuses[0].Status.Raw); is != want {
			t.Errorf("the status is %s, want %s", is, want)
		}
	}
}
