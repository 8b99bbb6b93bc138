package pipeline_test

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/drift"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// reportOf is the answer about a ConfigMap.
func reportOf(ctx context.Context, hub *fleettest.Cluster, ns, name string) ([]fleetv1alpha1.DriftedObject, error) {
	q := &fleetv1alpha1.DriftReport{Spec: fleetv1alpha1.DriftReportSpec{Kind: "ConfigMap", Namespace: ns, Name: name}}
	err := hub.Create(ctx, q)
	return q.Status.Objects, err
}

// driftOf waits until the report about a ConfigMap has one object that satisfies a condition.
func driftOf(t *testing.T, fleet *fleettest.Fleet, ns, name string, condition func(o *fleetv1alpha1.DriftedObject) error) fleetv1alpha1.DriftedObject {
	t.Helper()
	var found fleetv1alpha1.DriftedObject
	var last error
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, fleettest.Patience, true, func(ctx context.Context) (bool, error) {
		objects, err := reportOf(ctx, fleet.Hub, ns, name)
		switch {
		case err != nil:
			last = err
		case len(objects) != 1:
			last = fmt.Errorf("the report is %+v", objects)
		default:
			found = objects[0]
			last = condition(&found)
		}
		return last == nil, nil
	}); err != nil {
		t.Fatalf("the report about %s: %v", name, last)
	}
	return found
}

// fieldIs is the condition that a field of the report has an outcome; wanted and found are JSON.
func fieldIs(path string, outcome fleetv1alpha1.DriftOutcome, wanted, found, manager string) func(o *fleetv1alpha1.DriftedObject) error {
	return func(o *fleetv1alpha1.DriftedObject) error {
		for _, f := range o.Fields {
			if f.Path == path && f.Outcome == outcome && f.Wanted == wanted && f.Found == found && f.Manager == manager {
				return nil
			}
		}
		return fmt.Errorf("no field is %s %s, wanted %s, found %s by %q: %+v", path, outcome, wanted, found, manager, o.Fields)
	}
}

// changeAs changes the data of a ConfigMap in a member under the name of a field manager.
func changeAs(t *testing.T, member *fleettest.Cluster, settings *corev1.ConfigMap, manager, patch string) {
	t.Helper()
	theirs := fleettest.ConfigMap(settings.Namespace, settings.Name, nil)
	if err := member.Patch(t.Context(), theirs, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner(manager)); err != nil {
		t.Fatal(err)
	}
}

// A field that kubectl changes in a member is put back, and the report has both values, who changed it and when.
func TestDriftIsReportedFieldByField(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	settings := fleettest.ConfigMap(ns, "settings", map[string]string{"a": "ours"})
	fleettest.Create(t, fleet.Hub, settings, fleettest.Policy(ns, "settings", fleettest.To("member1"), settings))
	member := fleet.Member("member1")
	fleettest.ExpectEventually(t, member, settings.DeepCopy(), fleettest.Exists)
	changeAs(t, member, settings, "kubectl-edit", `{"data":{"a":"theirs","b":"theirs"}}`)
	o := driftOf(t, fleet, ns, "settings", fieldIs("/data/a", fleetv1alpha1.DriftPutBack, `"ours"`, `"theirs"`, "kubectl-edit"))
	if len(o.Fields) != 1 || o.Fields[0].Time == nil || o.Cluster != "member1" || o.PutBack != 1 || len(o.Recent) != 1 || o.Mode != "Repair" ||
		o.Object != (fleetv1alpha1.ObjectIdentity{APIVersion: "v1", Kind: "ConfigMap", Namespace: ns, Name: "settings"}) {
		t.Errorf("the report is %+v", o)
	}
	fleettest.ExpectEventually(t, member, settings.DeepCopy(), func(c *corev1.ConfigMap) error { return equal("ours", c.Data["a"]) })

	text := fleettest.Flagship(t, "drift", "--kubeconfig", fleet.Hub.Kubeconfig, "configmap/settings", "-n", ns).Stdout
	t.Log("\n" + text)
	for _, part := range []string{"member1  ConfigMap " + ns + "/settings", `put back  /data/a  by kubectl-edit`, `wanted "ours", found "theirs"`} {
		if !strings.Contains(text, part) {
			t.Errorf("the command prints no %q:\n%s", part, text)
		}
	}
}

