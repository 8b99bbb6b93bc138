package pipeline_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// handMade is a Work for member1 with the objects as manifests, in their order.
func handMade(t *testing.T, name string, objects ...any) *workv1alpha1.Work {
	t.Helper()
	w := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: workv1alpha1.ExecutionNamespace("member1"), Name: name}}
	for _, o := range objects {
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		m := workv1alpha1.Manifest{}
		m.Raw = raw
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, m)
	}
	return w
}

func typed(c *corev1.ConfigMap) *corev1.ConfigMap {
	c.APIVersion, c.Kind = "v1", "ConfigMap"
	return c
}

// A field that another manager in the member owns, and that we never set, stays theirs: the condition names it and them, the
// rest is applied, and all is well once they let go.
func TestAFieldOfAnotherManagerIsAConflict(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m := fleet.Member("member1")
	settings := fleettest.ConfigMap(ns, "settings", map[string]string{"a": "1"})
	fleettest.Create(t, fleet.Hub, settings, fleettest.Policy(ns, "settings", fleettest.To("member1"), settings))
	fleettest.ExpectEventually(t, m, settings, fleettest.Exists)
	theirs := typed(fleettest.ConfigMap(ns, "settings", map[string]string{"shared": "theirs"}))
	//nolint:staticcheck // The other apply needs generated types.
	if err := m.Patch(t.Context(), theirs, client.Apply, client.FieldOwner("other-manager")); err != nil {
		t.Fatal(err)
	}
	fleettest.Update(t, fleet.Hub, settings, func(c *corev1.ConfigMap) {
		c.Data = map[string]string{"a": "2", "shared": "ours"}
	})
	w := work("member1", "ConfigMap", ns, "settings")
	fleettest.ExpectEventually(t, fleet.Hub, w, func(w *workv1alpha1.Work) error {
		if err := workIs("Applied", metav1.ConditionFalse, "AppliedFailed")(w); err != nil {
			return err
		}
		message := meta.FindStatusCondition(w.Status.Conditions, workv1alpha1.WorkApplied).Message
		if !strings.Contains(message, ".data.shared") || !strings.Contains(message, "other-manager") {
			return fmt.Errorf("it says %q", message)
		}
		return nil
	})
	fleettest.ExpectEventually(t, m, settings, func(c *corev1.ConfigMap) error {
		return errors.Join(equal("2", c.Data["a"]), equal("theirs", c.Data["shared"]))
	})
	nothing := typed(fleettest.ConfigMap(ns, "settings", nil))
	//nolint:staticcheck // The other apply needs generated types.
	if err := m.Patch(t.Context(), nothing, client.Apply, client.FieldOwner("other-manager")); err != nil {
		t.Fatal(err)
	}
	fleettest.ExpectEventually(t, fleet.Hub, w, workIs("Applied", metav1.ConditionTrue, ""))
	fleettest.ExpectEventually(t, m, settings, func(c *corev1.ConfigMap) error { return equal("ours", c.Data["shared"]) })
}

