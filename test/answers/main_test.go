// Package answers_test runs the commands that answer questions about a fleet with troubles. docs/answers.md has what they print: the test
// compares it, and UPDATE_DOCS=1 writes it.
package answers_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
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
	fleet := fleettest.Start(t, fleettest.Options{Members: 3, Nodes: 1, NodeCPU: "4", Args: []string{"--set", "cluster-failure-threshold=5s"}})
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
	notes := fleettest.ConfigMap(shop, "notes", map[string]string{"a": "b"})
	policy := fleettest.Policy(shop, "notes", fleettest.To("member1"), notes)
	fleettest.Create(t, fleet.Hub, notes, policy)
	fleettest.ExpectEventually(t, fleet.Member("member1"), notes.DeepCopy(), fleettest.Exists)
	fleettest.Create(t, fleet.Member("member1"), fleettest.ConfigMap(shop, "local", map[string]string{"a": "b"}))
	fleettest.Delete(t, fleet.Hub, notes, policy)
	fleettest.ExpectListed(t, fleet.Hub, &corev1.SecretList{}, "flagship-system", func(stored *corev1.SecretList) error {
		if !slices.ContainsFunc(stored.Items, func(s corev1.Secret) bool { return strings.HasPrefix(s.Name, "flagship-deleted-") }) {
			return errors.New("what was deleted is not stored")
		}
		return nil
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
	fleettest.Update(t, fleet.Hub, web, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "nginx:1.30" })
	fleettest.ExpectListed(t, fleet.Hub, &appsv1.ControllerRevisionList{}, shop, func(revisions *appsv1.ControllerRevisionList) error {
		if len(revisions.Items) != 2 {
			return fmt.Errorf("there are %d revisions, want 2", len(revisions.Items))
		}
		return nil
	})
	drifted := fleettest.Deployment(shop, "web", 2)
	fleettest.ExpectEventually(t, fleet.Member("member1"), drifted, func(d *appsv1.Deployment) error {
		if d.Spec.Template.Spec.Containers[0].Image != "nginx:1.30" {
			return errors.New("it has the former image")
		}
		return nil
	})
	fleettest.Update(t, fleet.Member("member1"), drifted, func(d *appsv1.Deployment) { *d.Spec.Replicas = 5 })
	fleettest.ExpectEventually(t, fleet.Member("member1"), drifted, fleettest.Replicas(2))
	settings := fleettest.ConfigMap(shop, "settings", nil)
	fleettest.ExpectEventually(t, fleet.Member("member1"), settings, fleettest.Exists)
	fleettest.Update(t, fleet.Member("member1"), settings, func(c *corev1.ConfigMap) { c.Data = map[string]string{"colour": "green", "size": "large"} })
	paused := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: workv1alpha1.ExecutionNamespace("member1"), Name: workv1alpha1.WorkName("ConfigMap", shop, "settings"),
	}}
	fleettest.ExpectEventually(t, fleet.Hub, paused, func(w *workv1alpha1.Work) error {
		return fleettest.ConditionTrue(w.Status.Conditions, workv1alpha1.WorkDrifted)
	})
	for _, member := range []string{"member1", "member2"} {
		work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
			Namespace: workv1alpha1.ExecutionNamespace(member), Name: workv1alpha1.WorkName("Deployment", shop, "web"),
		}}
		fleettest.ExpectEventually(t, fleet.Member(member), drifted, fleettest.Available)
		fleettest.ExpectEventually(t, fleet.Hub, work, func(w *workv1alpha1.Work) error {
			if len(w.Status.ManifestStatuses) != 1 || w.Status.ManifestStatuses[0].Health != workv1alpha1.ResourceHealthy {
				return fmt.Errorf("its manifests are %+v", w.Status.ManifestStatuses)
			}
			return nil
		})
	}
	fleettest.ExpectEventually(t, fleet.Hub, web, func(d *appsv1.Deployment) error {
		if s := d.Status; s.Replicas != 4 || s.UpdatedReplicas != 4 || s.AvailableReplicas != 4 || s.ObservedGeneration != d.Generation {
			return fmt.Errorf("its status is %+v", s)
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
		for name, reason := range map[string]string{"catalog": "BackOff", "web": "FieldPutBack"} {
			if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return e.InvolvedObject.Name == name && e.Reason == reason }) {
				return fmt.Errorf("%s has no event %s", name, reason)
			}
		}
		return nil
	})
	fleettest.ExpectEventually(t, fleet.Hub, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "member3"}}, func(c *clusterv1alpha1.Cluster) error {
		// The first failure after the kill may be that of a connection which was open, and another loop adds the taint.
		ready := meta.FindStatusCondition(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
		if ready == nil || ready.Status != metav1.ConditionFalse || !strings.Contains(ready.Message, "connection refused") {
			return fmt.Errorf("its condition Ready is %+v", ready)
		}
		if !slices.ContainsFunc(c.Spec.Taints, func(taint corev1.Taint) bool {
			return taint.Key == clusterv1alpha1.TaintClusterNotReady && taint.Effect == corev1.TaintEffectNoSchedule
		}) {
			return fmt.Errorf("its taints are %v", c.Spec.Taints)
		}
		return nil
	})
	fleettest.ExpectListed(t, fleet.Hub, &workv1alpha1.WorkList{}, workv1alpha1.ExecutionNamespace("member3"), func(works *workv1alpha1.WorkList) error {
		for i := range works.Items {
			for _, m := range works.Items[i].Status.ManifestStatuses {
				if m.Health != workv1alpha1.ResourceUnknown {
					return fmt.Errorf("Work %s is %s", works.Items[i].Name, m.Health)
				}
			}
		}
		return nil
	})
	seen := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: workv1alpha2.BindingName("ConfigMap", "prices")}}
	fleettest.ExpectEventually(t, fleet.Hub, seen, func(b *workv1alpha2.ResourceBinding) error {
		for _, s := range b.Status.AggregatedStatus {
			if s.ClusterName == "member3" && s.Health != workv1alpha2.ResourceUnknown {
				return fmt.Errorf("the copy in member3 is %s", s.Health)
			}
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
