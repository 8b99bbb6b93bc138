package pipeline_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/fleettest"
)

// exampleClass is the class, and the driver, of the devices that simulated nodes have.
const exampleClass = "gpu.example.com"

func oldClaim(namespace, name, class string) *resourcev1alpha2.ResourceClaim {
	return &resourcev1alpha2.ResourceClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: resourcev1alpha2.GroupVersion.String(), Kind: resourcev1alpha2.KindResourceClaim},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       resourcev1alpha2.ResourceClaimSpec{ResourceClassName: class},
	}
}

func oldClaimTemplate(namespace, name, class string) *resourcev1alpha2.ResourceClaimTemplate {
	return &resourcev1alpha2.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       resourcev1alpha2.ResourceClaimTemplateSpec{Spec: resourcev1alpha2.ResourceClaimSpec{ResourceClassName: class}},
	}
}

// consuming is a Deployment whose pods share a claim, or have one each from a template; an empty name is none.
func consuming(namespace, name string, replicas int32, claim, template string) *appsv1.Deployment {
	d := fleettest.Deployment(namespace, name, replicas)
	pod := &d.Spec.Template.Spec
	for local, reference := range map[string]corev1.PodResourceClaim{
		"shared": {ResourceClaimName: &claim}, "own": {ResourceClaimTemplateName: &template},
	} {
		if ptr.Deref(reference.ResourceClaimName, "")+ptr.Deref(reference.ResourceClaimTemplateName, "") == "" {
			continue
		}
		reference.Name = local
		pod.ResourceClaims = append(pod.ResourceClaims, reference)
		pod.Containers[0].Resources.Claims = append(pod.Containers[0].Resources.Claims, corev1.ResourceClaim{Name: local})
	}
	return d
}

// withDependencies is a policy that takes along what its objects refer to.
func withDependencies(p *policyType) *policyType {
	p.Spec.PropagateDeps = true
	return p
}

// held is the condition of a claim that is allocated, by a driver, and reserved for n consumers.
func held(driver string, n int) func(*resourcev1alpha2.ResourceClaim) error {
	return func(c *resourcev1alpha2.ResourceClaim) error {
		if c.Status.Allocation == nil || c.Status.DriverName != driver || len(c.Status.ReservedFor) != n {
			return fmt.Errorf("driver %q, allocated %t, %d consumers", c.Status.DriverName, c.Status.Allocation != nil, len(c.Status.ReservedFor))
		}
		return nil
	}
}

// TestClaimsFollowTheirPodsAndAreAllocatedThere is the whole way of a claim of v1alpha2 through clusters of today: the
// scheduler of each member gives it a device, and the hub shows it in the terms of the claim.
func TestClaimsFollowTheirPodsAndAreAllocatedThere(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	d := consuming(ns, "train", 2, "shared-gpu", "own-gpu")
	claim := oldClaim(ns, "shared-gpu", exampleClass)
	fleettest.Create(t, fleet.Hub, claim, oldClaimTemplate(ns, "own-gpu", exampleClass), d,
		withDependencies(fleettest.Policy(ns, "train", fleettest.Everywhere(), d)))

	fleettest.ExpectEventually(t, fleet.Hub, d, ready(2*int32(len(fleet.Members))))
	for _, m := range fleet.Members {
		copied := fleettest.ExpectEventually(t, m, &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "shared-gpu"}},
			func(c *resourcev1.ResourceClaim) error {
				if c.Status.Allocation == nil || len(c.Status.ReservedFor) != 2 {
					return fmt.Errorf("status %+v", c.Status)
				}
				return nil
			})
		if got := copied.Annotations[resourcev1alpha2.TranslatedFromAnnotation]; got != "resource.k8s.io/v1alpha2" {
			t.Errorf("%s: the claim says it was translated from %q", m.Name, got)
		}
		var all resourcev1.ResourceClaimList
		if err := m.List(t.Context(), &all, client.InNamespace(ns)); err != nil {
			t.Fatal(err)
		}
		if len(all.Items) != 3 {
			t.Errorf("%s has %d claims, want the shared one and one for each of two pods", m.Name, len(all.Items))
		}
	}

	onHub := fleettest.ExpectEventually(t, fleet.Hub, claim, held(exampleClass, 2*len(fleet.Members)))
	var clusters []string
	for _, handle := range onHub.Status.Allocation.ResourceHandles {
		var data struct{ Cluster string }
		if err := json.Unmarshal([]byte(handle.Data), &data); err != nil || handle.DriverName != exampleClass {
			t.Errorf("handle %+v: %v", handle, err)
		}
		clusters = append(clusters, data.Cluster)
	}
	if !slices.Equal(clusters, []string{"member1", "member2"}) {
		t.Errorf("handles are of clusters %v, want one of each member", clusters)
	}
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ResourceClaim", "shared-gpu"), func(b *workv1alpha2.ResourceBinding) error {
		for _, item := range b.Status.AggregatedStatus {
			var status resourcev1alpha2.ResourceClaimStatus
			if item.Status == nil || json.Unmarshal(item.Status.Raw, &status) != nil || status.DriverName != exampleClass ||
				status.Allocation == nil || !strings.Contains(status.Allocation.ResourceHandles[0].Data, `"device":"gpu-`) || len(status.ReservedFor) != 2 {
				return fmt.Errorf("%s reports %+v", item.ClusterName, item.Status)
			}
		}
		return conditionIs(b.Status.Conditions, workv1alpha2.FullyApplied, metav1.ConditionTrue, "")
	})

	// With the pods gone nobody holds the claim, and what nobody holds is freed.
	fleettest.Update(t, fleet.Hub, d, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](0) })
	fleettest.ExpectEventually(t, fleet.Hub, claim, func(c *resourcev1alpha2.ResourceClaim) error {
		if c.Status.Allocation != nil || len(c.Status.ReservedFor) > 0 {
			return fmt.Errorf("status %+v", c.Status)
		}
		return nil
	})
	fleettest.Delete(t, fleet.Hub, d)
	for _, m := range fleet.Members {
		fleettest.ExpectGone(t, m, &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "shared-gpu"}})
	}
	fleettest.ExpectEventually(t, fleet.Hub, claim, fleettest.Exists)
}

