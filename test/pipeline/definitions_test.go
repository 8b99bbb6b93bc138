package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

type definition = apiextensionsv1.CustomResourceDefinition

type properties = map[string]apiextensionsv1.JSONSchemaProps

func object(fields properties, required ...string) apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: fields, Required: required}
}

// version has a status without a schema and the given fields in its spec.
func version(name string, storage bool, spec apiextensionsv1.JSONSchemaProps) apiextensionsv1.CustomResourceDefinitionVersion {
	free := true
	root := object(properties{"spec": spec, "status": {Type: "object", XPreserveUnknownFields: &free}})
	return apiextensionsv1.CustomResourceDefinitionVersion{
		Name: name, Served: true, Storage: storage,
		Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &root},
		Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
	}
}

// define is the definition of a namespaced kind: "Gear" in group "gears.pipeline.example.io".
func define(kind string, versions ...apiextensionsv1.CustomResourceDefinitionVersion) *definition {
	plural := strings.ToLower(kind) + "s"
	group := plural + ".pipeline.example.io"
	return &definition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped, Versions: versions,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List"},
		},
	}
}

var teeth = object(properties{"teeth": {Type: "integer"}, "metal": {Type: "string"}})

func instance(of *definition, version, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": of.Spec.Group + "/" + version, "kind": of.Spec.Names.Kind,
		"metadata": map[string]any{"namespace": namespace, "name": name}, "spec": spec,
	}}
}

