package pipeline_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

type policyType = policyv1alpha1.PropagationPolicy

func TestConfigMapSecretAndServiceTravel(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	settings := fleettest.ConfigMap(ns, "settings", map[string]string{"colour": "blue"})
	password := fleettest.Secret(ns, "password", map[string]string{"word": "sesame"})
	service := fleettest.Service(ns, "web")
	service.Spec.Type = corev1.ServiceTypeNodePort
	fleettest.Create(t, fleet.Hub, settings, password, service,
		fleettest.Policy(ns, "all", fleettest.Everywhere(), settings, password, service))

	onHub := fleettest.ExpectEventually(t, fleet.Hub, service, fleettest.Exists)
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, settings, func(c *corev1.ConfigMap) error { return equal("blue", c.Data["colour"]) })
		fleettest.ExpectEventually(t, m, password, func(s *corev1.Secret) error { return equal("sesame", string(s.Data["word"])) })
		copied := fleettest.ExpectEventually(t, m, service, fleettest.Exists)
		w := fleettest.ExpectEventually(t, fleet.Hub, work(m.Name, "Service", ns, "web"), fleettest.Exists)
		var manifest unstructured.Unstructured
		if err := manifest.UnmarshalJSON(w.Spec.Workload.Manifests[0].Raw); err != nil {
			t.Fatal(err)
		}
		if ip, carried, _ := unstructured.NestedString(manifest.Object, "spec", "clusterIP"); carried { // those of the two may be equal by chance
			t.Errorf("%s: the cluster IP %s that the hub allocated is carried", m.Name, ip)
		}
		ports, _, _ := unstructured.NestedSlice(manifest.Object, "spec", "ports")
		if want, got := int64(onHub.Spec.Ports[0].NodePort), ports[0].(map[string]any)["nodePort"]; got != want || int64(copied.Spec.Ports[0].NodePort) != want {
			t.Errorf("%s: the node port is %v in the manifest and %d in the member, want that of the hub, %d", m.Name, got, copied.Spec.Ports[0].NodePort, want)
		}
	}

	fleettest.Update(t, fleet.Hub, settings, func(c *corev1.ConfigMap) { c.Data["colour"] = "green" })
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, settings, func(c *corev1.ConfigMap) error { return equal("green", c.Data["colour"]) })
	}
}

func equal(want, got string) error {
	if got != want {
		return fmt.Errorf("got %q, want %q", got, want)
	}
	return nil
}

func TestClusterScopedObjectTravels(t *testing.T) {
	fleet := shared.Start(t)
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "pipeline-reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}},
	}
	fleettest.Create(t, fleet.Hub, fleettest.ClusterPolicy("pipeline-reader", fleettest.Everywhere(), role), role)
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, role, fleettest.Exists)
	}
	fleettest.Delete(t, fleet.Hub, role)
	for _, m := range fleet.Members {
		fleettest.ExpectGone(t, m, role)
	}
}

func widgetDefinition() *apiextensionsv1.CustomResourceDefinition {
	free := true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.pipeline.example.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "pipeline.example.io",
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &free,
				}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
}

// A kind that no interpreter supports, with its definition on the control plane and in members.
func TestCustomResourceTravels(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	definition := widgetDefinition()
	fleettest.Create(t, fleet.Hub, definition.DeepCopy())
	for _, m := range fleet.Members {
		fleettest.Create(t, m, definition.DeepCopy())
		fleettest.ExpectEventually(t, m, definition, established)
	}
	fleettest.ExpectEventually(t, fleet.Hub, definition, established)
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "pipeline.example.io/v1", "kind": "Widget",
		"metadata": map[string]any{"namespace": ns, "name": "gear"},
		"spec":     map[string]any{"teeth": int64(12)},
	}}
	fleettest.Create(t, fleet.Hub, fleettest.Policy(ns, "widget", fleettest.Everywhere(), widget), widget.DeepCopy())
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, widget, func(u *unstructured.Unstructured) error {
			if teeth, _, _ := unstructured.NestedInt64(u.Object, "spec", "teeth"); teeth != 12 {
				return fmt.Errorf("spec.teeth is %d", teeth)
			}
			return nil
		})
	}
	// A definition is not deleted while members have objects of its kind.
	fleettest.Delete(t, fleet.Hub, widget)
	for _, m := range fleet.Members {
		fleettest.ExpectGone(t, m, widget)
		fleettest.ExpectGone(t, fleet.Hub, work(m.Name, "Widget", ns, "gear"))
	}
}

