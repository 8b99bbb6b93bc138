package services_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// createExample makes the objects of a file of examples/services.
func createExample(t *testing.T, c *fleettest.Cluster, namespace, file string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "services", file))
	if err != nil {
		t.Fatal(err)
	}
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := documents.Decode(&object.Object)
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			t.Fatalf("reading %s: %v", file, err)
		case len(object.Object) == 0:
			continue
		}
		object.SetNamespace(namespace)
		fleettest.Create(t, c, object)
	}
}

// TestTheExamples: the commands in docs/services.md have the effect that the page describes.
func TestTheExamples(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m1, m2, m3 := fleet.Member("member1"), fleet.Member("member2"), fleet.Member("member3")
	createExample(t, fleet.Hub, ns, "app.yaml")
	createExample(t, fleet.Hub, ns, "crosscluster.yaml")
	echo := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "echo"}}
	mcs := &networkingv1alpha1.MultiClusterService{ObjectMeta: echo.ObjectMeta}
	one, two := ownAddresses(t, m1, echo, 3), ownAddresses(t, m2, echo, 2)
	expectImported(t, m3, echo, has(together(one, two)))
	expectImported(t, m1, echo, has(two))
	expectImported(t, m2, echo, has(one))
	for _, condition := range []string{applied, exchanged} {
		fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(condition, isTrue, "member1, member2"))
	}
	fleettest.ExpectAbsent(t, m3, &appsv1.Deployment{ObjectMeta: echo.ObjectMeta})

	createExample(t, fleet.Hub, ns, "loadbalancer.yaml")
	outside := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "echo-outside"}}
	balanced := &networkingv1alpha1.MultiClusterService{ObjectMeta: outside.ObjectMeta}
	for i, m := range []*fleettest.Cluster{m1, m2} {
		fleettest.ExpectEventually(t, m, outside, fleettest.Exists)
		patchStatus(t, m, outside, fmt.Sprintf(`{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.%d"}]}}}`, i+1))
	}
	fleettest.ExpectEventually(t, fleet.Hub, balanced, conditionIs(applied, isTrue, "member1, member2"))
	fleettest.ExpectEventually(t, fleet.Hub, balanced, func(m *networkingv1alpha1.MultiClusterService) error {
		if points := m.Status.LoadBalancer.Ingress; len(points) != 2 || points[0].IP != "192.0.2.1" || points[1].IP != "192.0.2.2" {
			return fmt.Errorf("ways in are %+v", points)
		}
		return nil
	})
}
