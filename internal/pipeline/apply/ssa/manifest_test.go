package ssa

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
)

func work(t *testing.T, manifests ...string) *workv1alpha1.Work {
	t.Helper()
	w := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: "karmada-es-member1", Name: "w", UID: "u", Generation: 1, Finalizers: []string{workv1alpha1.ExecutionFinalizer},
	}}
	for _, text := range manifests {
		raw, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, workv1alpha1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	return w
}

func TestManifestsComeInTheOrderOfTheirNeeds(t *testing.T) {
	w := work(t,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}`,
		`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: b}}`,
		`{apiVersion: v1}`,
		`{apiVersion: v1, kind: Namespace, metadata: {name: c}}`,
		`{apiVersion: other/v1, kind: Namespace, metadata: {name: d}}`,
	)
	var order []int
	var broken int
	for _, m := range ManifestsOf(w) {
		order = append(order, m.Ordinal)
		if m.Err != nil {
			broken++
		}
	}
	if diff := cmp.Diff([]int{3, 1, 0, 2, 4}, order); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if broken != 1 {
		t.Errorf("%d manifests cannot be read, want 1", broken)
	}
}

// TestFinalizersForMembersComeFromAnAnnotation: those of the manifest itself are of the control plane.
func TestFinalizersForMembersComeFromAnAnnotation(t *testing.T) {
	w := work(t,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, finalizers: [here.org/x], annotations: {flagship.io/member-finalizers: "a.org/x, b.org/y"}}}`,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: b, finalizers: [here.org/x], annotations: {flagship.io/member-finalizers: ""}}}`,
	)
	manifests := ManifestsOf(w)
	if diff := cmp.Diff([]string{"a.org/x", "b.org/y"}, manifests[0].Object.GetFinalizers()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := manifests[1].Object.GetFinalizers(); len(got) > 0 {
		t.Errorf("without any it has %v", got)
	}
}

func TestAHandMadeManifestIsStampedAndPruned(t *testing.T) {
	w := work(t, `
apiVersion: v1
kind: ConfigMap
metadata:
  name: a
  uid: x
  resourceVersion: "7"
  creationTimestamp: null
  finalizers: [keep]
  ownerReferences: [{name: o}]
  annotations: {flagship.io/record: forged.AAAA}
data: {k: v, n: null}
status: {x: y}
`)
	w.Labels = map[string]string{workv1alpha1.WorkPermanentIDLabel: "id"}
	w.Annotations = map[string]string{workv1alpha1.ConflictResolutionAnnotation: "overwrite"}
	got, err := json.Marshal(ManifestsOf(w)[0].Object.Object)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"apiVersion":"v1","data":{"k":"v"},"kind":"ConfigMap","metadata":{` +
		`"annotations":{"work.karmada.io/conflict-resolution":"overwrite","work.karmada.io/name":"w","work.karmada.io/namespace":"karmada-es-member1"},` +
		`"labels":{"karmada.io/managed":"true","work.karmada.io/permanent-id":"id"},"name":"a"}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestLeftovers(t *testing.T) {
	w := work(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: shop}}`)
	w.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{
		{Identifier: workv1alpha1.ResourceIdentifier{Group: "apps", Version: "v1beta1", Kind: "Deployment", Namespace: "shop", Name: "a"}},
		{Identifier: workv1alpha1.ResourceIdentifier{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "b"}},
	}
	want := []Identity{{Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "shop", Name: "b"}}
	if diff := cmp.Diff(want, Leftovers(w, ManifestsOf(w), nil), cmp.AllowUnexported(Identity{})); diff != "" {
		t.Errorf("another version of a kind is the same object: -want +got:\n%s", diff)
	}
	w.Status.ManifestStatuses = append(w.Status.ManifestStatuses, workv1alpha1.ManifestStatus{
		Identifier: workv1alpha1.ResourceIdentifier{Version: "v1", Kind: "Secret", Namespace: "default", Name: "c"},
	})
	w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, workv1alpha1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"c"}}`)}})
	if diff := cmp.Diff(want, Leftovers(w, ManifestsOf(w), nil), cmp.AllowUnexported(Identity{})); diff != "" {
		t.Errorf("an object without a namespace is in the default one: -want +got:\n%s", diff)
	}
	returned := object(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: shop}}`)
	if diff := cmp.Diff(want, Leftovers(w, ManifestsOf(w), []*unstructured.Unstructured{returned}), cmp.AllowUnexported(Identity{})); diff != "" {
		t.Errorf("an object in both the status and the member is one object: -want +got:\n%s", diff)
	}
	w.Status.ManifestStatuses = nil
	if diff := cmp.Diff(want, Leftovers(w, ManifestsOf(w), []*unstructured.Unstructured{returned}), cmp.AllowUnexported(Identity{})); diff != "" {
		t.Errorf("an object in the member only: -want +got:\n%s", diff)
	}
	w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, workv1alpha1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(`{}`)}})
	if left := Leftovers(w, ManifestsOf(w), nil); len(left) > 0 {
		t.Errorf("%v would be removed, although a manifest cannot be read that may be it", left)
	}
}

func TestReleaseTakesOurMarksOffAndNothingElse(t *testing.T) {
	live := object(t, `
metadata:
  uid: u-1
  labels:
    karmada.io/managed: "true"
    work.karmada.io/permanent-id: id
    app: nginx
    resourcetemplate.karmada.io/retain-replicas: "true"
  annotations:
    work.karmada.io/name: w
    resourcetemplate.karmada.io/uid: x
    flagship.io/record: x
    flagship.io/adopted: "true"
    propagationpolicy.karmada.io/name: p
    note: mine
`)
	patch, err := ReleasePatch(ownership.ControlPlane{ID: "1111aaaa-own"}, live)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"op":"test","path":"/metadata/uid","value":"u-1"},` +
		`{"op":"remove","path":"/metadata/labels/karmada.io~1managed"},{"op":"remove","path":"/metadata/labels/work.karmada.io~1permanent-id"},` +
		`{"op":"remove","path":"/metadata/annotations/flagship.io~1record"},{"op":"remove","path":"/metadata/annotations/propagationpolicy.karmada.io~1name"},` +
		`{"op":"remove","path":"/metadata/annotations/resourcetemplate.karmada.io~1uid"},{"op":"remove","path":"/metadata/annotations/work.karmada.io~1name"},` +
		`{"op":"add","path":"/metadata/labels/flagship.io~1released-by","value":"1111aaaa-own"}]`
	if diff := cmp.Diff(want, string(patch)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
