package pipeline_test

import (
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestTemplateFollowsAutoscalers: where an HPA that is propagated scales a Deployment, the template has the sum of the members'
// replicas, and no member is scaled back. The test scales by hand, as an autoscaler does: the metric of the HPA does not exist.
func TestTemplateFollowsAutoscalers(t *testing.T) {
	t.Parallel()
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	web := fleettest.Deployment(ns, "web", 4)
	hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
	hpa.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
		MinReplicas:    new(int32(1)), MaxReplicas: 20,
		Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: "none"}, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: new(resource.MustParse("1"))},
		}}},
	}
	placement := fleettest.Divided(fleettest.Weight{Cluster: "member1", Weight: 9}, fleettest.Weight{Cluster: "member2", Weight: 1})
	fleettest.Create(t, fleet.Hub, web, hpa, fleettest.Policy(ns, "web", placement, web), fleettest.Policy(ns, "hpa", fleettest.Everywhere(), hpa))
	m1, m2 := fleet.Members[0], fleet.Members[1]
	fleettest.ExpectEventually(t, fleet.Hub, web, func(d *appsv1.Deployment) error {
		return equal("true", d.Labels[policyv1alpha1.RetainReplicasLabel])
	})
	// Without the label in the member, what scales there is put back.
	fleettest.ExpectEventually(t, m1, web, func(d *appsv1.Deployment) error {
		return errors.Join(hasReplicas(4)(d), equal("true", d.Labels[policyv1alpha1.RetainReplicasLabel]))
	})
	fleettest.ExpectEventually(t, m1, hpa, fleettest.Exists)

	scaleTo(t, m1, web, 12)
	fleettest.ExpectEventually(t, fleet.Hub, web, hasReplicas(13)) // of twelve, member2 receives one
	fleettest.ExpectEventually(t, m2, web, hasReplicas(1))
	scaleTo(t, m1, web, 1)
	fleettest.ExpectEventually(t, fleet.Hub, web, hasReplicas(2))
	expectDivided(t, fleet, ns, 2, 2)
	fleettest.ExpectEventually(t, m2, web, hasReplicas(1)) // its share is none, but it stays

	fleettest.Delete(t, fleet.Hub, hpa)
	fleettest.ExpectEventually(t, fleet.Hub, web, func(d *appsv1.Deployment) error {
		return equal("", d.Labels[policyv1alpha1.RetainReplicasLabel])
	})
	fleettest.Update(t, fleet.Hub, web, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(20)) })
	fleettest.ExpectEventually(t, m2, web, hasReplicas(2))
	fleettest.ExpectEventually(t, m1, web, hasReplicas(18)) // though the autoscaler has scaled it there
}

// expectDivided waits until the targets of the binding have these replicas in all.
func expectDivided(t *testing.T, fleet *fleettest.Fleet, ns string, clusters int, replicas int32) {
	t.Helper()
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "web"), func(b *workv1alpha2.ResourceBinding) error {
		var sum int32
		for _, target := range b.Spec.Clusters {
			sum += target.Replicas
		}
		if sum != replicas || len(b.Spec.Clusters) != clusters {
			return fmt.Errorf("clusters are %v", b.Spec.Clusters)
		}
		return nil
	})
}

func hasReplicas(want int32) func(*appsv1.Deployment) error {
	return func(d *appsv1.Deployment) error {
		if *d.Spec.Replicas != want {
			return fmt.Errorf("has %d replicas, want %d", *d.Spec.Replicas, want)
		}
		return nil
	}
}

// scaleTo sets replicas through the subresource, as an autoscaler does.
func scaleTo(t *testing.T, c *fleettest.Cluster, d *appsv1.Deployment, replicas int32) {
	t.Helper()
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	object := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name}}
	if err := c.SubResource("scale").Update(t.Context(), object, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
}
