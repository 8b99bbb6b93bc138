package ssa

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// FuzzManifests reads any bytes as the manifests of a Work. What admission accepts can be applied, is the object that
// admission checked, and carries the marks of its Work and no others.
func FuzzManifests(f *testing.F) {
	for _, text := range []string{
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop}, data: {k: v, n: null}}`,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {karmada.io/managed: "false", work.karmada.io/permanent-id: other}, annotations: {flagship.io/record: x, flagship.io/adopted: "true", work.karmada.io/name: other}}}`,
		`{apiVersion: v1, kind: Namespace, metadata: {name: a, finalizers: [x], ownerReferences: [{uid: u}], uid: u}, status: {phase: Active}}`,
		`{apiVersion: v1, kind: List, items: []}`, `[]`, `null`, `{apiVersion: v1, kind: A, metadata: {name: 5, labels: [a], annotations: {a: 1}}}`,
	} {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, data)
	}
	f.Add([]byte(`{"apiVersion":"v1","kind":"ConfigMap","Kind":"Secret","metadata":{"name":"a"},"Metadata":{"name":"b"},"metadata":{"name":"c"}}`), []byte(`{`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
			Namespace: "karmada-es-member1", Name: "w", Labels: map[string]string{workv1alpha1.WorkPermanentIDLabel: "id"},
		}}
		for _, raw := range [][]byte{first, second} {
			work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests, workv1alpha1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
		}
		accepted := len(workv1alpha1.Validate(work)) == 0
		for _, m := range ManifestsOf(work) {
			if m.Err != nil {
				if accepted {
					t.Fatalf("admission accepts a manifest that cannot be applied: %v", m.Err)
				}
				continue
			}
			if _, err := Encode(m.Object); err != nil {
				t.Fatalf("a manifest that was read cannot be written: %v", err)
			}
			expectMarks(t, m.Object)
			original := map[string]any{}
			if err := utiljson.Unmarshal(work.Spec.Workload.Manifests[m.Ordinal].Raw, &original); err != nil {
				t.Fatal(err)
			}
			before := &unstructured.Unstructured{Object: original}
			if before.GroupVersionKind() != m.Object.GroupVersionKind() || before.GetNamespace() != m.Object.GetNamespace() || before.GetName() != m.Object.GetName() {
				t.Fatalf("%s is applied as %s", IdentityOf(before), m.Identity())
			}
		}
	})
}

func expectMarks(t *testing.T, obj *unstructured.Unstructured) {
	t.Helper()
	labels, annotations := obj.GetLabels(), obj.GetAnnotations()
	if labels[workv1alpha1.ManagedLabel] != workv1alpha1.ManagedLabelValue || labels[workv1alpha1.WorkPermanentIDLabel] != "id" {
		t.Fatalf("the labels are %v", labels)
	}
	if annotations[workv1alpha1.WorkNamespaceAnnotation] != "karmada-es-member1" || annotations[workv1alpha1.WorkNameAnnotation] != "w" {
		t.Fatalf("the annotations are %v", annotations)
	}
	for _, key := range []string{workv1alpha1.LastAppliedAnnotation, workv1alpha1.AdoptedAnnotation} {
		if value, found := annotations[key]; found {
			t.Fatalf("the manifest brought %s=%s along", key, value)
		}
	}
}