// Namespaces come first, then definitions, then the rest, whatever their order in the Work; what cannot be applied yet
// holds up nothing else.
func TestAWorkBringsWhatItsObjectsNeed(t *testing.T) {
	t.Parallel()
	fleet := shared.Start(t)
	m := fleet.Member("member1")
	definition := widgetDefinition()
	definition.Name, definition.Spec.Group = "widgets.order.example.io", "order.example.io"
	definition.TypeMeta = metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}
	ns := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "pipeline-order"}}
	custom := func(group string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": group + "/v1", "kind": "Widget", "metadata": map[string]any{"namespace": ns.Name, "name": "gear"},
		}}
	}
	unserved := custom("unserved.example.io")
	w := handMade(t, "order", unserved, custom("order.example.io"), definition, typed(fleettest.ConfigMap(ns.Name, "settings", nil)), ns)
	fleettest.Create(t, fleet.Hub, w)
	fleettest.ExpectEventually(t, m, definition, established)
	fleettest.ExpectEventually(t, m, custom("order.example.io"), fleettest.Exists)
	fleettest.ExpectEventually(t, m, fleettest.ConfigMap(ns.Name, "settings", nil), fleettest.Exists)
	for _, o := range []client.Object{ns, definition, custom("order.example.io"), fleettest.ConfigMap(ns.Name, "settings", nil)} {
		expectMarks(t, m, o, w)
	}
	fleettest.ExpectEventually(t, fleet.Hub, w, func(w *workv1alpha1.Work) error {
		if err := workIs("Applied", metav1.ConditionFalse, "AppliedFailed")(w); err != nil {
			return err
		}
		if message := meta.FindStatusCondition(w.Status.Conditions, workv1alpha1.WorkApplied).Message; !strings.Contains(message, "(4/5)") || !strings.Contains(message, "unserved.example.io") {
			return fmt.Errorf("it says %q", message)
		}
		if err := workIs("Available", metav1.ConditionFalse, "")(w); err != nil {
			return err
		}
		if message := meta.FindStatusCondition(w.Status.Conditions, workv1alpha1.WorkAvailable).Message; !strings.Contains(message, "Widget pipeline-order/gear") {
			return fmt.Errorf("it says %q", message)
		}
		return nil
	})
	for _, kind := range []string{"Applied", "Available", "Degraded", "Dispatching", "Progressing"} {
		present := &workv1alpha1.Work{}
		if err := fleet.Hub.Get(t.Context(), client.ObjectKeyFromObject(w), present); err != nil {
			t.Fatal(err)
		}
		if c := meta.FindStatusCondition(present.Status.Conditions, kind); c == nil || c.ObservedGeneration != present.Generation {
			t.Errorf("condition %s is %+v", kind, c)
		}
	}
	late := widgetDefinition()
	late.Name, late.Spec.Group = "widgets.unserved.example.io", "unserved.example.io"
	fleettest.Create(t, m, late)
	fleettest.ExpectEventually(t, m, late, established)
	fleettest.ExpectEventually(t, m, unserved, fleettest.Exists)
	fleettest.ExpectEventually(t, fleet.Hub, w, workIs("Applied", metav1.ConditionTrue, ""))
	fleettest.ExpectEventually(t, fleet.Hub, w, workIs("Available", metav1.ConditionTrue, ""))
	fleettest.Delete(t, fleet.Hub, w)
	fleettest.ExpectGone(t, fleet.Hub, w)
	for _, o := range []client.Object{definition, ns} {
		fleettest.ExpectGone(t, m, o)
	}
}

// expectMarks looks for what leads from an object in a member to the Work that a person wrote for it.
func expectMarks(t *testing.T, m *fleettest.Cluster, object client.Object, w *workv1alpha1.Work) {
	t.Helper()
	there := object.DeepCopyObject().(client.Object)
	if err := m.Get(t.Context(), client.ObjectKeyFromObject(object), there); err != nil {
		t.Fatal(err)
	}
	id := w.Labels[workv1alpha1.WorkPermanentIDLabel]
	labels, annotations := there.GetLabels(), there.GetAnnotations()
	if labels[workv1alpha1.ManagedLabel] != "true" || id == "" || labels[workv1alpha1.WorkPermanentIDLabel] != id ||
		annotations[workv1alpha1.WorkNamespaceAnnotation] != w.Namespace || annotations[workv1alpha1.WorkNameAnnotation] != w.Name {
		t.Errorf("%s of the Work with id %q has labels %v and annotations %v", key(there), id, labels, annotations)
	}
}

// A suspended Work is neither written nor repaired, and nothing of it is deleted; its status goes on.
func TestASuspendedWorkIsLeftAsItIs(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m := fleet.Member("member1")
	fleettest.ExpectEventually(t, m, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, fleettest.Exists)
	web := fleettest.Deployment(ns, "web", 1)
	web.APIVersion, web.Kind = "apps/v1", "Deployment"
	w := handMade(t, ns+"-suspended", web)
	fleettest.Create(t, fleet.Hub, w)
	fleettest.ExpectEventually(t, m, web, fleettest.Available)
	next := web.DeepCopy()
	*next.Spec.Replicas = 3
	changed := handMade(t, w.Name, next)
	fleettest.Update(t, fleet.Hub, w, func(w *workv1alpha1.Work) {
		w.Spec.SuspendDispatching = ptr.To(true)
		w.Spec.Workload = changed.Spec.Workload
	})
	fleettest.ExpectEventually(t, fleet.Hub, w, workIs("Dispatching", metav1.ConditionFalse, "SuspendDispatching"))
	fleettest.Update(t, m, web.DeepCopy(), func(d *appsv1.Deployment) { *d.Spec.Replicas = 2 })
	fleettest.ExpectEventually(t, fleet.Hub, w, func(w *workv1alpha1.Work) error {
		if len(w.Status.ManifestStatuses) != 1 || !strings.Contains(string(w.Status.ManifestStatuses[0].Status.Raw), `"readyReplicas":2`) {
			return fmt.Errorf("the status is %+v", w.Status.ManifestStatuses)
		}
		return nil
	})
	fleettest.ExpectEventually(t, m, web, fleettest.Replicas(2)) // neither repaired nor changed
	fleettest.Update(t, fleet.Hub, w, func(w *workv1alpha1.Work) { w.Spec.SuspendDispatching = nil })
	fleettest.ExpectEventually(t, m, web, fleettest.Replicas(3))
	fleettest.ExpectEventually(t, fleet.Hub, w, workIs("Dispatching", metav1.ConditionTrue, ""))
	fleettest.Delete(t, fleet.Hub, w)
	fleettest.ExpectGone(t, m, web)
}

