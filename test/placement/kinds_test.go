package placement_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// define makes a kind of version v1 on the hub, whose objects may say anything, and waits until it is established.
func define(t *testing.T, fleet *fleettest.Fleet, group, kind string) {
	t.Helper()
	free, singular := true, strings.ToLower(kind)
	d := &apiextensionsv1.CustomResourceDefinition{
		// Clusters on paper never say that what they had is gone.
		ObjectMeta: metav1.ObjectMeta{Name: singular + "s." + group, Annotations: map[string]string{workv1alpha1.AllowDeletionAnnotation: "true"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: singular + "s", Singular: singular, Kind: kind, ListKind: kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &free}}}},
		},
	}
	fleettest.Create(t, fleet.Hub, d)
	fleettest.ExpectEventually(t, fleet.Hub, d, func(d *apiextensionsv1.CustomResourceDefinition) error {
		for _, c := range d.Status.Conditions {
			if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return errors.New("it is not established")
	})
}

// custom is an object of a kind that define made.
func custom(group, kind, namespace, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1", "kind": kind, "metadata": map[string]any{"namespace": namespace, "name": name}}}
}

// serve has clusters say that they serve a kind that define made, besides the others.
func serve(t *testing.T, fleet *fleettest.Fleet, group, kind string, clusters ...string) {
	t.Helper()
	for _, name := range clusters {
		report(t, fleet, name, func(c *clusterv1alpha1.Cluster) {
			c.Status.APIEnablements = append(c.Status.APIEnablements, clusterv1alpha1.APIEnablement{
				GroupVersion: group + "/v1", Resources: []clusterv1alpha1.APIResource{{Name: strings.ToLower(kind) + "s", Kind: kind}}})
		})
	}
}

// A kind that is defined while everything runs is propagated from its first object on, by a policy that named it before.
func TestANewKindIsATemplate(t *testing.T) {
	fleet, ns := start(t)
	const group = "early.example.io"
	gear := custom(group, "Gear", ns, "gear")
	fleettest.Create(t, fleet.Hub, along(fleettest.Policy(ns, "gears", fleettest.To("east-1"), gear)))
	define(t, fleet, group, "Gear")
	established := time.Now()
	// It is applied: the API server makes the first that create an object of a new kind wait for two seconds.
	gears := fleet.Hub.Dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "gears"}).Namespace(ns)
	err := retry.OnError(wait.Backoff{Duration: 10 * time.Millisecond, Factor: 1.2, Steps: 40}, apierrors.IsNotFound, func() error {
		_, err := gears.Apply(t.Context(), gear.GetName(), gear, metav1.ApplyOptions{FieldManager: "test"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	created := time.Now()
	// The kind comes from a definition that goes along, so that clusters need not serve it yet.
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Gear", "gear"), placed("east-1"))
	t.Logf("placed %s after its kind was established, and %s after it was there", time.Since(established), time.Since(created))
}

// A workload of several kinds of pods goes to one cluster as a whole set, or in full to every cluster.
func TestComponentsStayTogether(t *testing.T) {
	fleet, ns := start(t)
	clusters, all := island(t, fleet, 400, 600)
	define(t, fleet, "ray.io", "RayCluster")
	serve(t, fleet, "ray.io", "RayCluster", clusters...)
	ray := func(name string) *unstructured.Unstructured {
		pods := func(cpu string) map[string]any {
			return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
				"name": "ray", "resources": map[string]any{"requests": map[string]any{"cpu": cpu}}}}}}
		}
		o := custom("ray.io", "RayCluster", ns, name)
		// Two CPUs and three of one are 500 of the replicas by which the capacity of the clusters is counted.
		o.Object["spec"] = map[string]any{
			"headGroupSpec":    map[string]any{"template": pods("2")},
			"workerGroupSpecs": []any{map[string]any{"groupName": "worker", "replicas": int64(3), "template": pods("1")}},
		}
		return o
	}
	one := byAvailable(policyv1alpha1.ReplicaDivisionPreferenceAggregated, all)
	one.SpreadConstraints = []policyv1alpha1.SpreadConstraint{spread("cluster", 1, 1)}
	everywhere := policyv1alpha1.Placement{ClusterAffinity: all}

	first, second, third := ray("first"), ray("second"), ray("third")
	fleettest.Create(t, fleet.Hub, first, fleettest.Policy(ns, "first", one, first))
	b := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "RayCluster", "first"), divided(map[string]int32{clusters[1]: 0}))
	var components []string
	for _, c := range b.Spec.Components {
		components = append(components, fmt.Sprintf("%d %s of %s", c.Replicas, c.Name, c.ReplicaRequirements.ResourceRequest.Cpu()))
	}
	if got := strings.Join(components, ", "); got != "1 head of 2, 3 worker of 1" || b.Spec.Replicas != 0 {
		t.Errorf("the components are %s, besides %d replicas", got, b.Spec.Replicas)
	}
	// No cluster has capacity for another set: what is left in several clusters is not added up.
	fleettest.Create(t, fleet.Hub, second, fleettest.Policy(ns, "second", one, second))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "RayCluster", "second"), func(b *workv1alpha2.ResourceBinding) error {
		return contradicted(b, workv1alpha2.BindingReasonUnschedulable, "")
	})
	hold(t, fleet, clusters[0], 500)
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "RayCluster", "second"), divided(map[string]int32{clusters[0]: 0}))
	fleettest.Create(t, fleet.Hub, third, fleettest.Policy(ns, "third", everywhere, third))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "RayCluster", "third"), divided(map[string]int32{clusters[0]: 0, clusters[1]: 0}))
}
