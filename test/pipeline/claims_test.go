package pipeline_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
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

// held is the condition of a claim that a driver serves, that is allocated or not, and reserved for n consumers.
func held(driver string, n int, allocated bool) func(*resourcev1alpha2.ResourceClaim) error {
	return func(c *resourcev1alpha2.ResourceClaim) error {
		if (c.Status.Allocation != nil) != allocated || c.Status.DriverName != driver || len(c.Status.ReservedFor) != n {
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

	onHub := fleettest.ExpectEventually(t, fleet.Hub, claim, held(exampleClass, 2*len(fleet.Members), true))
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

	// Without pods no consumer holds the claim, and a claim without consumers is freed.
	fleettest.Update(t, fleet.Hub, d, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](0) })
	fleettest.ExpectEventually(t, fleet.Hub, claim, held("", 0, false))
	fleettest.Delete(t, fleet.Hub, d)
	for _, m := range fleet.Members {
		fleettest.ExpectGone(t, m, &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "shared-gpu"}})
	}
	fleettest.ExpectEventually(t, fleet.Hub, claim, fleettest.Exists)
}

// TestAClaimThatIsNowhereIsNotAllocated: when what brought a claim along goes, its copies go with it.
func TestAClaimThatIsNowhereIsNotAllocated(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	old, today := oldClaim(ns, "old", exampleClass), todaysClaim(ns, "today", exampleClass)
	for _, claim := range []client.Object{old, today} {
		d := consuming(ns, claim.GetName(), 1, claim.GetName(), "")
		fleettest.Create(t, fleet.Hub, claim, d, withDependencies(fleettest.Policy(ns, claim.GetName(), fleettest.To("member1"), d)))
	}
	isHeld := func(holds bool) func(*resourcev1.ResourceClaim) error {
		return func(c *resourcev1.ResourceClaim) error {
			if (c.Status.Allocation != nil) != holds || (len(c.Status.ReservedFor) == 1) != holds {
				return fmt.Errorf("status %+v", c.Status)
			}
			return nil
		}
	}
	fleettest.ExpectEventually(t, fleet.Hub, old, held(exampleClass, 1, true))
	fleettest.ExpectEventually(t, fleet.Hub, today, isHeld(true))
	for _, name := range []string{"old", "today"} {
		fleettest.Delete(t, fleet.Hub, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}})
	}
	fleettest.ExpectEventually(t, fleet.Hub, old, held("", 0, false))
	fleettest.ExpectEventually(t, fleet.Hub, today, isHeld(false))
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

// TestClaimsOfBothVersionsAreApart: two claims of one name in two versions are two objects on the control plane, and one in
// a member. The first has it, and keeps its binding.
func TestClaimsOfBothVersionsAreApart(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	old := oldClaim(ns, "gpu", exampleClass)
	fleettest.Create(t, fleet.Hub, old, fleettest.Policy(ns, "old", fleettest.To("member1"), old))
	member := fleet.Member("member1")
	copied := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "gpu"}}
	fleettest.ExpectEventually(t, member, copied, fleettest.Exists)

	today := todaysClaim(ns, "gpu", exampleClass)
	fleettest.Create(t, fleet.Hub, today, fleettest.Policy(ns, "today", fleettest.To("member1"), today))
	fleettest.ExpectListed(t, fleet.Hub, &workv1alpha2.ResourceBindingList{}, ns, func(list *workv1alpha2.ResourceBindingList) error {
		for i := range list.Items {
			b := &list.Items[i]
			if b.Spec.Resource.APIVersion == "resource.k8s.io/v1" && b.Spec.Resource.Kind == "ResourceClaim" {
				return nil
			}
		}
		return errors.New("the second claim has no binding")
	})
	still := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ResourceClaim", "gpu"), fleettest.Exists)
	if still.Spec.Resource.APIVersion != resourcev1alpha2.GroupVersion.String() {
		t.Errorf("the binding is of %s now", still.Spec.Resource.APIVersion)
	}
}

// todaysClaim requests one device of a class, in today's version.
func todaysClaim(namespace, name, class string) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaim"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class},
		}}}},
	}
}

// deviceClass selects the devices of the simulated nodes, or no device at all.
func deviceClass(name, expression string) *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}},
	}
}

func scheduledMessage(text string) func(*workv1alpha2.ResourceBinding) error {
	return func(b *workv1alpha2.ResourceBinding) error {
		c := meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.Scheduled)
		if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, text) {
			return fmt.Errorf("condition %+v, want False with %q", c, text)
		}
		return nil
	}
}