// What is to be preserved stays without our marks, and nothing of ours comes near it again.
func TestAPreservedObjectIsReleased(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m := fleet.Member("member1")
	settings := fleettest.ConfigMap(ns, "settings", map[string]string{"a": "1"})
	settings.Labels = map[string]string{"mine": "yes"}
	policy := fleettest.Policy(ns, "settings", fleettest.To("member1"), settings)
	policy.Spec.PreserveResourcesOnDeletion = ptr.To(true)
	fleettest.Create(t, fleet.Hub, settings, policy)
	first := fleettest.ExpectEventually(t, m, settings, fleettest.Exists)
	fleettest.Delete(t, fleet.Hub, settings)
	fleettest.ExpectGone(t, fleet.Hub, work("member1", "ConfigMap", ns, "settings"))
	left := fleettest.ExpectEventually(t, m, settings, fleettest.Exists)
	if left.UID != first.UID || left.Data["a"] != "1" || left.Labels["mine"] != "yes" {
		t.Errorf("it is not what it was: %+v", left)
	}
	if left.Labels[workv1alpha1.ReleasedByLabel] == "" {
		t.Error("it does not say which control plane released it")
	}
	for _, marks := range []map[string]string{left.Labels, left.Annotations} {
		for key := range marks {
			if key != workv1alpha1.ReleasedByLabel && (strings.Contains(key, "karmada.io/") || strings.Contains(key, "flagship.io/")) {
				t.Errorf("it still carries %s", key)
			}
		}
	}
}

// An object that our predecessor wrote with plain updates becomes ours: fields that it set and that are not desired any more are removed.
func TestAnObjectOfAPredecessorIsTakenOver(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m := fleet.Member("member1")
	fleettest.ExpectEventually(t, m, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, fleettest.Exists)
	w := work("member1", "ConfigMap", ns, "settings")
	old := fleettest.ConfigMap(ns, "settings", map[string]string{"a": "1", "stale": "yes"})
	old.Labels = map[string]string{workv1alpha1.ManagedLabel: workv1alpha1.ManagedLabelValue}
	old.Annotations = map[string]string{workv1alpha1.WorkNamespaceAnnotation: w.Namespace, workv1alpha1.WorkNameAnnotation: w.Name}
	if err := m.Create(t.Context(), old, client.FieldOwner("karmada-controller-manager")); err != nil {
		t.Fatal(err)
	}
	settings := fleettest.ConfigMap(ns, "settings", map[string]string{"a": "2"})
	fleettest.Create(t, fleet.Hub, settings, fleettest.Policy(ns, "settings", fleettest.To("member1"), settings))
	now := fleettest.ExpectEventually(t, m, settings, dataIs(map[string]string{"a": "2"}))
	if now.UID != old.UID {
		t.Error("it is another object")
	}
	fleettest.ExpectEventually(t, fleet.Hub, w, workIs("Applied", metav1.ConditionTrue, ""))
}

