package pipeline_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// Each step on the way of an object reports its success as an event of the template, the binding or the Work, in Karmada's words where
// its clients match them.
func TestEachStepPublishesItsSuccess(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	settings := fleettest.ConfigMap(ns, "settings", nil)
	web := fleettest.Deployment(ns, "web", 1)
	web.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "settings", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: settings.Name}},
	}}}
	policy := fleettest.Policy(ns, "web", fleettest.To("member1"), web)
	policy.Spec.PropagateDeps = true
	override := &policyv1alpha1.OverridePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "colour"},
		Spec: policyv1alpha1.OverrideSpec{
			ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}},
			OverrideRules: []policyv1alpha1.RuleWithCluster{{Overriders: policyv1alpha1.Overriders{
				LabelsOverrider: []policyv1alpha1.LabelAnnotationOverrider{{Operator: policyv1alpha1.OverriderOpAdd, Value: map[string]string{"colour": "blue"}}},
			}}},
		},
	}
	fleettest.Create(t, fleet.Hub, override, settings, web, policy)
	copied := work("member1", "Deployment", ns, "web")
	for _, c := range []struct{ namespace, object, reason, message string }{
		{ns, "web", "ApplyPolicySucceed", ""},
		{ns, "web", "GetReplicasSucceed", ""},
		{ns, "web", "GetDependenciesSucceed", ""},
		{ns, "web", "ApplyOverridePolicySucceed", ""},
		{ns, "web", "ScheduleBindingSucceed", "Binding has been scheduled successfully. Result: {member1:1}"},
		{ns, "web", "SyncWorkSucceed", ""},
		{ns, "web", "AggregateStatusSucceed", ""},
		{ns, "web-deployment", "SyncWorkSucceed", ""},
		{ns, "web-deployment", "SyncScheduleResultToDependenciesSucceed", ""},
		{ns, "web-deployment", "AggregateStatusSucceed", ""},
		{copied.Namespace, copied.Name, "SyncSucceed", ""},
		{copied.Namespace, copied.Name, "ReflectStatusSucceed", ""},
		{copied.Namespace, copied.Name, "InterpretHealthSucceed", ""},
		{copied.Namespace, copied.Name, "WorkDispatching", "Work is being dispatched to member clusters."},
	} {
		expectSuccess(t, fleet.Hub, c.namespace, c.object, c.reason, c.message)
	}
	fleettest.Update(t, fleet.Hub, policy, func(p *policyv1alpha1.PropagationPolicy) {
		yes := true
		p.Spec.Suspension = &policyv1alpha1.Suspension{Dispatching: &yes}
	})
	expectSuccess(t, fleet.Hub, copied.Namespace, copied.Name, "WorkDispatching", "Work dispatching is in a suspended state.")
	fleettest.ExpectEventually(t, fleet.Hub, copied, func(w *workv1alpha1.Work) error {
		return workIs("Dispatching", metav1.ConditionFalse, "SuspendDispatching")(w)
	})
}

// expectSuccess waits for an event of an object, with this message unless it is empty.
func expectSuccess(t *testing.T, hub *fleettest.Cluster, namespace, object, reason, message string) {
	t.Helper()
	fleettest.ExpectListed(t, hub, &corev1.EventList{}, namespace, func(found *corev1.EventList) error {
		for _, e := range found.Items {
			if e.InvolvedObject.Name == object && e.Reason == reason && (message == "" || e.Message == message) {
				return nil
			}
		}
		return fmt.Errorf("none of %d events is %s of %s", len(found.Items), reason, object)
	})
}