// A controller that repeats its change is a dispute: its count and the last times are in the report, and it is one event.
func TestDriftOfAFightIsCounted(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	settings := fleettest.ConfigMap(ns, "settings", map[string]string{"a": "ours"})
	fleettest.Create(t, fleet.Hub, settings, fleettest.Policy(ns, "settings", fleettest.To("member1"), settings))
	member := fleet.Member("member1")
	fleettest.ExpectEventually(t, member, settings.DeepCopy(), fleettest.Exists)
	for i := range 6 {
		changeAs(t, member, settings, "a-controller", fmt.Sprintf(`{"data":{"a":"theirs-%d"}}`, i))
		fleettest.ExpectEventually(t, member, settings.DeepCopy(), func(c *corev1.ConfigMap) error { return equal("ours", c.Data["a"]) })
	}
	o := driftOf(t, fleet, ns, "settings", fieldIs("/data/a", fleetv1alpha1.DriftPutBack, `"ours"`, `"theirs-5"`, "a-controller"))
	if o.PutBack != 6 || len(o.Recent) != 6 || o.Recent[0].Manager != "a-controller" || o.Recent[0].Time.Before(&o.Recent[5].Time) {
		t.Errorf("the report is %+v", o)
	}
	events := &corev1.EventList{}
	if err := fleet.Hub.List(t.Context(), events, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, e := range events.Items {
		if e.Reason == "FieldPutBack" {
			shown = append(shown, e.Message)
		}
	}
	if len(shown) > 1 {
		t.Errorf("one dispute is several events: %q", shown)
	}
}

// A field that another manager owns and that was never ours is left, and reported so for as long as it differs.
func TestDriftThatIsLeftToAnotherManager(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	settings := fleettest.ConfigMap(ns, "settings", map[string]string{"a": "ours"})
	fleettest.Create(t, fleet.Hub, settings, fleettest.Policy(ns, "settings", fleettest.To("member1"), settings))
	member := fleet.Member("member1")
	fleettest.ExpectEventually(t, member, settings.DeepCopy(), fleettest.Exists)
	changeAs(t, member, settings, "a-person", `{"data":{"b":"theirs"}}`)
	fleettest.Update(t, fleet.Hub, settings, func(c *corev1.ConfigMap) { c.Data["b"] = "ours" })
	driftOf(t, fleet, ns, "settings", fieldIs("/data/b", fleetv1alpha1.DriftLeft, `"ours"`, `"theirs"`, "a-person"))
	fleettest.ExpectEventually(t, fleet.Hub, work("member1", "ConfigMap", ns, "settings"), workIs("Applied", metav1.ConditionFalse, "AppliedFailed"))

	fleettest.Update(t, fleet.Hub, settings, func(c *corev1.ConfigMap) { delete(c.Data, "b") })
	noDrift(t, fleet, ns, "settings")
}

// noDrift waits until nothing of a ConfigMap differs.
func noDrift(t *testing.T, fleet *fleettest.Fleet, ns, name string) {
	t.Helper()
	var last []fleetv1alpha1.DriftedObject
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, fleettest.Patience, true, func(ctx context.Context) (_ bool, err error) {
		last, err = reportOf(ctx, fleet.Hub, ns, name)
		return err == nil && !slices.ContainsFunc(last, func(o fleetv1alpha1.DriftedObject) bool {
			return drift.Stands(&o)
		}), nil
	}); err != nil {
		t.Fatalf("these still differ: %+v", last)
	}
}

// governed is a ConfigMap in member1 by a policy that says what happens to drift.
func governed(t *testing.T, fleet *fleettest.Fleet, mode string) (settings *corev1.ConfigMap, policy *policyv1alpha1.PropagationPolicy) {
	t.Helper()
	settings = fleettest.ConfigMap(fleet.Namespace(t), "settings", map[string]string{"a": "ours", "b": "ours"})
	policy = fleettest.Policy(settings.Namespace, "settings", fleettest.To("member1"), settings)
	policy.Annotations = map[string]string{policyv1alpha1.DriftAnnotation: mode}
	fleettest.Create(t, fleet.Hub, settings, policy)
	return settings, policy
}

// dataIs is the condition that a ConfigMap has these values.
func dataIs(want map[string]string) func(*corev1.ConfigMap) error {
	return func(c *corev1.ConfigMap) error {
		if !maps.Equal(c.Data, want) {
			return fmt.Errorf("data are %v, want %v", c.Data, want)
		}
		return nil
	}
}

