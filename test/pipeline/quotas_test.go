package pipeline_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestReplicasStayWithinQuotas: ResourceQuotas of a namespace in members count as capacity, also in a burst, and when they get larger what
// waits goes on.
func TestReplicasStayWithinQuotas(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	quota := func(name corev1.ResourceName, most string) *corev1.ResourceQuota {
		return &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "team"},
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{name: resource.MustParse(most)}}}
	}
	three, five := quota(corev1.ResourcePods, "3"), quota(corev1.ResourceRequestsCPU, "50m") // each replica requests 10m
	for i, q := range []*corev1.ResourceQuota{three, five} {
		member := fleet.Members[i]
		fleettest.ExpectEventually(t, member, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, fleettest.Exists)
		fleettest.Create(t, member, q)
		fleettest.ExpectEventually(t, fleet.Hub, &fleetv1alpha1.ClusterCapacity{ObjectMeta: metav1.ObjectMeta{Name: member.Name}},
			func(c *fleetv1alpha1.ClusterCapacity) error {
				if !slices.ContainsFunc(c.Quotas, func(q fleetv1alpha1.Quota) bool { return q.Namespace == ns && q.Name == "team" }) {
					return fmt.Errorf("the quotas are %v", c.Quotas)
				}
				return nil
			})
	}
	aggregated := policyv1alpha1.Placement{ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided, ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceAggregated,
	}}
	var burst, all []client.Object
	for i := range 9 {
		web := fleettest.Deployment(ns, fmt.Sprintf("web-%d", i), 1)
		if all = append(all, web); i < 8 {
			burst = append(burst, web)
		}
	}
	fleettest.Create(t, fleet.Hub, fleettest.Policy(ns, "web", aggregated, all...))
	fleettest.Create(t, fleet.Hub, burst...)
	for _, web := range burst {
		fleettest.ExpectEventually(t, fleet.Hub, web.(*appsv1.Deployment), fleettest.Available)
	}
	for i, want := range []int{3, 5} {
		list := &appsv1.DeploymentList{}
		if err := fleet.Members[i].List(t.Context(), list, client.InNamespace(ns)); err != nil || len(list.Items) != want {
			t.Errorf("%s has %d Deployments, want %d: %v", fleet.Members[i].Name, len(list.Items), want, err)
		}
	}

	last := all[8].(*appsv1.Deployment)
	fleettest.Create(t, fleet.Hub, last)
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", last.Name), func(b *workv1alpha2.ResourceBinding) error {
		if len(b.Spec.Clusters) > 0 {
			return fmt.Errorf("it is assigned to %v", b.Spec.Clusters)
		}
		return bindingIs(workv1alpha2.Scheduled, metav1.ConditionFalse, "")(b)
	})
	if r := fleettest.Flagship(t, "explain", "deployment", last.Name, "-n", ns, "--kubeconfig", fleet.Hub.Kubeconfig); !strings.Contains(r.Stdout, "ResourceQuota team") {
		t.Errorf("explain does not name the quota:\n%s%s", r.Stdout, r.Stderr)
	}
	fleettest.Update(t, fleet.Members[0], three, func(q *corev1.ResourceQuota) { q.Spec.Hard[corev1.ResourcePods] = resource.MustParse("4") })
	fleettest.ExpectEventually(t, fleet.Hub, last, fleettest.Available)
	fleettest.ExpectEventually(t, fleet.Members[0], last.DeepCopy(), func(d *appsv1.Deployment) error {
		if d.Status.ReadyReplicas != 1 {
			return errors.New("it does not run where the quota has grown")
		}
		return nil
	})
}
