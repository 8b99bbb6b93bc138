package attacks_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// ordering makes a Work for member1, by hand, order one object.
func ordering(t *testing.T, object any) []workv1alpha1.Manifest {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	m := workv1alpha1.Manifest{}
	m.Raw = raw
	return []workv1alpha1.Manifest{m}
}

func typedConfigMap(ns, name string) *corev1.ConfigMap {
	c := fleettest.ConfigMap(ns, name, map[string]string{"a": "1"})
	c.APIVersion, c.Kind = "v1", "ConfigMap"
	return c
}

// What a Work does not order any more may be what its successor was to take the place of. It stays until that is there.
func TestASuccessorThatCannotBeMadeCostsNothing(t *testing.T) {
	fleet := shared.Start(t)
	m, ns := fleet.Member("member1"), fleet.Namespace(t)
	running := typedConfigMap(ns, "running")
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: workv1alpha1.ExecutionNamespace("member1"), Name: ns}}
	work.Spec.Workload.Manifests = ordering(t, running)
	fleettest.Create(t, fleet.Hub, work)
	before := fleettest.ExpectEventually(t, m, running, fleettest.Exists)

	fleettest.Update(t, fleet.Hub, work, func(w *workv1alpha1.Work) { w.Spec.Workload.Manifests = ordering(t, typedConfigMap(ns, "Not_A_Name")) })
	fleettest.ExpectEventually(t, fleet.Hub, work, complains("Not_A_Name"))
	after := fleettest.ExpectEventually(t, m, running, fleettest.Exists)
	if after.UID != before.UID || after.DeletionTimestamp != nil {
		t.Errorf("the object that runs was deleted at %v", after.DeletionTimestamp)
	}

	fleettest.Update(t, fleet.Hub, work, func(w *workv1alpha1.Work) { w.Spec.Workload.Manifests = ordering(t, typedConfigMap(ns, "successor")) })
	fleettest.ExpectEventually(t, m, typedConfigMap(ns, "successor"), fleettest.Exists)
	fleettest.ExpectGone(t, m, running)
	fleettest.Delete(t, fleet.Hub, work)
	fleettest.ExpectGone(t, m, typedConfigMap(ns, "successor"))
}

// A member is upgraded, and serves a kind in another version than the one in which an object was written.
func TestAnObjectIsDeletedInWhicheverVersionItIsServed(t *testing.T) {
	fleet := shared.Start(t)
	m, ns := fleet.Member("member1"), fleet.Namespace(t)
	fields := &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}}
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "relics.attacks.example.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "attacks.example.io", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "relics", Singular: "relic", Kind: "Relic", ListKind: "RelicList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				{Name: "v1beta1", Served: true, Schema: fields}, {Name: "v1", Served: true, Storage: true, Schema: fields},
			},
		},
	}
	fleettest.Create(t, m, definition)
	relic := func(version string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "attacks.example.io/" + version, "kind": "Relic", "metadata": map[string]any{"namespace": ns, "name": "r"},
		}}
	}
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: workv1alpha1.ExecutionNamespace("member1"), Name: ns}}
	work.Spec.Workload.Manifests = ordering(t, relic("v1beta1").Object)
	fleettest.Create(t, fleet.Hub, work)
	fleettest.ExpectEventually(t, m, relic("v1"), fleettest.Exists)

	fleettest.Update(t, m, definition, func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Versions[0].Served = false })
	beta := m.Dynamic.Resource(schema.GroupVersionResource{Group: "attacks.example.io", Version: "v1beta1", Resource: "relics"})
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, fleettest.Patience, true, func(ctx context.Context) (bool, error) {
		_, err := beta.List(ctx, metav1.ListOptions{})
		return err != nil, nil
	})
	if err != nil {
		t.Fatalf("the member still serves the old version: %v", err)
	}
	fleettest.Delete(t, fleet.Hub, work)
	fleettest.ExpectGone(t, fleet.Hub, work)
	fleettest.ExpectGone(t, m, relic("v1"))
}

// A Pod with a node is a template like any other: no kubelet has to let it go.
func TestAPodWithANodeIsDeletedOnTheHub(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "pinned"},
		Spec:       corev1.PodSpec{NodeName: "node-7", Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
	}
	fleettest.Create(t, fleet.Hub, pod, fleettest.Policy(ns, "pinned", fleettest.To("member1"), pod))
	fleettest.ExpectEventually(t, fleet.Member("member1"), pod, fleettest.Exists)
	fleettest.Delete(t, fleet.Hub, pod)
	fleettest.ExpectGone(t, fleet.Hub, pod)
	fleettest.ExpectGone(t, fleet.Hub, workFor("member1", "Pod", ns, "pinned"))
}
