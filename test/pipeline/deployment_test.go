package pipeline_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// The main job: five replicas over two members, and READY 5/5 where they were applied.
func TestDeploymentReachesMembersAndReportsBack(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	nginx := fleettest.Deployment(ns, "nginx", 5)
	fleettest.Create(t, fleet.Hub, fleettest.Policy(ns, "nginx", fleettest.Divided(divided()), nginx), nginx)

	template := fleettest.ExpectEventually(t, fleet.Hub, nginx, ready(5))
	for _, kind := range []appsv1.DeploymentConditionType{appsv1.DeploymentAvailable, appsv1.DeploymentProgressing} {
		if !slices.ContainsFunc(template.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == kind && c.Status == corev1.ConditionTrue
		}) {
			t.Errorf("kubectl wait and rollout status read condition %s, which is not True: %+v", kind, template.Status.Conditions)
		}
	}
	fleettest.ExpectEventually(t, fleet.Member("member1"), nginx, fleettest.Replicas(3))
	copied := fleettest.ExpectEventually(t, fleet.Member("member2"), nginx, fleettest.Replicas(2))
	expectContractKeys(t, copied, ns)

	rb := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "nginx"), bindingIs("FullyApplied", metav1.ConditionTrue, "FullyAppliedSuccess"))
	want := []workv1alpha2.TargetCluster{{Name: "member1", Replicas: 3}, {Name: "member2", Replicas: 2}}
	if !slices.EqualFunc(rb.Spec.Clusters, want, func(a, b workv1alpha2.TargetCluster) bool {
		return a.Name == b.Name && a.Replicas == b.Replicas
	}) {
		t.Errorf("binding targets = %+v, want %+v", rb.Spec.Clusters, want)
	}
	for _, item := range rb.Status.AggregatedStatus {
		if !item.Applied || item.Health != workv1alpha2.ResourceHealthy {
			t.Errorf("aggregated status of %s: applied %v, health %s", item.ClusterName, item.Applied, item.Health)
		}
	}
	for _, cluster := range []string{"member1", "member2"} {
		w := fleettest.ExpectEventually(t, fleet.Hub, work(cluster, "Deployment", ns, "nginx"), workIs("Applied", metav1.ConditionTrue, "AppliedSuccessful"))
		for _, kind := range []string{"Progressing", "Available", "Degraded", "Dispatching"} {
			if err := fleettest.ConditionTrue(w.Status.Conditions, kind); kind != "Degraded" && kind != "Progressing" && err != nil {
				t.Errorf("work in %s: %v", cluster, err)
			}
		}
	}
}

// expectContractKeys looks for the labels and annotations by which others find their way from a copy to its template.
func expectContractKeys(t *testing.T, d *appsv1.Deployment, namespace string) {
	t.Helper()
	if d.Labels[workv1alpha1.ManagedLabel] != "true" {
		t.Errorf("copy is not labelled as managed: %v", d.Labels)
	}
	for _, label := range []string{workv1alpha2.ResourceBindingPermanentIDLabel, workv1alpha1.WorkPermanentIDLabel} {
		if d.Labels[label] == "" {
			t.Errorf("copy lacks label %s, has %v", label, slices.Sorted(maps.Keys(d.Labels)))
		}
	}
	for annotation, want := range map[string]string{
		workv1alpha1.WorkNamespaceAnnotation:            "karmada-es-member2",
		workv1alpha1.WorkNameAnnotation:                 workv1alpha1.WorkName("Deployment", namespace, "nginx"),
		workv1alpha2.ResourceBindingNamespaceAnnotation: namespace,
		workv1alpha2.ResourceBindingNameAnnotation:      "nginx-deployment",
	} {
		if got := d.Annotations[annotation]; got != want {
			t.Errorf("annotation %s = %q, want %q", annotation, got, want)
		}
	}
}

func TestScalingDividesAnew(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	web := fleettest.Deployment(ns, "web", 5)
	fleettest.Create(t, fleet.Hub, fleettest.Policy(ns, "web", fleettest.Divided(divided()), web), web)
	fleettest.ExpectEventually(t, fleet.Hub, web, ready(5))

	fleettest.Update(t, fleet.Hub, web, func(d *appsv1.Deployment) { *d.Spec.Replicas = 10 })
	fleettest.ExpectEventually(t, fleet.Hub, web, ready(10))
	fleettest.ExpectEventually(t, fleet.Member("member1"), web, fleettest.Replicas(6))
	fleettest.ExpectEventually(t, fleet.Member("member2"), web, fleettest.Replicas(4))
}

func TestChangeOfTheTemplateReachesEveryCopy(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	web := fleettest.Deployment(ns, "web", 1)
	fleettest.Create(t, fleet.Hub, fleettest.Policy(ns, "web", fleettest.Everywhere(), web), web)
	fleettest.ExpectEventually(t, fleet.Hub, web, ready(2))

	fleettest.Update(t, fleet.Hub, web, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "nginx:next" })
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, web, func(d *appsv1.Deployment) error {
			if image := d.Spec.Template.Spec.Containers[0].Image; image != "nginx:next" {
				return fmt.Errorf("image is %s", image)
			}
			return nil
		})
	}
	fleettest.ExpectEventually(t, fleet.Hub, web, ready(2))
}

func TestDeletionRemovesEverything(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	web := fleettest.Deployment(ns, "web", 1)
	fleettest.Create(t, fleet.Hub, fleettest.Policy(ns, "web", fleettest.Everywhere(), web), web)
	fleettest.ExpectEventually(t, fleet.Hub, web, ready(2))

	fleettest.Delete(t, fleet.Hub, web)
	fleettest.ExpectGone(t, fleet.Hub, web)
	fleettest.ExpectGone(t, fleet.Hub, binding(ns, "Deployment", "web"))
	for _, m := range fleet.Members {
		fleettest.ExpectGone(t, fleet.Hub, work(m.Name, "Deployment", ns, "web"))
		fleettest.ExpectGone(t, m, web)
	}
}

func TestPolicyOfTheClusterServesWhatNoOtherPolicyDoes(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	web := fleettest.Deployment(ns, "web", 1)
	fleettest.Create(t, fleet.Hub, fleettest.ClusterPolicy(ns, fleettest.To("member2"), web), web)
	fleettest.ExpectEventually(t, fleet.Hub, web, ready(1))
	fleettest.ExpectAbsent(t, fleet.Member("member1"), web)
}

// Targets that a policy no longer names lose their copy, and only they.
func TestChangeOfPlacementMovesCopies(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	web := fleettest.Deployment(ns, "web", 1)
	policy := fleettest.Policy(ns, "web", fleettest.To("member1"), web)
	fleettest.Create(t, fleet.Hub, policy, web)
	fleettest.ExpectEventually(t, fleet.Member("member1"), web, fleettest.Available)

	fleettest.Update(t, fleet.Hub, policy, func(p *policyType) { p.Spec.Placement = fleettest.To("member2") })
	fleettest.ExpectEventually(t, fleet.Member("member2"), web, fleettest.Available)
	fleettest.ExpectGone(t, fleet.Member("member1"), web)
}
