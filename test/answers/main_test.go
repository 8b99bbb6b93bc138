// Package answers_test runs the commands that answer questions about a fleet with troubles. docs/answers.md has what they print: the test
// compares it, and UPDATE_DOCS=1 writes it.
package answers_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

const shop = "shop"

// troubled is a fleet of three members of 4 CPUs each, with the objects of shop.yaml and what is wrong with each. The third member is dead.
func troubled(t *testing.T) *fleettest.Fleet {
	t.Helper()
	fleet := fleettest.Start(t, fleettest.Options{Members: 3, Nodes: 1, NodeCPU: "4", Args: []string{"--cluster-failure-threshold", "5s"}})
	for _, member := range fleet.Members {
		fleettest.ExpectEventually(t, fleet.Hub, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: member.Name}}, func(c *clusterv1alpha1.Cluster) error {
			if c.Status.ResourceSummary == nil || c.Status.ResourceSummary.Allocatable.Cpu().IsZero() {
				return errors.New("it has not reported its capacity")
			}
			return nil
		})
	}
	fleettest.Create(t, fleet.Hub, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop}})
	fleettest.Create(t, fleet.Hub, manifests(t)...)

	prices := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: workv1alpha1.ExecutionNamespace("member3"), Name: workv1alpha1.WorkName("ConfigMap", shop, "prices"),
	}}
	fleettest.ExpectEventually(t, fleet.Hub, prices, func(w *workv1alpha1.Work) error {
		return fleettest.ConditionTrue(w.Status.Conditions, workv1alpha1.WorkApplied)
	})
	fleet.KillMember(t, "member3")
	web := fleettest.Deployment(shop, "web", 2)
	for _, member := range []string{"member1", "member2"} {
		fleettest.ExpectEventually(t, fleet.Member(member), web, fleettest.Available)
	}
	fleettest.ExpectEventually(t, fleet.Hub, web, func(d *appsv1.Deployment) error {
		if d.Status.AvailableReplicas != 4 {
			return fmt.Errorf("%d replicas are available, want 4", d.Status.AvailableReplicas)
		}
		return nil
	})
	for _, name := range []string{"api", "batch"} {
		binding := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: workv1alpha2.BindingName("Deployment", name)}}
		fleettest.ExpectEventually(t, fleet.Hub, binding, func(b *workv1alpha2.ResourceBinding) error {
			if !meta.IsStatusConditionFalse(b.Status.Conditions, workv1alpha2.Scheduled) {
				return errors.New("its condition Scheduled is not False")
			}
			return nil
		})
	}
	fleettest.ExpectListed(t, fleet.Hub, &corev1.EventList{}, shop, func(events *corev1.EventList) error {
		for _, e := range events.Items {
			if e.InvolvedObject.Name == "catalog" && e.Reason == "BackOff" {
				return nil
			}
		}
		return errors.New("no event about the image of catalog")
	})
	fleettest.ExpectEventually(t, fleet.Hub, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "member3"}}, func(c *clusterv1alpha1.Cluster) error {
		if meta.IsStatusConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady) {
			return errors.New("it is Ready")
		}
		return nil
	})
	return fleet
}

// manifests reads the objects of shop.yaml.
func manifests(t *testing.T) (objects []client.Object) {
	t.Helper()
	text, err := os.ReadFile("testdata/shop.yaml")
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text))
	for {
		u := &unstructured.Unstructured{}
		err := decoder.Decode(u)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, u)
	}
}
