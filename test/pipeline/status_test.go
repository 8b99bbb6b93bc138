package pipeline_test

import (
	"fmt"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// serve creates a definition on the control plane that all members get.
func serve(t *testing.T, fleet *fleettest.Fleet, group, version, kind, plural string, subresources *apiextensionsv1.CustomResourceSubresources) {
	t.Helper()
	open := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	definition := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group, Annotations: map[string]string{workv1alpha1.AllowDeletionAnnotation: "true"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: plural},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: version, Served: true, Storage: true, Subresources: subresources,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": open, "status": open},
				}},
			}},
		},
	}
	fleettest.Create(t, fleet.Hub, definition, fleettest.ClusterPolicy(plural, fleettest.Everywhere(), definition))
	fleettest.ExpectEventually(t, fleet.Hub, definition.DeepCopy(), definitionIs("Established", apiextensionsv1.ConditionTrue))
}

// healthIn is the condition of a binding whose copies are applied and of a health.
func healthIn(clusters int, health workv1alpha2.ResourceHealth) func(*workv1alpha2.ResourceBinding) error {
	return func(b *workv1alpha2.ResourceBinding) error {
		items := b.Status.AggregatedStatus
		if len(items) != clusters || slices.ContainsFunc(items, func(i workv1alpha2.AggregatedStatusItem) bool { return !i.Applied || i.Health != health }) {
			return fmt.Errorf("the aggregated status is %+v", items)
		}
		return nil
	}
}

// TestACustomResourceThatNothingTouched: its health is not known until something reports, and it can still move to another cluster.
func TestACustomResourceThatNothingTouched(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	serve(t, fleet, "mon.example.com", "v1", "Gauge", "gauges", &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}})
	gauge := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "mon.example.com/v1", "kind": "Gauge", "metadata": map[string]any{"namespace": ns, "name": "g"}, "spec": map[string]any{"replicas": int64(2)},
	}}
	policy := fleettest.Policy(ns, "g", fleettest.To("member1"), gauge)
	fleettest.Create(t, fleet.Hub, policy, gauge.DeepCopy())
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Gauge", "g"), healthIn(1, workv1alpha2.ResourceUnknown))
	fleettest.ExpectEventually(t, fleet.Hub, work("member1", "Gauge", ns, "g"), workIs(workv1alpha1.WorkProgressing, metav1.ConditionTrue, workv1alpha1.RollingOutReason))
	expectExplained(t, fleet.Hub, "Gauge", ns, "g", "nothing in the cluster has reported a status of the object")
	fleettest.Update(t, fleet.Hub, policy.DeepCopy(), func(p *policyv1alpha1.PropagationPolicy) { p.Spec.Placement = fleettest.To("member2") })
	fleettest.ExpectEventually(t, fleet.Member("member2"), gauge.DeepCopy(), fleettest.Exists)
	fleettest.ExpectGone(t, fleet.Member("member1"), gauge.DeepCopy())
	fleettest.UpdateStatus(t, fleet.Member("member2"), gauge.DeepCopy(), func(g *unstructured.Unstructured) {
		g.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
	})
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Gauge", "g"), healthIn(1, workv1alpha2.ResourceHealthy))
	fleettest.ExpectEventually(t, fleet.Hub, work("member2", "Gauge", ns, "g"), workIs(workv1alpha1.WorkProgressing, metav1.ConditionFalse, workv1alpha1.RolloutFinishedReason))
}

// TestAStatusWithoutTheSubresource: what a cluster reports cannot be written into the template, which an event and an explanation say.
func TestAStatusWithoutTheSubresource(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	serve(t, fleet, "argoproj.io", "v1alpha1", "Workflow", "workflows", nil)
	hello := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": map[string]any{"namespace": ns, "name": "hello"}, "spec": map[string]any{"entrypoint": "main"},
	}}
	template := hello.DeepCopy()
	fleettest.Create(t, fleet.Hub, fleettest.Policy(ns, "hello", fleettest.To("member1"), hello), template)
	fleettest.ExpectEventually(t, fleet.Member("member1"), hello.DeepCopy(), fleettest.Exists)
	fleettest.Update(t, fleet.Member("member1"), hello.DeepCopy(), func(w *unstructured.Unstructured) { w.Object["status"] = map[string]any{"phase": "Succeeded"} })
	expectWarning(t, fleet.Hub, template, "AggregateStatusFailed", ".*has no subresource status.*")
	expectExplained(t, fleet.Hub, "Workflow", ns, "hello", "has no subresource status")
}

// TestASuspendedJob: the template has the condition while no cluster runs it.
func TestASuspendedJob(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	job := onceJob(ns, "later")
	job.Spec.Suspend = new(true)
	fleettest.Create(t, fleet.Hub, fleettest.Policy(ns, "later", fleettest.Everywhere(), job), job)
	fleettest.ExpectEventually(t, fleet.Hub, job.DeepCopy(), jobIs(batchv1.JobSuspended))
	expectExplained(t, fleet.Hub, "Job", ns, "later", "spec.suspend is true")
	fleettest.Update(t, fleet.Hub, job.DeepCopy(), func(j *batchv1.Job) { j.Spec.Suspend = new(false) })
	done := fleettest.ExpectEventually(t, fleet.Hub, job.DeepCopy(), jobIs(batchv1.JobComplete))
	for _, c := range done.Status.Conditions {
		if c.Type == batchv1.JobSuspended && c.Status != corev1.ConditionFalse {
			t.Errorf("a Job that is complete is suspended: %+v", c)
		}
	}
}