// A warning of the pods of a template in several members is one event of the template. Those of other pods are not shown.
func TestWarningsOfMembersAreEventsOfTheTemplate(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	web := fleettest.Deployment(ns, "web", 1)
	web.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10k")}
	fleettest.Create(t, fleet.Hub, web, fleettest.Policy(ns, "web", fleettest.To("member1", "member2"), web))
	for _, name := range []string{"member1", "member2"} {
		member := fleet.Member(name)
		var pod corev1.Pod
		fleettest.ExpectListed(t, member, &corev1.PodList{}, ns, func(pods *corev1.PodList) error {
			for _, p := range pods.Items {
				if strings.HasPrefix(p.Name, "web-") {
					pod = p
					return nil
				}
			}
			return fmt.Errorf("none of %d pods is of the Deployment", len(pods.Items))
		})
		alone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web-alone"}, Spec: web.Spec.Template.Spec}
		fleettest.Create(t, member, alone)
		// The simulated kubelets pull no images.
		for _, p := range []*corev1.Pod{alone, &pod} {
			now := metav1.Now()
			fleettest.Create(t, member, &corev1.Event{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: p.Name + ".failed"},
				InvolvedObject: corev1.ObjectReference{
					APIVersion: "v1", Kind: "Pod", Namespace: ns, Name: p.Name, UID: p.UID, FieldPath: "spec.containers{main}",
				},
				Type: corev1.EventTypeWarning, Reason: "BackOff", Message: `Back-off pulling image "web:1.2" of ` + p.Name,
				FirstTimestamp: now, LastTimestamp: now, Count: 1,
			})
		}
	}
	both := `2 clusters (member1, member2): Pod web-*: `
	expectWarning(t, fleet.Hub, web, "BackOff", regexp.QuoteMeta(both+`Back-off pulling image "web:1.2" of web-*`))
	expectWarning(t, fleet.Hub, web, "FailedScheduling", regexp.QuoteMeta(both)+".*nodes are available.*")
	list := &corev1.EventList{}
	if err := fleet.Hub.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Reason == "BackOff" && strings.Contains(e.Message, "alone") {
			t.Errorf("an event of a pod that is not managed is shown: %s %s", e.InvolvedObject.Name, e.Message)
		}
	}
}

// expectWarning waits for an event of a member on a template.
func expectWarning(t *testing.T, hub *fleettest.Cluster, template client.Object, reason, message string) {
	t.Helper()
	matches := regexp.MustCompile("^" + message + "$")
	fleettest.ExpectListed(t, hub, &corev1.EventList{}, template.GetNamespace(), func(found *corev1.EventList) error {
		var others []string
		for _, e := range found.Items {
			if e.Type != corev1.EventTypeWarning {
				continue
			}
			if e.InvolvedObject.UID == template.GetUID() && e.Reason == reason && matches.MatchString(e.Message) {
				return nil
			}
			others = append(others, e.Reason+": "+e.Message)
		}
		return fmt.Errorf("no event is %s %q; the warnings are %q", reason, message, others)
	})
}

// A field that others change in a member is put back, and an event of the template has the field and who changed it.
func TestAFieldThatIsPutBackIsAnEventOfTheTemplate(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	settings := fleettest.ConfigMap(ns, "settings", map[string]string{"a": "ours", "b": "ours"})
	fleettest.Create(t, fleet.Hub, settings, fleettest.Policy(ns, "settings", fleettest.To("member1"), settings))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), bindingIs("FullyApplied", metav1.ConditionTrue, ""))
	member := fleet.Member("member1")
	theirs := fleettest.ConfigMap(ns, "settings", nil)
	if err := member.Patch(t.Context(), theirs, client.RawPatch(types.MergePatchType, []byte(`{"data":{"a":"theirs","c":"theirs"}}`)), client.FieldOwner("a-person")); err != nil {
		t.Fatal(err)
	}
	expectWarning(t, fleet.Hub, settings, "FieldPutBack", regexp.QuoteMeta(`member1: ConfigMap settings: /data/a was changed by "a-person" and is put back`))
	fleettest.ExpectEventually(t, member, theirs, func(c *corev1.ConfigMap) error {
		if c.Data["a"] != "ours" || c.Data["c"] != "theirs" {
			return fmt.Errorf("data are %v", c.Data)
		}
		return nil
	})
}
