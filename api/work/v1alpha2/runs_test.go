package v1alpha2_test

import (
	"testing"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

func TestARecordOfARun(t *testing.T) {
	binding := &workv1alpha2.ResourceBinding{}
	binding.Spec.Resource.UID = "a"
	set := func(f workv1alpha2.Finished) {
		binding.SetAnnotations(workv1alpha2.SetFinished(binding.Annotations, f))
	}
	targets := []workv1alpha2.TargetCluster{{Name: "m1"}, {Name: "m2"}}
	set(workv1alpha2.Finished{Run: "a/1", Clusters: []string{"m1"}})
	if f := workv1alpha2.FinishedOf(binding); !f.In("m1") || f.In("m2") || f.Everywhere(targets) || !f.Everywhere(targets[:1]) || !f.Everywhere(nil) {
		t.Errorf("it is %+v", f)
	}
	binding.Spec.Resource.UID = "b"
	if f := workv1alpha2.FinishedOf(binding); f.In("m1") || f.Everywhere(nil) {
		t.Errorf("another template of the name has the run %+v", f)
	}
	set(workv1alpha2.Finished{})
	if len(binding.Annotations) > 0 {
		t.Errorf("an empty record is written: %v", binding.Annotations)
	}
	binding.Annotations = map[string]string{workv1alpha2.FinishedAnnotation: "{"}
	if f := workv1alpha2.FinishedOf(binding); f.Everywhere(nil) {
		t.Errorf("what cannot be read is %+v", f)
	}
}