// With Report what others changed stays, and the rest of a changed template is applied. With Repair again it is put back.
func TestDriftThatIsOnlyReported(t *testing.T) {
	fleet := shared.Start(t)
	settings, policy := governed(t, fleet, policyv1alpha1.DriftReport)
	ns, member := settings.Namespace, fleet.Member("member1")
	fleettest.ExpectEventually(t, member, settings.DeepCopy(), fleettest.Exists)
	changeAs(t, member, settings, "a-person", `{"data":{"a":"theirs"}}`)
	reported := fieldIs("/data/a", fleetv1alpha1.DriftReported, `"ours"`, `"theirs"`, "a-person")
	if o := driftOf(t, fleet, ns, "settings", reported); o.Mode != policyv1alpha1.DriftReport || o.PutBack != 0 {
		t.Errorf("the report is %+v", o)
	}
	expectWarning(t, fleet.Hub, settings, "FieldDrifted", regexp.QuoteMeta(`member1: ConfigMap settings: /data/a was changed by "a-person", and stays so by the policy`))
	fleettest.Update(t, fleet.Hub, settings, func(c *corev1.ConfigMap) { c.Data["b"] = "next" })
	fleettest.ExpectEventually(t, member, settings.DeepCopy(), dataIs(map[string]string{"a": "theirs", "b": "next"}))
	fleettest.ExpectEventually(t, fleet.Hub, work("member1", "ConfigMap", ns, "settings"), workIs("Applied", metav1.ConditionTrue, ""))
	driftOf(t, fleet, ns, "settings", reported)
	fleettest.Update(t, fleet.Hub, policy, func(p *policyType) { p.Annotations[policyv1alpha1.DriftAnnotation] = policyv1alpha1.DriftRepair })
	fleettest.ExpectEventually(t, member, settings.DeepCopy(), dataIs(map[string]string{"a": "ours", "b": "next"}))
	driftOf(t, fleet, ns, "settings", fieldIs("/data/a", fleetv1alpha1.DriftPutBack, `"ours"`, `"theirs"`, "a-person"))

	fleettest.Update(t, fleet.Hub, policy, func(p *policyType) { delete(p.Annotations, policyv1alpha1.DriftAnnotation) })
	unknown := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"Ignore"}}}`, policyv1alpha1.DriftAnnotation))
	if err := fleet.Hub.Patch(t.Context(), policy.DeepCopy(), unknown); err == nil || !strings.Contains(err.Error(), `metadata.annotations[flagship.io/drift]: Unsupported value: "Ignore"`) {
		t.Errorf("an unknown mode: %v", err)
	}
}

// The values of a member become those of the template on request, with a dry run before, and go to the other clusters.
func TestDriftThatIsAdopted(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	settings := fleettest.ConfigMap(ns, "settings", map[string]string{"a": "ours", "b": "ours", "c": "ours"})
	policy := fleettest.Policy(ns, "settings", fleettest.Everywhere(), settings)
	policy.Annotations = map[string]string{policyv1alpha1.DriftAnnotation: policyv1alpha1.DriftReport}
	fleettest.Create(t, fleet.Hub, settings, policy)
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, settings.DeepCopy(), fleettest.Exists)
	}
	changeAs(t, fleet.Member("member1"), settings, "a-person", `{"data":{"a":"theirs","b":"theirs"}}`)
	driftOf(t, fleet, ns, "settings", fieldIs("/data/b", fleetv1alpha1.DriftReported, `"ours"`, `"theirs"`, "a-person"))
	adopt := []string{"drift", "adopt", "--kubeconfig", fleet.Hub.Kubeconfig, "configmap/settings", "-n", ns, "--cluster", "member1"}
	r := fleettest.Flagship(t, append(adopt, "--field", "/data/a", "--dry-run")...)
	if r.Code != 0 || r.Stdout != "/data/a: \"ours\" → \"theirs\"\nnothing was written\n" {
		t.Errorf("the dry run answers %+v", r)
	}
	fleettest.ExpectEventually(t, fleet.Hub, settings.DeepCopy(), dataIs(map[string]string{"a": "ours", "b": "ours", "c": "ours"}))
	if r := fleettest.Flagship(t, append(adopt, "--field", "/data/a")...); r.Code != 0 || !strings.Contains(r.Stdout, "all its clusters get them") {
		t.Errorf("the command answers %+v", r)
	}
	fleettest.ExpectEventually(t, fleet.Hub, settings.DeepCopy(), dataIs(map[string]string{"a": "theirs", "b": "ours", "c": "ours"}))
	fleettest.ExpectEventually(t, fleet.Member("member2"), settings.DeepCopy(), dataIs(map[string]string{"a": "theirs", "b": "ours", "c": "ours"}))
	fleettest.ExpectEventually(t, fleet.Member("member1"), settings.DeepCopy(), dataIs(map[string]string{"a": "theirs", "b": "theirs", "c": "ours"}))
	if r := fleettest.Flagship(t, append(adopt, "--field", "/data/c")...); r.Code == 0 || !strings.Contains(r.Stderr, "the field /data/c is not known to differ") {
		t.Errorf("a field that does not differ: %+v", r)
	}

	// The binding has how many copies differ, and since when, as long as they do.
	b := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), bindingIs("Drifted", metav1.ConditionTrue, "CopiesDiffer"))
	t.Logf("%+v", meta.FindStatusCondition(b.Status.Conditions, "Drifted"))
	if c := meta.FindStatusCondition(b.Status.Conditions, "Drifted"); !strings.HasPrefix(c.Message, "driftedObjects: 1, oldest: ") || !strings.HasSuffix(c.Message, "clusters: member1") {
		t.Errorf("the condition is %+v", c)
	}
	if r := fleettest.Flagship(t, adopt...); r.Code != 0 {
		t.Errorf("the command answers %+v", r)
	}
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), func(b *workv1alpha2.ResourceBinding) error {
		if c := meta.FindStatusCondition(b.Status.Conditions, "Drifted"); c != nil {
			return fmt.Errorf("the condition is %+v", c)
		}
		return nil
	})
}

// With Pause nothing is written to the object from the first change on, not even a new version, until that is acknowledged.
func TestDriftThatIsPausedAndAcknowledged(t *testing.T) {
	fleet := shared.Start(t)
	settings, policy := governed(t, fleet, policyv1alpha1.DriftPause)
	ns, member := settings.Namespace, fleet.Member("member1")
	fleettest.ExpectEventually(t, member, settings.DeepCopy(), fleettest.Exists)
	changeAs(t, member, settings, "a-person", `{"data":{"a":"theirs"}}`)
	driftOf(t, fleet, ns, "settings", fieldIs("/data/a", fleetv1alpha1.DriftPaused, `"ours"`, `"theirs"`, "a-person"))
	fleettest.Update(t, fleet.Hub, settings, func(c *corev1.ConfigMap) { c.Data["b"] = "next" })
	w := fleettest.ExpectEventually(t, fleet.Hub, work("member1", "ConfigMap", ns, "settings"), workIs("Applied", metav1.ConditionFalse, "Held"))
	if c := meta.FindStatusCondition(w.Status.Conditions, "Applied"); !strings.Contains(c.Message, "flagship drift ack") || !strings.Contains(c.Message, "/data/a") {
		t.Errorf("the condition is %+v", c)
	}
	fleettest.ExpectEventually(t, member, settings.DeepCopy(), dataIs(map[string]string{"a": "theirs", "b": "ours"}))

	access := []string{"--kubeconfig", fleet.Hub.Kubeconfig, "configmap/settings", "-n", ns}
	if r := fleettest.Flagship(t, append([]string{"drift", "ack"}, access...)...); r.Code != 0 || r.Stdout != "acknowledged: configmap/settings is put back in member1\n" {
		t.Errorf("the command answers %+v", r)
	}
	fleettest.ExpectEventually(t, member, settings.DeepCopy(), dataIs(map[string]string{"a": "ours", "b": "next"}))
	noDrift(t, fleet, ns, "settings")
	if r := fleettest.Flagship(t, append([]string{"drift", "ack"}, access...)...); r.Code == 0 || !strings.Contains(r.Stderr, "nothing of configmap/settings is paused") {
		t.Errorf("without anything that is paused: %+v", r)
	}

	// A Work that is paused can be deleted.
	changeAs(t, member, settings, "a-person", `{"data":{"a":"theirs"}}`)
	fleettest.Delete(t, fleet.Hub, settings, policy)
	fleettest.ExpectGone(t, member, settings.DeepCopy())
}

// With CreateOnly an object is created, also again, and never updated; it is deleted with its template.
func TestDriftOfWhatIsOnlyCreated(t *testing.T) {
	fleet := shared.Start(t)
	settings, _ := governed(t, fleet, policyv1alpha1.DriftCreateOnly)
	ns, member := settings.Namespace, fleet.Member("member1")
	first := fleettest.ExpectEventually(t, member, settings.DeepCopy(), dataIs(map[string]string{"a": "ours", "b": "ours"}))
	changeAs(t, member, settings, "a-person", `{"data":{"a":"theirs"}}`)
	fleettest.Update(t, fleet.Hub, settings, func(c *corev1.ConfigMap) { c.Data["b"] = "next" })
	fleettest.ExpectEventually(t, fleet.Hub, work("member1", "ConfigMap", ns, "settings"), func(w *workv1alpha1.Work) error {
		if c := meta.FindStatusCondition(w.Status.Conditions, "Applied"); c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != w.Generation ||
			!strings.Contains(string(w.Spec.Workload.Manifests[0].Raw), "next") {
			return fmt.Errorf("the Work is %+v", w)
		}
		return nil
	})
	driftOf(t, fleet, ns, "settings", fieldIs("/data/b", fleetv1alpha1.DriftReported, `"next"`, `"ours"`, ""))
	driftOf(t, fleet, ns, "settings", fieldIs("/data/a", fleetv1alpha1.DriftReported, `"ours"`, `"theirs"`, "a-person"))
	fleettest.ExpectEventually(t, member, settings.DeepCopy(), dataIs(map[string]string{"a": "theirs", "b": "ours"}))
	fleettest.Delete(t, member, first)
	fleettest.ExpectEventually(t, member, settings.DeepCopy(), dataIs(map[string]string{"a": "ours", "b": "next"}))
	fleettest.Delete(t, fleet.Hub, settings)
	fleettest.ExpectGone(t, member, settings.DeepCopy())
}

// With ObserveOnly an object that the member has is never written, not even marked; its status is collected, and it outlives its template. It
// takes a minute beside other tests: objects that are only observed are read once a minute.
func TestDriftOfWhatIsOnlyObserved(t *testing.T) {
	t.Parallel()
	fleet := shared.Start(t)
	ns, member := fleet.Namespace(t), fleet.Member("member1")
	fleettest.ExpectEventually(t, member, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, fleettest.Exists)
	web := fleettest.Deployment(ns, "web", 1)
	policy := fleettest.Policy(ns, "web", fleettest.To("member1"), web)
	policy.Annotations = map[string]string{policyv1alpha1.DriftAnnotation: policyv1alpha1.DriftObserveOnly}
	theirs := web.DeepCopy()
	theirs.Spec.Replicas = ptr.To(int32(2))
	fleettest.Create(t, fleet.Hub, web, policy)
	fleettest.ExpectEventually(t, fleet.Hub, work("member1", "Deployment", ns, "web"), func(w *workv1alpha1.Work) error {
		if c := meta.FindStatusCondition(w.Status.Conditions, "Applied"); c == nil || !strings.Contains(c.Message, "only observes it") {
			return fmt.Errorf("the conditions are %+v", w.Status.Conditions)
		}
		return nil
	})
	fleettest.Create(t, member, theirs)
	fleettest.ExpectEventually(t, fleet.Hub, web.DeepCopy(), func(d *appsv1.Deployment) error {
		if d.Status.ReadyReplicas != 2 {
			return fmt.Errorf("the status is %+v", d.Status)
		}
		return nil
	})
	var q *fleetv1alpha1.DriftReport
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, fleettest.Patience, true, func(ctx context.Context) (bool, error) { // a loop of its own
		q = &fleetv1alpha1.DriftReport{Spec: fleetv1alpha1.DriftReportSpec{Kind: "Deployment", Namespace: ns, Name: "web", Cluster: "member1"}}
		err := fleet.Hub.Create(ctx, q)
		return err == nil && len(q.Status.Objects) == 1 && len(q.Status.Objects[0].Fields) > 0 &&
			fieldIs("/spec/replicas", fleetv1alpha1.DriftReported, "1", "2", q.Status.Objects[0].Fields[0].Manager)(&q.Status.Objects[0]) == nil, nil
	}); err != nil {
		t.Errorf("the report is %+v, %v", q.Status, err)
	}
	fleettest.Delete(t, fleet.Hub, web)
	fleettest.ExpectGone(t, fleet.Hub, work("member1", "Deployment", ns, "web"))
	kept := fleettest.ExpectEventually(t, member, theirs.DeepCopy(), fleettest.Exists)
	if kept.Generation != 1 || kept.DeletionTimestamp != nil || kept.Labels[workv1alpha1.ManagedLabel] != "" || kept.Annotations[workv1alpha1.WorkNameAnnotation] != "" {
		t.Errorf("it was written: generation %d, labels %v, annotations %v", kept.Generation, kept.Labels, kept.Annotations)
	}
	fleettest.Delete(t, member, theirs)
}