// defined creates a definition on the hub; when the test ends it goes with all objects of its kind.
func defined(t *testing.T, c *fleettest.Cluster, d *definition) {
	t.Helper()
	fleettest.Create(t, c, d.DeepCopy())
	t.Cleanup(func() {
		allow := client.RawPatch(types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"`+workv1alpha1.AllowDeletionAnnotation+`":"true"}}}`))
		if err := c.Patch(context.WithoutCancel(t.Context()), d.DeepCopy(), allow); client.IgnoreNotFound(err) != nil {
			t.Errorf("allowing the deletion of %s: %v", d.Name, err)
		}
	})
}

func definitionWork(cluster string, d *definition) *workv1alpha1.Work {
	return work(cluster, "CustomResourceDefinition", "", d.Name)
}

func isHeld(words ...string) func(*workv1alpha1.Work) error {
	return func(w *workv1alpha1.Work) error {
		if err := workIs(workv1alpha1.WorkApplied, metav1.ConditionFalse, workv1alpha1.AppliedHeldReason)(w); err != nil {
			return err
		}
		return says(w.Status.Conditions, workv1alpha1.WorkApplied, words...)
	}
}

func says(conditions []metav1.Condition, kind string, words ...string) error {
	for _, c := range conditions {
		for _, word := range words {
			if c.Type == kind && !strings.Contains(c.Message, word) {
				return fmt.Errorf("%s does not say %q: %s", kind, word, c.Message)
			}
		}
	}
	return nil
}

// definitionIs is the condition of a definition one of whose own conditions has a status and words.
func definitionIs(kind string, status apiextensionsv1.ConditionStatus, words ...string) func(*definition) error {
	return func(d *definition) error {
		for _, c := range d.Status.Conditions {
			if string(c.Type) != kind {
				continue
			}
			for _, word := range words {
				if !strings.Contains(c.Message, word) {
					return fmt.Errorf("%s does not say %q: %s", kind, word, c.Message)
				}
			}
			if c.Status != status {
				return fmt.Errorf("%s is %s: %s", kind, c.Status, c.Message)
			}
			return nil
		}
		return fmt.Errorf("condition %s is absent", kind)
	}
}

func TestADefinitionTravelsAndItsStatusComesBack(t *testing.T) {
	fleet := shared.Start(t)
	gears := define("Gear", version("v1", true, teeth))
	fleettest.Create(t, fleet.Hub, fleettest.ClusterPolicy("gears", fleettest.Everywhere(), named(gears)))
	defined(t, fleet.Hub, gears)
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, gears, established)
		fleettest.ExpectEventually(t, fleet.Hub, definitionWork(m.Name, gears), func(w *workv1alpha1.Work) error {
			if len(w.Status.ManifestStatuses) != 1 || w.Status.ManifestStatuses[0].Health != workv1alpha1.ResourceHealthy {
				return fmt.Errorf("it reports %+v", w.Status.ManifestStatuses)
			}
			for _, field := range []string{"acceptedNames", "storedVersions", "conditions"} {
				if !strings.Contains(string(w.Status.ManifestStatuses[0].Status.Raw), field) {
					return fmt.Errorf("%s is not reflected", field)
				}
			}
			return nil
		})
	}
	fleettest.ExpectEventually(t, fleet.Hub, gears,
		definitionIs(workv1alpha1.DefinitionEstablishedInMembers, "True", "all 2 clusters"))
	fleettest.ExpectEventually(t, fleet.Hub, gears,
		definitionIs(workv1alpha1.DefinitionStoredInOneVersion, "True", "version v1 only"))
	fleettest.ExpectEventually(t, fleet.Hub, gears, established) // the hub's own word stays
}

// named gives an object its kind, as policies need it.
func named(d *definition) *definition {
	d = d.DeepCopy()
	d.APIVersion, d.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
	return d
}

func withDependencies(p *policyType) *policyType {
	p.Spec.PropagateDeps = true
	return p
}

func TestACustomResourceBringsItsDefinition(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	springs := define("Spring", version("v1", true, teeth))
	defined(t, fleet.Hub, springs)
	fleettest.ExpectEventually(t, fleet.Hub, springs, established)
	coil := instance(springs, "v1", ns, "coil", map[string]any{"teeth": int64(3)})
	fleettest.Create(t, fleet.Hub, withDependencies(fleettest.Policy(ns, "coil", fleettest.Everywhere(), coil)), coil.DeepCopy())
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, springs, established)
		fleettest.UpdateStatus(t, m, fleettest.ExpectEventually(t, m, coil, fleettest.Exists), func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, "wound", "status", "state")
		})
	}
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Spring", "coil"), func(b *workv1alpha2.ResourceBinding) error {
		for _, item := range b.Status.AggregatedStatus {
			if item.Status == nil || !strings.Contains(string(item.Status.Raw), "wound") {
				return fmt.Errorf("%s has not reported its status", item.ClusterName)
			}
		}
		return nil
	})

	// A copy with objects of other owners stays when no object on the hub needs the definition any more.
	strange := instance(springs, "v1", "default", "strange", map[string]any{})
	fleettest.Create(t, fleet.Member("member1"), strange)
	t.Cleanup(func() { _ = fleet.Member("member1").Delete(context.WithoutCancel(t.Context()), springs.DeepCopy()) })
	fleettest.Delete(t, fleet.Hub, coil.DeepCopy())
	fleettest.ExpectGone(t, fleet.Member("member2"), springs)
	fleettest.ExpectEventually(t, fleet.Member("member1"), springs, func(d *definition) error {
		if d.Labels[workv1alpha1.ManagedLabel] != "" || d.DeletionTimestamp != nil {
			return errors.New("it is not let go")
		}
		return nil
	})
	fleettest.ExpectEventually(t, fleet.Member("member1"), strange, fleettest.Exists)
	fleettest.ExpectEventually(t, fleet.Hub, springs, func(d *definition) error {
		for _, c := range d.Status.Conditions {
			if c.Type == workv1alpha1.DefinitionEstablishedInMembers || c.Type == workv1alpha1.DefinitionStoredInOneVersion {
				return fmt.Errorf("it goes to no member any more, and says %s: %s", c.Type, c.Message)
			}
		}
		return nil
	})
}

// Groups below karmada.io are those of users, but for the control plane's own.
func TestADefinitionOfAUserBelowKarmadaIO(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	sails := define("Sail", version("v1", true, teeth))
	sails.Spec.Group = "workload.example.karmada.io"
	sails.Name = sails.Spec.Names.Plural + "." + sails.Spec.Group
	fleettest.Create(t, fleet.Hub, fleettest.ClusterPolicy("sails", fleettest.Everywhere(), named(sails)))
	defined(t, fleet.Hub, sails)
	fleettest.ExpectEventually(t, fleet.Hub, sails, definitionIs(workv1alpha1.DefinitionEstablishedInMembers, "True", "all 2 clusters"))
	main := instance(sails, "v1", ns, "main", map[string]any{"teeth": int64(3)})
	fleettest.Create(t, fleet.Hub, fleettest.Policy(ns, "main", fleettest.Everywhere(), main), main.DeepCopy())
	for _, m := range fleet.Members {
		fleettest.UpdateStatus(t, m, fleettest.ExpectEventually(t, m, main, fleettest.Exists), func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, "set in "+m.Name, "status", "state")
		})
	}
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Sail", "main"), func(b *workv1alpha2.ResourceBinding) error {
		if reported := len(b.Status.AggregatedStatus); reported != len(fleet.Members) {
			return fmt.Errorf("%d clusters have reported", reported)
		}
		for _, item := range b.Status.AggregatedStatus {
			if item.Status == nil || !strings.Contains(string(item.Status.Raw), "set in "+item.ClusterName) {
				return fmt.Errorf("%s has not reported its status", item.ClusterName)
			}
		}
		return nil
	})
	fleettest.Update(t, fleet.Hub, main.DeepCopy(), func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, int64(5), "spec", "teeth")
	})
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, main, func(u *unstructured.Unstructured) error {
			if teeth, _, _ := unstructured.NestedInt64(u.Object, "spec", "teeth"); teeth != 5 {
				return fmt.Errorf("it has %d teeth", teeth)
			}
			return nil
		})
	}
	fleettest.Delete(t, fleet.Hub, main.DeepCopy())
	for _, m := range fleet.Members {
		fleettest.ExpectGone(t, m, main)
	}
}

func TestABreakingChangeIsHeldBackUntilItIsAllowed(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	wheels := define("Wheel", version("v1", true, teeth))
	fleettest.Create(t, fleet.Hub, fleettest.ClusterPolicy("wheels", fleettest.To("member1"), named(wheels)))
	defined(t, fleet.Hub, wheels)
	member := fleet.Member("member1")
	fleettest.ExpectEventually(t, member, wheels, established)
	fleettest.ExpectEventually(t, member, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, fleettest.Exists)
	fleettest.Create(t, member, instance(wheels, "v1", ns, "iron", map[string]any{"metal": "iron", "teeth": int64(7)}))
	fleettest.Create(t, member, instance(wheels, "v1", ns, "bare", map[string]any{"teeth": int64(7)}))

	fleettest.Update(t, fleet.Hub, wheels, func(d *definition) {
		delete(d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties, "metal")
	})
	fleettest.ExpectEventually(t, fleet.Hub, definitionWork("member1", wheels),
		isHeld("v1 .spec.metal is removed", "member1", "of 2 objects there 0 would be invalid and 1 would lose fields", ns+"/iron", workv1alpha1.AllowBreakingAnnotation))
	fleettest.ExpectEventually(t, fleet.Hub, wheels, definitionIs(workv1alpha1.DefinitionEstablishedInMembers, "False", "member1"))
	there := fleettest.ExpectEventually(t, member, wheels, fleettest.Exists)
	if _, kept := there.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["metal"]; !kept {
		t.Error("the field was removed in the member all the same")
	}

	fleettest.Update(t, fleet.Hub, wheels, func(d *definition) { d.Annotations = map[string]string{workv1alpha1.AllowBreakingAnnotation: "true"} })
	fleettest.ExpectEventually(t, member, wheels, func(d *definition) error {
		if _, kept := d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["metal"]; kept {
			return errors.New("the field is still there")
		}
		return nil
	})
	fleettest.ExpectEventually(t, fleet.Hub, definitionWork("member1", wheels), workIs(workv1alpha1.WorkApplied, metav1.ConditionTrue, ""))
}

func TestATightenedDefinitionIsCountedAndLetThrough(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	bolts := define("Bolt", version("v1", true, teeth))
	fleettest.Create(t, fleet.Hub, fleettest.ClusterPolicy("bolts", fleettest.To("member1"), named(bolts)))
	defined(t, fleet.Hub, bolts)
	member := fleet.Member("member1")
	fleettest.ExpectEventually(t, member, bolts, established)
	fleettest.ExpectEventually(t, member, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, fleettest.Exists)
	for name, teeth := range map[string]int64{"few": 3, "many": 30, "more": 31} {
		fleettest.Create(t, member, instance(bolts, "v1", ns, name, map[string]any{"teeth": teeth}))
	}
	fleettest.Update(t, fleet.Hub, bolts, func(d *definition) {
		most := 10.0
		d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["teeth"] = apiextensionsv1.JSONSchemaProps{Type: "integer", Maximum: &most}
	})
	fleettest.ExpectEventually(t, member, bolts, func(d *definition) error {
		if d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["teeth"].Maximum == nil {
			return errors.New("the limit is not there")
		}
		return nil
	})
	namespace, about := "default", bolts.Name
	if fleettest.InPullMode() { // an agent publishes events about its Works and its Cluster only
		namespace, about = definitionWork("member1", bolts).Namespace, definitionWork("member1", bolts).Name
	}
	fleettest.ExpectListed(t, fleet.Hub, &corev1.EventList{}, namespace, func(events *corev1.EventList) error {
		for _, e := range events.Items {
			if e.Reason == "DefinitionTightened" && e.InvolvedObject.Name == about && strings.Contains(e.Message, "of 3 objects there 2 would be invalid") {
				return nil
			}
		}
		return fmt.Errorf("none of %d events says that two objects became invalid", len(events.Items))
	})
}

func TestAVersionIsDroppedOnceNoMemberStoresIt(t *testing.T) {
	fleet := shared.Start(t)
	cogs := define("Cog", version("v1beta1", true, teeth))
	fleettest.Create(t, fleet.Hub, fleettest.ClusterPolicy("cogs", fleettest.Everywhere(), named(cogs)))
	defined(t, fleet.Hub, cogs)
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, cogs, established)
	}
	fleettest.Update(t, fleet.Hub, cogs, func(d *definition) {
		old := version("v1beta1", false, teeth)
		old.Served = false
		d.Annotations = map[string]string{workv1alpha1.AllowBreakingAnnotation: "true"} // it is not served any more
		d.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", true, teeth), old}
	})
	fleettest.ExpectEventually(t, fleet.Hub, cogs,
		definitionIs(workv1alpha1.DefinitionStoredInOneVersion, "False", "v1beta1 in member1, member2"))

	// The hub itself has migrated; the members have not.
	migrate(t, fleet.Hub, cogs)
	fleettest.Update(t, fleet.Hub, cogs, func(d *definition) {
		d.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", true, teeth)}
	})
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, fleet.Hub, definitionWork(m.Name, cogs), isHeld("v1beta1 is dropped", "storedVersions", m.Name))
	}
	migrate(t, fleet.Member("member1"), cogs)
	fleettest.ExpectEventually(t, fleet.Hub, definitionWork("member1", cogs), workIs(workv1alpha1.WorkApplied, metav1.ConditionTrue, ""))
	fleettest.ExpectEventually(t, fleet.Hub, cogs, definitionIs(workv1alpha1.DefinitionStoredInOneVersion, "False", "v1beta1 in member2"))
	migrate(t, fleet.Member("member2"), cogs)
	fleettest.ExpectEventually(t, fleet.Hub, cogs, definitionIs(workv1alpha1.DefinitionStoredInOneVersion, "True", "v1 only"))
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, cogs, func(d *definition) error {
			return equal("v1", d.Spec.Versions[len(d.Spec.Versions)-1].Name)
		})
	}
}

// migrate does what a storage migration reports as done.
func migrate(t *testing.T, c *fleettest.Cluster, d *definition) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"storedVersions":["v1"]}}`))
	if err := c.Status().Patch(t.Context(), d.DeepCopy(), patch); err != nil {
		t.Fatal(err)
	}
}

