package apply_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply"
)

func TestDeletes(t *testing.T) {
	self := ownership.ControlPlane{ID: "id-1"}
	const listed, surplus = "listed", "surplus"
	now := metav1.Now()
	type change func(*workv1alpha1.Work, *unstructured.Unstructured)
	leaves := func(w *workv1alpha1.Work, _ *unstructured.Unstructured) { w.DeletionTimestamp = &now }
	preserves := func(w *workv1alpha1.Work, _ *unstructured.Unstructured) {
		w.Spec.PreserveResourcesOnDeletion = new(true)
	}
	mark := func(key, value string) change {
		return func(_ *workv1alpha1.Work, o *unstructured.Unstructured) {
			annotations := o.GetAnnotations()
			annotations[key] = value
			o.SetAnnotations(annotations)
		}
	}
	adopted := mark(workv1alpha1.AdoptedAnnotation, "true")
	for name, tc := range map[string]struct {
		object  string
		changes []change
		want    bool
	}{
		"Listed":                     {listed, nil, false},
		"NotListed":                  {surplus, nil, true},
		"NotListedAndPreserved":      {surplus, []change{preserves}, true}, // that concerns the deletion of the Work
		"NotListedAndAdopted":        {surplus, []change{adopted}, false},
		"TheWorkLeaves":              {listed, []change{leaves}, true},
		"TheWorkLeavesASurplus":      {surplus, []change{leaves}, true},
		"TheWorkLeavesItsObjects":    {listed, []change{leaves, preserves}, false},
		"TheWorkLeavesWhatItAdopted": {listed, []change{leaves, adopted}, false},
		"AnotherWork":                {listed, []change{leaves, mark(workv1alpha1.WorkNameAnnotation, "other")}, false},
		"AnotherControlPlane":        {listed, []change{leaves, mark(workv1alpha1.ControlPlaneAnnotation, "id-2")}, false},
		"OthersMadeItFromACopy": {surplus, []change{leaves, func(_ *workv1alpha1.Work, o *unstructured.Unstructured) {
			o.SetManagedFields(nil)
		}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-m1", Name: "w"}}
			work.Spec.Workload.Manifests = []workv1alpha1.Manifest{{RawExtension: runtime.RawExtension{
				Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"listed"}}`)}}}
			live := &unstructured.Unstructured{}
			live.SetAPIVersion("v1")
			live.SetKind("ConfigMap")
			live.SetNamespace("shop")
			live.SetName(tc.object)
			live.SetLabels(map[string]string{workv1alpha1.ManagedLabel: workv1alpha1.ManagedLabelValue})
			live.SetAnnotations(map[string]string{
				workv1alpha1.WorkNamespaceAnnotation: work.Namespace, workv1alpha1.WorkNameAnnotation: work.Name, workv1alpha1.ControlPlaneAnnotation: self.ID,
			})
			live.SetManagedFields([]metav1.ManagedFieldsEntry{{
				Manager: self.Manager(), Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"f:data":{}}`),
			}})
			for _, change := range tc.changes {
				change(work, live)
			}
			if got := apply.Deletes(self, work, live); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