// TestClaimsGoWhereTheirClassIs: for a class that no cluster has, the hub says so; when one has it and has a device of
// it, the object goes there.
func TestClaimsGoWhereTheirClassIs(t *testing.T) {
	t.Parallel()
	fleet := shared.Start(t)
	fleettest.ExpectGone(t, fleet.Hub, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: ghostName}})
	ns := fleet.Namespace(t)
	old := consuming(ns, "old", 1, "", "old-gpu")
	fleettest.Create(t, fleet.Hub, oldClaimTemplate(ns, "old-gpu", "rare.example.com"), old,
		withDependencies(fleettest.Policy(ns, "old", fleettest.Everywhere(), old)))
	today := consuming(ns, "today", 1, "today-gpu", "")
	fleettest.Create(t, fleet.Hub, todaysClaim(ns, "today-gpu", "rare.example.com"), today,
		withDependencies(fleettest.Policy(ns, "today", fleettest.Everywhere(), today)))
	bindings := map[*appsv1.Deployment]*workv1alpha2.ResourceBinding{
		old: binding(ns, "Deployment", "old"), today: binding(ns, "Deployment", "today"),
	}
	for _, b := range bindings {
		fleettest.ExpectEventually(t, fleet.Hub, b, scheduledMessage("2 have no device class rare.example.com (member1, member2)"))
	}

	class := deviceClass("rare.example.com", `device.driver == "none.example.com"`)
	fleettest.Create(t, fleet.Member("member2"), class)
	for _, b := range bindings {
		fleettest.ExpectEventually(t, fleet.Hub, b, scheduledMessage("1 has no free device of class rare.example.com"))
	}

	fleettest.Update(t, fleet.Member("member2"), class, func(c *resourcev1.DeviceClass) {
		c.Spec.Selectors[0].CEL.Expression = `device.driver == "gpu.example.com"`
	})
	for d, b := range bindings {
		fleettest.ExpectEventually(t, fleet.Hub, b, func(b *workv1alpha2.ResourceBinding) error {
			if len(b.Spec.Clusters) != 1 || b.Spec.Clusters[0].Name != "member2" {
				return fmt.Errorf("targets %v, want member2", b.Spec.Clusters)
			}
			return nil
		})
		fleettest.ExpectEventually(t, fleet.Hub, d, ready(1))
	}
	held := clusterv1alpha1.DeviceResource("rare.example.com")
	fleettest.ExpectEventually(t, fleet.Hub, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "member2"}}, func(c *clusterv1alpha1.Cluster) error {
		all, taken := c.Status.ResourceSummary.Allocatable[held], c.Status.ResourceSummary.Allocated[held]
		if all.Value() != 12 || taken.Value() < 2 {
			return fmt.Errorf("%s of %s devices are held, want at least 2 of 12", taken.String(), all.String())
		}
		return nil
	})

	// They were to go everywhere: a cluster that has devices later is not left out.
	fleettest.Create(t, fleet.Member("member1"), deviceClass("rare.example.com", `device.driver == "gpu.example.com"`))
	for d := range bindings {
		fleettest.ExpectEventually(t, fleet.Hub, d, ready(2))
	}
}

// TestV1ClaimsAreAggregated: what the schedulers of two members gave a claim of today's version is shown by the one on the
// hub, with the pools of the members kept apart; a claim in one member shows what that one has.
func TestV1ClaimsAreAggregated(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	for name, placement := range map[string]policyv1alpha1.Placement{"both": fleettest.Everywhere(), "one": fleettest.To("member2")} {
		d := consuming(ns, name, 1, name, "")
		fleettest.Create(t, fleet.Hub, todaysClaim(ns, name, exampleClass), d, withDependencies(fleettest.Policy(ns, name, placement, d)))
	}
	holds := func(consumers int, pools ...string) func(*resourcev1.ResourceClaim) error {
		return func(c *resourcev1.ResourceClaim) error {
			var have []string
			if c.Status.Allocation != nil {
				for _, r := range c.Status.Allocation.Devices.Results {
					have = append(have, r.Pool[:strings.LastIndex(r.Pool, "-")])
				}
			}
			if !slices.Equal(have, pools) || len(c.Status.ReservedFor) != consumers {
				return fmt.Errorf("devices of %v, %d consumers, want %v and %d", have, len(c.Status.ReservedFor), pools, consumers)
			}
			return nil
		}
	}
	both, one := todaysClaim(ns, "both", ""), todaysClaim(ns, "one", "")
	fleettest.ExpectEventually(t, fleet.Hub, both, holds(2, "member1/member1-node", "member2/member2-node"))
	seen := fleettest.ExpectEventually(t, fleet.Hub, one, holds(1, "member2-node"))
	if seen.Status.Allocation.NodeSelector == nil {
		t.Error("the nodes of the only copy are not said")
	}
	for _, name := range []string{"both", "one"} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		fleettest.Update(t, fleet.Hub, d, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](0) })
		fleettest.ExpectEventually(t, fleet.Hub, todaysClaim(ns, name, ""), holds(0))
	}
}

