package crds

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

type definition = apiextensionsv1.CustomResourceDefinition

var shared = fleettest.Shared{Options: fleettest.Options{Members: 2, Bare: true}}

func TestMain(m *testing.M) { shared.Main(m) }

func TestDefinitionsInWideUse(t *testing.T) {
	if os.Getenv("FLAGSHIP_REAL_DEFINITIONS") == "" {
		t.Skip("downloads modules: run make test-crds")
	}
	fleet := shared.Start(t)
	for _, s := range sets {
		t.Run(s.name, func(t *testing.T) {
			ns := fleet.Namespace(t)
			for _, d := range s.read(t) {
				t.Run(d.Spec.Names.Kind, func(t *testing.T) {
					t.Parallel() // each waits some seconds for its kind to be served
					carry(t, fleet, ns, d)
				})
			}
		})
	}
}

// carry defines a kind on the hub, and follows an object of it to the members and its status back.
func carry(t *testing.T, fleet *fleettest.Fleet, namespace string, d *definition) {
	post(t, fleet.Hub, d)
	fleettest.ExpectEventually(t, fleet.Hub, d, established)
	version := storageOf(d)
	object := instance(t, d, version, namespace)
	fleettest.Create(t, fleet.Hub, policyFor(object, namespace))
	create(t, fleet.Hub, object)
	expectReports(t, fleet, object, false)
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, d, established)
		there := fleettest.ExpectEventually(t, m, object, fleettest.Exists)
		if version.Subresources == nil || version.Subresources.Status == nil {
			continue
		}
		status := version.Schema.OpenAPIV3Schema.Properties["status"]
		fleettest.UpdateStatus(t, m, there, func(u *unstructured.Unstructured) { u.Object["status"] = reportOf(&status) })
	}
	expectReports(t, fleet, object, version.Subresources != nil && version.Subresources.Status != nil)
}

// create makes an object of a kind that was established a moment ago, which discovery may not show yet.
func create(t *testing.T, hub *fleettest.Cluster, object *unstructured.Unstructured) {
	t.Helper()
	unserved := func(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }
	const pause = 100 * time.Millisecond
	err := retry.OnError(wait.Backoff{Duration: pause, Steps: int(fleettest.Patience / pause)}, unserved, func() error {
		return hub.Create(t.Context(), object.DeepCopy())
	})
	if err != nil {
		t.Fatalf("creating %s %s: %v", object.GetKind(), object.GetName(), err)
	}
}

// expectReports waits until every member has the object and, if required, its status is known on the hub.
func expectReports(t *testing.T, fleet *fleettest.Fleet, object *unstructured.Unstructured, status bool) {
	t.Helper()
	reported := func(items []workv1alpha2.AggregatedStatusItem) error {
		applied := 0
		for _, item := range items {
			if item.Applied && (!status || item.Status != nil && len(item.Status.Raw) > 2) {
				applied++
			}
		}
		if applied != len(fleet.Members) {
			return fmt.Errorf("%d of %d members have reported: %+v", applied, len(fleet.Members), items)
		}
		return nil
	}
	of := metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: workv1alpha2.BindingName(object.GetKind(), object.GetName())}
	if object.GetNamespace() == "" {
		fleettest.ExpectEventually(t, fleet.Hub, &workv1alpha2.ClusterResourceBinding{ObjectMeta: of},
			func(b *workv1alpha2.ClusterResourceBinding) error { return reported(b.Status.AggregatedStatus) })
		return
	}
	fleettest.ExpectEventually(t, fleet.Hub, &workv1alpha2.ResourceBinding{ObjectMeta: of},
		func(b *workv1alpha2.ResourceBinding) error { return reported(b.Status.AggregatedStatus) })
}

// post creates a definition, or makes the one there is like it.
func post(t *testing.T, hub *fleettest.Cluster, d *definition) {
	t.Helper()
	err := hub.Create(t.Context(), d.DeepCopy())
	if apierrors.IsAlreadyExists(err) {
		fleettest.Update(t, hub, &definition{ObjectMeta: metav1.ObjectMeta{Name: d.Name}}, func(present *definition) {
			present.Spec = d.Spec
			present.Annotations = map[string]string{workv1alpha1.AllowBreakingAnnotation: "true"}
			for key, value := range d.Annotations {
				present.Annotations[key] = value
			}
		})
		return
	}
	if err != nil {
		t.Fatalf("creating %s: %v", d.Name, err)
	}
}

func established(d *definition) error {
	for _, c := range d.Status.Conditions {
		if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("not established: %+v", d.Status.Conditions)
}

func storageOf(d *definition) *apiextensionsv1.CustomResourceDefinitionVersion {
	for i := range d.Spec.Versions {
		if d.Spec.Versions[i].Storage && d.Spec.Versions[i].Served {
			return &d.Spec.Versions[i]
		}
	}
	for i := range d.Spec.Versions {
		if d.Spec.Versions[i].Served {
			return &d.Spec.Versions[i]
		}
	}
	return &d.Spec.Versions[0]
}

// instance is an object of the kind: what the table says, or what the schema demands.
func instance(t *testing.T, d *definition, version *apiextensionsv1.CustomResourceDefinitionVersion, namespace string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{}}
	for name, property := range version.Schema.OpenAPIV3Schema.Properties {
		wanted := name == "spec"
		for _, required := range version.Schema.OpenAPIV3Schema.Required {
			wanted = wanted || required == name
		}
		if wanted && name != "metadata" {
			u.Object[name] = sampleOf(&property)
		}
	}
	if text, ok := specs[d.Spec.Names.Kind]; ok {
		var spec any
		if err := yaml.Unmarshal([]byte(text), &spec); err != nil {
			t.Fatal(err)
		}
		u.Object["spec"] = whole(spec)
	}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: d.Spec.Group, Version: version.Name, Kind: d.Spec.Names.Kind})
	u.SetName(strings.ToLower(d.Spec.Names.Kind))
	if d.Spec.Scope == apiextensionsv1.NamespaceScoped {
		u.SetNamespace(namespace)
	} else {
		u.SetName(u.GetName() + "-" + namespace)
	}
	return u
}

// whole has integers where YAML gives floats.
func whole(value any) any {
	switch v := value.(type) {
	case float64:
		return int64(v)
	case map[string]any:
		for key, child := range v {
			v[key] = whole(child)
		}
	case []any:
		for i, child := range v {
			v[i] = whole(child)
		}
	}
	return value
}

func policyFor(object *unstructured.Unstructured, namespace string) *policyv1alpha1.ClusterPropagationPolicy {
	policy := fleettest.ClusterPolicy("real-"+strings.ToLower(object.GetKind())+"-"+namespace, fleettest.Everywhere(), object)
	policy.Spec.PropagateDeps = true
	return policy
}
