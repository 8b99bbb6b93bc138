package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// A cluster that joins when everything is decided gets the definition and then the objects, and again when a user of
// the cluster deleted the definition, and the objects with it. Nothing has to be changed on the hub. It takes 40 s beside other tests, for a
// member that starts.
func TestAClusterThatJoinsLaterGetsTheDefinitionFirst(t *testing.T) {
	t.Parallel()
	hub := fleettest.StartHub(t)
	hinges := define("Hinge", version("v1", true, teeth))
	defined(t, hub.Cluster, hinges)
	fleettest.ExpectEventually(t, hub.Cluster, hinges, established)
	const ns = "doors"
	fleettest.Create(t, hub.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	policy := fleettest.Policy(ns, "hinges", fleettest.Everywhere(), instance(hinges, "v1", ns, "", nil))
	policy.Spec.ResourceSelectors[0].Name = ""
	fleettest.Create(t, hub.Cluster, withDependencies(policy))
	var objects []*unstructured.Unstructured
	for i := range 5 {
		objects = append(objects, instance(hinges, "v1", ns, fmt.Sprint("hinge-", i), map[string]any{"teeth": int64(i)}))
		fleettest.Create(t, hub.Cluster, objects[i].DeepCopy())
	}
	fleettest.ExpectEventually(t, hub.Cluster, binding(ns, "Hinge", "hinge-4"), fleettest.Exists)

	member := fleettest.StartMember(t, "late", "--bare")
	hub.Join(t, "late", member.Kubeconfig)
	arrived := func() {
		t.Helper()
		for _, object := range objects {
			fleettest.ExpectEventually(t, member.Cluster, object, fleettest.Exists)
			fleettest.ExpectEventually(t, hub.Cluster, work("late", "Hinge", ns, object.GetName()), workIs(workv1alpha1.WorkApplied, metav1.ConditionTrue, ""))
		}
	}
	arrived()
	attached := &workv1alpha2.ClusterResourceBinding{ObjectMeta: metav1.ObjectMeta{
		Name: workv1alpha2.BindingName("CustomResourceDefinition", hinges.Name),
	}}
	fleettest.ExpectEventually(t, hub.Cluster, attached, func(b *workv1alpha2.ClusterResourceBinding) error {
		if len(b.Spec.RequiredBy) != len(objects) {
			return fmt.Errorf("the definition is required by %d, want %d", len(b.Spec.RequiredBy), len(objects))
		}
		return nil
	})

	before := fleettest.ExpectEventually(t, member.Cluster, hinges, established)
	if err := member.Delete(context.WithoutCancel(t.Context()), hinges.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	fleettest.ExpectEventually(t, member.Cluster, hinges, func(d *definition) error {
		if d.UID == before.UID {
			return errors.New("the definition is the one before")
		}
		return established(d)
	})
	arrived()
}