// TestAClassThatLosesItsMeaningIsRefused: a class that restricts nodes would allow all of them in a cluster of today.
func TestAClassThatLosesItsMeaningIsRefused(t *testing.T) {
	fleet := shared.Start(t)
	class := &resourcev1alpha2.ResourceClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: resourcev1alpha2.GroupVersion.String(), Kind: resourcev1alpha2.KindResourceClass},
		ObjectMeta: metav1.ObjectMeta{Name: "picky.example.com"},
		DriverName: exampleClass,
		SuitableNodes: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "gpu", Operator: corev1.NodeSelectorOpExists}},
		}}},
	}
	fleettest.Create(t, fleet.Hub, class, fleettest.ClusterPolicy("picky", fleettest.Everywhere(), class))
	bound := &workv1alpha2.ClusterResourceBinding{ObjectMeta: metav1.ObjectMeta{Name: workv1alpha2.BindingName("ResourceClass", "picky.example.com")}}
	fleettest.ExpectEventually(t, fleet.Hub, bound, func(b *workv1alpha2.ClusterResourceBinding) error {
		if err := conditionIs(b.Status.Conditions, workv1alpha2.Rendered, metav1.ConditionFalse, workv1alpha2.TranslationFailedReason); err != nil {
			return err
		}
		message := meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.Rendered).Message
		if !strings.Contains(message, "cluster member1") || !strings.Contains(message, "suitableNodes has no counterpart: remove it") {
			return fmt.Errorf("message %q", message)
		}
		return nil
	})
	for _, m := range fleet.Members {
		fleettest.ExpectAbsent(t, m, &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "picky.example.com"}})
	}
	fleettest.Update(t, fleet.Hub, class, func(c *resourcev1alpha2.ResourceClass) { c.SuitableNodes = nil })
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "picky.example.com"}},
			func(c *resourcev1.DeviceClass) error {
				return equal(`device.driver == "gpu.example.com"`, c.Spec.Selectors[0].CEL.Expression)
			})
	}
	fleettest.ExpectEventually(t, fleet.Hub, bound, func(b *workv1alpha2.ClusterResourceBinding) error {
		if c := meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.Rendered); c != nil {
			return fmt.Errorf("still %s: %s", c.Status, c.Message)
		}
		return nil
	})
}

// TestClaimsOfBothVersionsAreApart: two claims of one name in two versions are two objects, and their bindings cannot
// both have the name; the second one is told.
func TestClaimsOfBothVersionsAreApart(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	old := oldClaim(ns, "gpu", exampleClass)
	fleettest.Create(t, fleet.Hub, old, fleettest.Policy(ns, "old", fleettest.To("member1"), old))
	member := fleet.Member("member1")
	copied := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "gpu"}}
	fleettest.ExpectEventually(t, member, copied, fleettest.Exists)

	today := &resourcev1.ResourceClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaim"},
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "gpu"},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: exampleClass},
		}}}},
	}
	fleettest.Create(t, fleet.Hub, today, fleettest.Policy(ns, "today", fleettest.To("member1"), today))
	expectEvent(t, fleet.Hub, today, "same kind and name in another group or version")
	still := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ResourceClaim", "gpu"), fleettest.Exists)
	if still.Spec.Resource.APIVersion != resourcev1alpha2.GroupVersion.String() {
		t.Errorf("the binding is of %s now", still.Spec.Resource.APIVersion)
	}
}