func TestAForeignDefinitionIsAdoptedOnlyIfEqual(t *testing.T) {
	fleet := shared.Start(t)
	levers := define("Lever", version("v1", true, teeth))
	other := levers.DeepCopy()
	other.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["teeth"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	fleettest.Create(t, fleet.Member("member1"), levers.DeepCopy())
	fleettest.Create(t, fleet.Member("member2"), other)
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, levers, established)
	}
	policy := fleettest.ClusterPolicy("levers", fleettest.Everywhere(), named(levers))
	fleettest.Create(t, fleet.Hub, policy)
	defined(t, fleet.Hub, levers)
	fleettest.ExpectEventually(t, fleet.Hub, definitionWork("member1", levers), workIs(workv1alpha1.WorkApplied, metav1.ConditionTrue, ""))
	fleettest.ExpectEventually(t, fleet.Hub, definitionWork("member2", levers), func(w *workv1alpha1.Work) error {
		if err := workIs(workv1alpha1.WorkApplied, metav1.ConditionFalse, "")(w); err != nil {
			return err
		}
		return says(w.Status.Conditions, workv1alpha1.WorkApplied, "already exists in the cluster member2",
			"spec.versions[v1].schema.openAPIV3Schema.properties.spec.properties.teeth.type")
	})
	adopted := fleettest.ExpectEventually(t, fleet.Member("member1"), levers, fleettest.Exists)
	if adopted.Labels[workv1alpha1.ManagedLabel] != "true" {
		t.Error("the equal definition is not managed")
	}

	// What was there before us is there after us.
	fleettest.Delete(t, fleet.Hub, levers.DeepCopy())
	fleettest.ExpectGone(t, fleet.Hub, definitionWork("member1", levers))
	left := fleettest.ExpectEventually(t, fleet.Member("member1"), levers, fleettest.Exists)
	if left.DeletionTimestamp != nil || left.Labels[workv1alpha1.ManagedLabel] != "" {
		t.Errorf("the adopted definition was not let go: %+v", left.ObjectMeta)
	}
}

