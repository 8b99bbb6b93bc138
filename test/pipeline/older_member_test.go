package pipeline_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// strict makes a definition whose objects have exactly these fields in their spec.
func strict(definition *apiextensionsv1.CustomResourceDefinition, fields ...string) {
	spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
	for _, name := range fields {
		spec.Properties[name] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	}
	definition.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{
		Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec},
	}
}

// A field that an older member does not serve is left out and named, and set once the member serves it, without a change of
// the Work for that.
func TestAFieldIsSetOnceTheMemberServesIt(t *testing.T) {
	t.Parallel()
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m := fleet.Member("member1")
	definition := widgetDefinition()
	definition.Name, definition.Spec.Group = "widgets.older.example.io", "older.example.io"
	strict(definition, "size")
	fleettest.Create(t, m, definition)
	fleettest.ExpectEventually(t, m, definition, established)
	fleettest.ExpectEventually(t, m, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, fleettest.Exists)

	w := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: workv1alpha1.ExecutionNamespace("member1"), Name: ns + "-novel"}}
	manifest := workv1alpha1.Manifest{}
	manifest.Raw = []byte(`{"apiVersion":"older.example.io/v1","kind":"Widget","metadata":{"namespace":"` + ns + `","name":"gear"},"spec":{"size":"10","colour":"blue"}}`)
	w.Spec.Workload.Manifests = []workv1alpha1.Manifest{manifest}
	fleettest.Create(t, fleet.Hub, w)
	gear := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "older.example.io/v1", "kind": "Widget", "metadata": map[string]any{"namespace": ns, "name": "gear"},
	}}
	first := fleettest.ExpectEventually(t, m, gear, field(`"10"`, "spec", "size"))
	if _, there, _ := unstructured.NestedFieldNoCopy(first.Object, "spec", "colour"); there {
		t.Fatal("the member serves the field already")
	}
	seen := fleettest.ExpectEventually(t, fleet.Hub, w, workIs("Applied", metav1.ConditionTrue, ""))
	expectEvent(t, fleet.Hub, w, ".spec.colour")

	fleettest.Update(t, m, definition, func(d *apiextensionsv1.CustomResourceDefinition) { strict(d, "size", "colour") })
	fleettest.ExpectEventually(t, m, gear, field(`"blue"`, "spec", "colour"))
	now := fleettest.ExpectEventually(t, fleet.Hub, w, workIs("Applied", metav1.ConditionTrue, ""))
	if now.Generation != seen.Generation {
		t.Error("the Work was changed to make it happen")
	}
	fleettest.Delete(t, fleet.Hub, w)
	fleettest.ExpectGone(t, m, gear)
}

// expectEvent waits for an event about an object whose message contains the text.
func expectEvent(t *testing.T, c *fleettest.Cluster, about client.Object, text string) {
	t.Helper()
	fleettest.ExpectListed(t, c, &corev1.EventList{}, about.GetNamespace(), func(list *corev1.EventList) error {
		for i := range list.Items {
			if e := &list.Items[i]; e.InvolvedObject.Name == about.GetName() && strings.Contains(e.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("none of %d events says %q", len(list.Items), text)
	})
}