// TestAnObjectMovesWhenItsClaimComes: an object that was placed before its claim existed goes where the claim can be had.
func TestAnObjectMovesWhenItsClaimComes(t *testing.T) {
	fleet := shared.Start(t)
	fleettest.Create(t, fleet.Member("member2"), deviceClass("moving.example.com", `device.driver == "gpu.example.com"`))
	fleettest.ExpectEventually(t, fleet.Hub, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "member2"}}, func(c *clusterv1alpha1.Cluster) error {
		if _, known := c.Status.ResourceSummary.Allocatable[clusterv1alpha1.DeviceResource("moving.example.com")]; !known {
			return errors.New("the class is not known")
		}
		return nil
	})
	ns := fleet.Namespace(t)
	claims := map[string]client.Object{
		"old": oldClaimTemplate(ns, "old", "moving.example.com"), "today": todaysClaim(ns, "today", "moving.example.com"),
	}
	for name := range claims {
		claim, template := name, ""
		if name == "old" {
			claim, template = template, claim
		}
		d := consuming(ns, name, 1, claim, template)
		fleettest.Create(t, fleet.Hub, d, withDependencies(fleettest.Policy(ns, name, fleettest.Everywhere(), d)))
		fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", name), isIn("member1", "member2"))
	}
	for name, claim := range claims {
		fleettest.Create(t, fleet.Hub, claim)
		fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", name), isIn("member2"))
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		fleettest.ExpectEventually(t, fleet.Hub, d, ready(1))
		fleettest.ExpectGone(t, fleet.Member("member1"), d)
	}
}

// isIn is the condition of a binding whose targets are exactly these clusters.
func isIn(clusters ...string) func(*workv1alpha2.ResourceBinding) error {
	return func(b *workv1alpha2.ResourceBinding) error {
		var names []string
		for _, target := range b.Spec.Clusters {
			names = append(names, target.Name)
		}
		if slices.Sort(names); !slices.Equal(names, clusters) {
			return fmt.Errorf("it is in %v, want %v", names, clusters)
		}
		return nil
	}
}

// TestAReplacedClaimIsScheduledAgain: a claim cannot be changed, but one of the same name can take its place.
func TestAReplacedClaimIsScheduledAgain(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	d := consuming(ns, "late", 1, "", "gpu")
	wrong := oldClaimTemplate(ns, "gpu", "nowhere.example.com")
	fleettest.Create(t, fleet.Hub, wrong, d, withDependencies(fleettest.Policy(ns, "late", fleettest.To("member1"), d)))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "late"), scheduledMessage("has no device class nowhere.example.com"))
	fleettest.Delete(t, fleet.Hub, wrong)
	fleettest.Create(t, fleet.Hub, oldClaimTemplate(ns, "gpu", exampleClass))
	fleettest.ExpectEventually(t, fleet.Hub, d, ready(1))
}

// exampleObject reads a file of the examples; what has a namespace is put into another one.
func exampleObject(t *testing.T, file, namespace string) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "resourceclaims", file))
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &obj.Object); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if obj.GetNamespace() != "" {
		obj.SetNamespace(namespace)
	}
	return obj
}

// TestResourceClaimExamples runs every file of examples/resourceclaims.
func TestResourceClaimExamples(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	files, err := filepath.Glob(filepath.Join("..", "..", "examples", "resourceclaims", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if file = filepath.Base(file); file != "allocated.yaml" {
			fleettest.Create(t, fleet.Hub, exampleObject(t, file, ns))
		}
	}
	inference := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "inference"}}
	fleettest.ExpectEventually(t, fleet.Hub, inference, ready(2))

	training := oldClaim(ns, "training-gpu", "gpu")
	fleettest.ExpectEventually(t, fleet.Hub, training, held("", 0, false))
	claims := fleet.Hub.Dynamic.Resource(resourcev1alpha2.GroupVersion.WithResource("resourceclaims")).Namespace(ns)
	_, err = claims.ApplyStatus(t.Context(), "training-gpu", exampleObject(t, "allocated.yaml", ns), metav1.ApplyOptions{FieldManager: "driver"})
	if err != nil {
		t.Fatal(err)
	}
	fleettest.ExpectEventually(t, fleet.Hub, training, held(exampleClass, 0, true))
}