// As "kubectl delete -f" of one file does, objects first.
func TestADefinitionGoesAfterItsObjects(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	nuts := define("Pecan", version("v1", true, teeth))
	defined(t, fleet.Hub, nuts)
	fleettest.ExpectEventually(t, fleet.Hub, nuts, established)
	one := instance(nuts, "v1", ns, "one", map[string]any{})
	fleettest.Create(t, fleet.Hub, withDependencies(fleettest.Policy(ns, "pecans", fleettest.Everywhere(), one)), one.DeepCopy())
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, one, fleettest.Exists)
	}
	for _, object := range []client.Object{one.DeepCopy(), nuts.DeepCopy()} {
		if err := fleet.Hub.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range fleet.Members {
		fleettest.ExpectGone(t, m, nuts)
	}
}

func TestADefinitionInUseIsNotDeleted(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	nuts := define("Nut", version("v1", true, teeth))
	defined(t, fleet.Hub, nuts)
	fleettest.ExpectEventually(t, fleet.Hub, nuts, established)
	walnut := instance(nuts, "v1", ns, "walnut", map[string]any{})
	fleettest.Create(t, fleet.Hub, withDependencies(fleettest.Policy(ns, "nuts", fleettest.Everywhere(), walnut)), walnut.DeepCopy())
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, nuts, established)
		fleettest.ExpectEventually(t, m, walnut, fleettest.Exists)
	}
	err := fleet.Hub.Delete(t.Context(), nuts.DeepCopy())
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "1 in member1, 1 in member2") {
		t.Fatalf("a definition in use is deleted, or refused without counts: %v", err)
	}
	fleettest.Update(t, fleet.Hub, nuts, func(d *definition) { d.Annotations = map[string]string{workv1alpha1.AllowDeletionAnnotation: "true"} })
	if err := fleet.Hub.Delete(t.Context(), nuts.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	for _, m := range fleet.Members {
		fleettest.ExpectGone(t, m, nuts)
	}
}

// A definition that a policy of ours selects for everything there is must leave those of the control plane alone.
func TestDefinitionsOfTheControlPlaneStayThere(t *testing.T) {
	fleet := shared.Start(t)
	probe := define("Probe", version("v1", true, teeth))
	policy := &policyv1alpha1.ClusterPropagationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "pipeline-definitions"},
		Spec: policyv1alpha1.PropagationSpec{
			Placement:         fleettest.To("member1"),
			ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}},
		},
	}
	fleettest.Create(t, fleet.Hub, policy)
	defined(t, fleet.Hub, probe)
	fleettest.ExpectEventually(t, fleet.Member("member1"), probe, established)
	fleettest.ExpectAbsent(t, fleet.Member("member1"), &definition{ObjectMeta: metav1.ObjectMeta{Name: "works.work.karmada.io"}})
}
