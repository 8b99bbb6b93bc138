package pipeline_test

import (
	"errors"
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

func onceJob(namespace, name string) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "busybox", Command: []string{"true"}}},
		}}},
	}
}

func jobIs(kind batchv1.JobConditionType) func(*batchv1.Job) error {
	return func(j *batchv1.Job) error {
		for _, c := range j.Status.Conditions {
			if c.Type == kind && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("the status is %+v", j.Status)
	}
}

// complete reports the end of a Job of a member that has no controllers.
func complete(t *testing.T, member *fleettest.Cluster, job *batchv1.Job) {
	t.Helper()
	fleettest.ExpectEventually(t, member, job, fleettest.Exists)
	fleettest.UpdateStatus(t, member, job, func(j *batchv1.Job) {
		now := metav1.Now()
		j.Status = batchv1.JobStatus{
			StartTime: &now, CompletionTime: &now, Succeeded: 1,
			UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{},
			Conditions: []batchv1.JobCondition{
				{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: now},
				{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: now},
			},
		}
	})
}

// ended is the condition of a Work whose object ran to its end and, if removed, is gone since; it reports its present generation.
func ended(removed bool) func(*workv1alpha1.Work) error {
	return func(w *workv1alpha1.Work) error {
		if len(w.Status.ManifestStatuses) != 1 || w.Status.ManifestStatuses[0].Finished == "" || w.Status.ManifestStatuses[0].Removed != removed {
			return fmt.Errorf("the statuses are %+v", w.Status.ManifestStatuses)
		}
		for _, c := range w.Status.Conditions {
			if c.Type == workv1alpha1.WorkApplied && c.ObservedGeneration == w.Generation && c.Status == metav1.ConditionTrue {
				return nil
			}
		}
		return errors.New("it is not applied")
	}
}

// TestAFinishedJobRunsOnce: a Job that a cleaner deletes after its end is not made again, whatever is written meanwhile, and not if the
// object leaves the cluster and returns; its status stays. A new Job of the name runs.
func TestAFinishedJobRunsOnce(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	once := onceJob(ns, "once")
	policy := fleettest.Policy(ns, "once", fleettest.To("member1", "member2"), once)
	fleettest.Create(t, fleet.Hub, policy, once)
	fleettest.ExpectEventually(t, fleet.Hub, once.DeepCopy(), jobIs(batchv1.JobComplete))
	member, copied := fleet.Member("member1"), work("member1", "Job", ns, "once")
	first := fleettest.ExpectEventually(t, member, once.DeepCopy(), jobIs(batchv1.JobComplete))
	background := client.PropagationPolicy(metav1.DeletePropagationBackground)
	if err := member.Delete(t.Context(), first.DeepCopy(), background); err != nil {
		t.Fatal(err)
	}
	w := fleettest.ExpectEventually(t, fleet.Hub, copied.DeepCopy(), ended(true))
	if w.Status.ManifestStatuses[0].Status == nil || w.Status.ManifestStatuses[0].Health != workv1alpha1.ResourceHealthy {
		t.Errorf("the result is lost: %+v", w.Status.ManifestStatuses[0])
	}
	fleettest.ExpectAbsent(t, member, once.DeepCopy())

	// A write that is no new run.
	before := w.Generation
	fleettest.Update(t, fleet.Hub, once.DeepCopy(), func(j *batchv1.Job) {
		j.Labels = map[string]string{"note": "read"}
		j.Spec.TTLSecondsAfterFinished = new(int32(86400))
	})
	fleettest.ExpectEventually(t, fleet.Hub, copied.DeepCopy(), func(w *workv1alpha1.Work) error {
		if w.Generation == before {
			return errors.New("it is not written")
		}
		return ended(true)(w)
	})
	fleettest.ExpectAbsent(t, member, once.DeepCopy())

	// It leaves the cluster and returns.
	fleettest.Update(t, fleet.Hub, policy.DeepCopy(), func(p *policyv1alpha1.PropagationPolicy) { p.Spec.Placement = fleettest.To("member2") })
	fleettest.ExpectGone(t, fleet.Hub, copied.DeepCopy())
	fleettest.Update(t, fleet.Hub, policy.DeepCopy(), func(p *policyv1alpha1.PropagationPolicy) { p.Spec.Placement = fleettest.To("member1", "member2") })
	fleettest.ExpectEventually(t, fleet.Hub, copied.DeepCopy(), ended(true))
	fleettest.ExpectAbsent(t, member, once.DeepCopy())
	if err := jobIs(batchv1.JobComplete)(fleettest.ExpectEventually(t, fleet.Hub, once.DeepCopy(), fleettest.Exists)); err != nil {
		t.Error(err)
	}

	// A new Job of the name.
	fleettest.Delete(t, fleet.Hub, once.DeepCopy())
	fleettest.ExpectGone(t, fleet.Hub, once.DeepCopy())
	fleettest.Create(t, fleet.Hub, onceJob(ns, "once"))
	second := fleettest.ExpectEventually(t, member, onceJob(ns, "once"), jobIs(batchv1.JobComplete))
	if second.UID == first.UID {
		t.Error("it is the first one")
	}
}

// TestAFinishedRunOfAnyKind: a PipelineRun runs once for each generation of its template.
func TestAFinishedRunOfAnyKind(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	open := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	definition := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "pipelineruns.tekton.dev", Annotations: map[string]string{workv1alpha1.AllowDeletionAnnotation: "true"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "tekton.dev", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "PipelineRun", Plural: "pipelineruns", Singular: "pipelinerun"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": open, "status": open},
				}},
			}},
		},
	}
	run := func() *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "tekton.dev/v1", "kind": "PipelineRun", "metadata": map[string]any{"namespace": ns, "name": "build"},
			"spec": map[string]any{"pipelineRef": map[string]any{"name": "build"}},
		}}
	}
	fleettest.Create(t, fleet.Hub, definition, fleettest.ClusterPolicy("pipelineruns", fleettest.To("member1"), definition))
	fleettest.ExpectEventually(t, fleet.Hub, definition.DeepCopy(), func(d *apiextensionsv1.CustomResourceDefinition) error {
		for _, c := range d.Status.Conditions {
			if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return errors.New("it is not established")
	})
	policy := fleettest.Policy(ns, "build", fleettest.To("member1"), run())
	fleettest.Create(t, fleet.Hub, policy, run())
	member, copied := fleet.Member("member1"), work("member1", "PipelineRun", ns, "build")
	end := func(unlike types.UID) *unstructured.Unstructured {
		found := fleettest.ExpectEventually(t, member, run(), func(u *unstructured.Unstructured) error {
			if u.GetUID() == unlike {
				return errors.New("it is the one before")
			}
			return nil
		})
		patch := `{"status":{"conditions":[{"type":"Succeeded","status":"True","reason":"Done"}]}}`
		if err := member.Status().Patch(t.Context(), found, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
		fleettest.ExpectEventually(t, fleet.Hub, copied.DeepCopy(), ended(false))
		fleettest.Delete(t, member, found)
		fleettest.ExpectEventually(t, fleet.Hub, copied.DeepCopy(), ended(true))
		fleettest.ExpectAbsent(t, member, run())
		return found
	}
	first := end("")
	fleettest.ExpectEventually(t, fleet.Hub, run(), func(u *unstructured.Unstructured) error {
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		if len(conditions) != 1 || conditions[0].(map[string]any)["status"] != "True" {
			return fmt.Errorf("its status is %v", u.Object["status"])
		}
		return nil
	})
	fleettest.Update(t, fleet.Hub, run(), func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, "other", "spec", "pipelineRef", "name")
	})
	end(first.GetUID())
}

// TestAFinishedJobGoesAfterItsTimeToLive: the template goes when it is over, and its copies with it.
func TestAFinishedJobGoesAfterItsTimeToLive(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	once := onceJob(ns, "once")
	once.Spec.TTLSecondsAfterFinished = new(int32(2))
	fleettest.Create(t, fleet.Hub, fleettest.Policy(ns, "once", fleettest.To("member1", "member2"), once), once)
	fleettest.ExpectGone(t, fleet.Hub, once.DeepCopy())
	for _, name := range []string{"member1", "member2"} {
		fleettest.ExpectGone(t, fleet.Member(name), once.DeepCopy())
	}
}
