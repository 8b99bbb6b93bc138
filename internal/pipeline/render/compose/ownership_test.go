package compose

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

func TestMarksOfAUserDoNotTravel(t *testing.T) {
	work := composeNginx(t, func(r *Request) {
		r.Template.SetLabels(map[string]string{
			"app": "nginx", "propagationpolicy.karmada.io/permanent-id": "policy-id",
			"karmada.io/managed": "false", "work.karmada.io/permanent-id": "fake", "resourcebinding.karmada.io/permanent-id": "fake",
			"clusterresourcebinding.karmada.io/permanent-id": "fake", "karmada.io/system": "true",
			"resourcetemplate.karmada.io/retain-replicas": "true",
		})
		r.Template.SetAnnotations(map[string]string{
			"note": "mine", "propagationpolicy.karmada.io/name": "web", "flagship.io/adopted": "true", "flagship.io/record": "fake",
			"clusterresourcebinding.karmada.io/name": "fake", "work.karmada.io/name": "fake", "work.karmada.io/conflict-resolution": "overwrite",
			"resourcetemplate.karmada.io/managed-labels": "fake",
		})
	})
	manifest := parse(t, string(work.Spec.Workload.Manifests[0].Raw))
	wantLabels := map[string]string{
		"app": "nginx", "propagationpolicy.karmada.io/permanent-id": "policy-id", "resourcetemplate.karmada.io/retain-replicas": "true",
		"karmada.io/managed": "true", "work.karmada.io/permanent-id": "work-id", "resourcebinding.karmada.io/permanent-id": "binding-id",
	}
	if diff := cmp.Diff(wantLabels, manifest.GetLabels()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	annotations := manifest.GetAnnotations()
	for key, want := range map[string]string{
		"note": "mine", "propagationpolicy.karmada.io/name": "web", "work.karmada.io/name": work.Name,
		"work.karmada.io/conflict-resolution": "overwrite",
		"resourcetemplate.karmada.io/managed-labels": "app,karmada.io/managed,propagationpolicy.karmada.io/permanent-id," +
			"resourcebinding.karmada.io/permanent-id,resourcetemplate.karmada.io/retain-replicas,work.karmada.io/permanent-id",
	} {
		if annotations[key] != want {
			t.Errorf("annotation %s is %q, want %q", key, annotations[key], want)
		}
	}
	for _, key := range []string{"flagship.io/adopted", "flagship.io/record", "clusterresourcebinding.karmada.io/name"} {
		if value, found := annotations[key]; found {
			t.Errorf("annotation %s=%s of the template is in the copy", key, value)
		}
	}
}

func TestPreservedStateDoesNotReplaceMarks(t *testing.T) {
	work := composeNginx(t, func(r *Request) {
		r.Targets = 1
		r.Binding.BindingSpec().GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{{
			FromCluster: "m9", PurgeMode: policyv1alpha1.PurgeModeDirectly,
			PreservedLabelState: map[string]string{"epoch": "7", "resourcebinding.karmada.io/permanent-id": "fake", "karmada.io/system": "true"},
		}}
	})
	labels := parse(t, string(work.Spec.Workload.Manifests[0].Raw)).GetLabels()
	if labels["epoch"] != "7" || labels["resourcebinding.karmada.io/permanent-id"] != "binding-id" || labels["karmada.io/system"] != "" {
		t.Errorf("got labels %v", labels)
	}
}

// renames is an interpreter that makes another object of a template.
type renames struct{ replicasOnly }

func (renames) Revise(_ context.Context, obj *unstructured.Unstructured, _ int32) (*unstructured.Unstructured, error) {
	obj = obj.DeepCopy()
	obj.SetNamespace("kube-system")
	return obj, nil
}

func TestAnInterpreterKeepsTheObject(t *testing.T) {
	binding := nginxBinding("m1")
	c := &Composer{Interpreter: renames{}, NewID: func() string { return "work-id" }}
	_, err := c.Compose(t.Context(), Request{
		Template: parse(t, nginx), Binding: binding, Target: Target{binding.Spec.Clusters[0], true}, Targets: 1, Cluster: cluster("m1", nil),
	})
	var refused *ForbiddenError
	if !errors.As(err, &refused) || ReasonOf(err) != workv1alpha2.ForbiddenReason {
		t.Errorf("got %v, want a refusal", err)
	}
}