// What cannot become an object in a member is refused, and the refusal says where it is.
func TestBadManifestsAreRefused(t *testing.T) {
	fleet := shared.Start(t)
	settings := typed(fleettest.ConfigMap("default", "refused", nil))
	large := typed(fleettest.ConfigMap("default", "large", map[string]string{"a": strings.Repeat("x", 1_400_000)}))
	for reason, c := range map[string]struct {
		manifest any
		want     string
	}{
		"the same object twice": {settings, "manifests[1]: Duplicate"},
		"more than fits":        {large, "manifests[1]: Invalid"},
		"a list":                {map[string]any{"apiVersion": "v1", "kind": "List", "items": []any{settings}}, "manifests[1].kind: Forbidden"},
		"no object":             {"text", "manifests[1]: Invalid"},
		"a number for a label": {map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{
			"name": "a", "labels": map[string]any{"tier": 1}}}, "manifests[1].metadata.labels: Invalid"},
		"nothing that says what it is": {map[string]any{}, "manifests[1].metadata.name: Required"},
	} {
		err := fleet.Hub.Create(t.Context(), handMade(t, "refused", settings, c.manifest))
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.workload."+c.want) {
			t.Errorf("%s: got %v", reason, err)
		}
	}
	elsewhere := handMade(t, "refused", settings)
	elsewhere.Namespace = "default"
	if err := fleet.Hub.Create(t.Context(), elsewhere); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "metadata.namespace") {
		t.Errorf("in a namespace of no cluster: got %v", err)
	}
}

// An override that cannot be applied says which rule, path and cluster it is about, and leaves the last good Work in place.
func TestAnImpossibleOverrideLeavesWhatIsThere(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	web := fleettest.Deployment(ns, "web", 1)
	override := &policyv1alpha1.OverridePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "images"},
		Spec: policyv1alpha1.OverrideSpec{
			ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}},
			OverrideRules: []policyv1alpha1.RuleWithCluster{{
				TargetCluster: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member2"}},
				Overriders: policyv1alpha1.Overriders{ImageOverrider: []policyv1alpha1.ImageOverrider{{
					Component: policyv1alpha1.Tag, Operator: policyv1alpha1.OverriderOpReplace, Value: "second",
				}}},
			}},
		},
	}
	fleettest.Create(t, fleet.Hub, override, web, fleettest.Policy(ns, "web", fleettest.Everywhere(), web))
	image := func(want string) func(*appsv1.Deployment) error {
		return func(d *appsv1.Deployment) error { return equal(want, d.Spec.Template.Spec.Containers[0].Image) }
	}
	fleettest.ExpectEventually(t, fleet.Member("member1"), web, image("nginx"))
	fleettest.ExpectEventually(t, fleet.Member("member2"), web, image("nginx:second"))
	fleettest.Update(t, fleet.Hub, override, func(o *policyv1alpha1.OverridePolicy) {
		o.Spec.OverrideRules[0].Overriders.Plaintext = []policyv1alpha1.PlaintextOverrider{{
			Path: "/spec/nowhere/at/all", Operator: policyv1alpha1.OverriderOpRemove,
		}}
	})
	of := binding(ns, "Deployment", "web")
	fleettest.ExpectEventually(t, fleet.Hub, of, func(b *workv1alpha2.ResourceBinding) error {
		if err := bindingIs("Rendered", metav1.ConditionFalse, "OverrideFailed")(b); err != nil {
			return err
		}
		message := meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.Rendered).Message
		for _, part := range []string{"images", "/spec/nowhere/at/all", "member2"} {
			if !strings.Contains(message, part) {
				return fmt.Errorf("it does not name %s: %s", part, message)
			}
		}
		return nil
	})
	expectEvent(t, fleet.Hub, web, "/spec/nowhere/at/all")
	fleettest.ExpectEventually(t, fleet.Hub, of, bindingIs("FullyApplied", metav1.ConditionFalse, "FullyAppliedFailed"))
	fleettest.ExpectEventually(t, fleet.Member("member2"), web, image("nginx:second"))
	fleettest.Update(t, fleet.Hub, override, func(o *policyv1alpha1.OverridePolicy) {
		o.Spec.OverrideRules[0].Overriders.Plaintext = nil
		o.Spec.OverrideRules[0].Overriders.ImageOverrider[0].Value = "third"
	})
	fleettest.ExpectEventually(t, fleet.Member("member2"), web, image("nginx:third"))
	fleettest.ExpectEventually(t, fleet.Hub, of, func(b *workv1alpha2.ResourceBinding) error {
		if slices.ContainsFunc(b.Status.Conditions, func(c metav1.Condition) bool { return c.Type == workv1alpha2.Rendered }) {
			return errors.New("the condition is still there")
		}
		return bindingIs("FullyApplied", metav1.ConditionTrue, "FullyAppliedSuccess")(b)
	})
}
