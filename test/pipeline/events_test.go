package pipeline_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