func established(d *apiextensionsv1.CustomResourceDefinition) error {
	for _, c := range d.Status.Conditions {
		if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("not established: %+v", d.Status.Conditions)
}

func TestNamespacesTravelByThemselves(t *testing.T) {
	fleet := shared.Start(t)
	skipped := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "pipeline-skipped", Labels: map[string]string{"namespace.karmada.io/skip-auto-propagation": "true"},
	}}
	adopted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "pipeline-adopted"}}
	mine := adopted.DeepCopy()
	mine.Labels = map[string]string{"owner": "another-team"}
	fleettest.Create(t, fleet.Member("member1"), mine)
	fleettest.Create(t, fleet.Hub, skipped, adopted.DeepCopy())

	fleettest.ExpectEventually(t, fleet.Member("member2"), adopted, fleettest.Exists)
	fleettest.ExpectEventually(t, fleet.Member("member1"), adopted, func(n *corev1.Namespace) error {
		if n.Labels[workv1alpha1.ManagedLabel] != "true" || n.Labels["owner"] != "another-team" {
			return fmt.Errorf("labels are %v", n.Labels)
		}
		return nil
	})
	for _, m := range fleet.Members {
		fleettest.ExpectAbsent(t, m, skipped)
		fleettest.ExpectAbsent(t, fleet.Hub, work(m.Name, "Namespace", "", "default"))
		fleettest.ExpectAbsent(t, fleet.Hub, work(m.Name, "Namespace", "", "kube-system"))
	}
}

// Many a set of manifests has a policy that names the namespace along with what is in it. It decides nothing about whether
// the namespace is there, and ends without taking it away.
func TestAPolicyMaySelectANamespace(t *testing.T) {
	t.Parallel()
	fleet := shared.Start(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "pipeline-selected"}}
	policy := fleettest.ClusterPolicy("pipeline-selected", fleettest.Everywhere(), ns)
	fleettest.Create(t, fleet.Hub, policy, ns)
	bound := &workv1alpha2.ClusterResourceBinding{ObjectMeta: metav1.ObjectMeta{Name: workv1alpha2.BindingName("Namespace", ns.Name)}}
	fleettest.ExpectEventually(t, fleet.Hub, bound, func(b *workv1alpha2.ClusterResourceBinding) error {
		if len(b.Spec.Clusters) != len(fleet.Members) {
			return fmt.Errorf("it is for %v", b.Spec.Clusters)
		}
		return fleettest.ConditionTrue(b.Status.Conditions, workv1alpha2.FullyApplied)
	})
	mine := fleettest.ConfigMap(ns.Name, "mine", nil)
	before := map[string]types.UID{}
	for _, m := range fleet.Members {
		before[m.Name] = fleettest.ExpectEventually(t, m, ns, fleettest.Exists).UID
		fleettest.Create(t, m, mine.DeepCopy())
	}
	kept := func(reason string) {
		t.Helper()
		for _, m := range fleet.Members {
			fleettest.ExpectEventually(t, fleet.Hub, work(m.Name, "Namespace", "", ns.Name), func(w *workv1alpha1.Work) error {
				if w.Annotations[workv1alpha1.CarriedNamespaceAnnotation] != ns.Name {
					return fmt.Errorf("annotations are %v", w.Annotations)
				}
				return workIs("Applied", "True", "")(w)
			})
			if uid := fleettest.ExpectEventually(t, m, ns, fleettest.Exists).UID; uid != before[m.Name] {
				t.Errorf("%s: %s made the namespace anew", m.Name, reason)
			}
		}
	}
	first := fleet.Members[0].Name
	fleettest.Update(t, fleet.Hub, policy, func(p *policyv1alpha1.ClusterPropagationPolicy) {
		p.Spec.Placement = fleettest.To(fleet.Members[1].Name)
	})
	fleettest.ExpectEventually(t, fleet.Hub, work(first, "Namespace", "", ns.Name), func(w *workv1alpha1.Work) error {
		if id := w.Labels[workv1alpha2.ClusterResourceBindingPermanentIDLabel]; id != "" {
			return fmt.Errorf("binding %s has it", id)
		}
		return nil
	})
	kept("another placement")

	fleettest.Delete(t, fleet.Hub, policy, bound)
	fleettest.ExpectGone(t, fleet.Hub, bound)
	kept("the end of the binding")

	for _, m := range fleet.Members {
		fleettest.Delete(t, m, mine) // with an object of the member's owner in it the namespace stays
	}
	fleettest.Delete(t, fleet.Hub, ns)
	for _, m := range fleet.Members {
		fleettest.ExpectGone(t, m, ns)
		fleettest.ExpectGone(t, fleet.Hub, work(m.Name, "Namespace", "", ns.Name))
	}
}

// A policy that selects every Service must not send the control plane's own one to the members.
func TestTheHubsOwnServiceIsNoTemplate(t *testing.T) {
	fleet := shared.Start(t)
	policy := &policyv1alpha1.ClusterPropagationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "pipeline-services"},
		Spec: policyv1alpha1.PropagationSpec{
			ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "Service"}},
		},
	}
	probe := fleettest.Service("default", "pipeline-probe")
	fleettest.Create(t, fleet.Hub, policy, probe)
	defer fleettest.Delete(t, fleet.Hub, probe)
	fleettest.ExpectEventually(t, fleet.Hub, binding("default", "Service", "pipeline-probe"), fleettest.Exists)
	fleettest.ExpectAbsent(t, fleet.Hub, binding("default", "Service", "kubernetes"))
}
