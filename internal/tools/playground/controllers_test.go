package playground_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestAutoscalerActs: it compares the usage of simulated pods with its target.
func TestAutoscalerActs(t *testing.T) {
	member := shared.Start(t).Member("member1")
	ns := memberNamespace(t, member)
	web := fleettest.Deployment(ns, "web", 1)
	web.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	scaler := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			MinReplicas:    ptr.To[int32](1), MaxReplicas: 3,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name:   corev1.ResourceCPU, // of which half is used
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](10)},
			}}},
		},
	}
	fleettest.Create(t, member, web, scaler)
	fleettest.ExpectEventually(t, member, web, func(d *appsv1.Deployment) error { return count(d.Status.ReadyReplicas, 3) })
	fleettest.ExpectEventually(t, member, scaler, func(h *autoscalingv2.HorizontalPodAutoscaler) error {
		if h.Status.CurrentReplicas != 3 || len(h.Status.CurrentMetrics) != 1 || ptr.Deref(h.Status.CurrentMetrics[0].Resource.Current.AverageUtilization, 0) != 50 {
			return fmt.Errorf("its status is %+v", h.Status)
		}
		return nil
	})
}

// TestQuotaRefuses: what is over a quota is refused, and what goes frees it.
func TestQuotaRefuses(t *testing.T) {
	member := shared.Start(t).Member("member1")
	ns := memberNamespace(t, member)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "one"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/secrets": resource.MustParse("1")}},
	}
	fleettest.Create(t, member, quota)
	used := func(n int64) {
		t.Helper()
		fleettest.ExpectEventually(t, member, quota, func(q *corev1.ResourceQuota) error {
			if got, ok := q.Status.Used["count/secrets"]; !ok || got.Value() != n {
				return fmt.Errorf("used are %v, want %d", q.Status.Used, n)
			}
			return nil
		})
	}
	secret := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	}
	used(0)
	// The API server admits by its cache of quotas, which has this one at about the same time as this test: what comes before is not counted.
	var made []client.Object
	fleettest.Eventually(t, "a Secret that is refused", func() bool {
		next := secret(fmt.Sprintf("secret-%d", len(made)))
		err := member.Create(t.Context(), next)
		if err == nil {
			made = append(made, next)
		} else if !apierrors.IsForbidden(err) {
			t.Fatal(err)
		}
		return err != nil
	})
	if len(made) == 0 {
		t.Error("the Secret that the quota allows was refused")
	}
	fleettest.Delete(t, member, made...)
	used(0)
	var err error
	fleettest.Eventually(t, "the Secret that the quota allows again", func() bool {
		err = member.Create(t.Context(), secret("again"))
		return !apierrors.IsForbidden(err)
	})
	if err != nil {
		t.Error(err)
	}
}

// TestEphemeralVolumesAreClaimed: a pod with a volume of its own gets a claim, which is bound.
func TestEphemeralVolumesAreClaimed(t *testing.T) {
	member := shared.Start(t).Member("member1")
	ns := memberNamespace(t, member)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "scratch"}, Spec: podTemplate("scratch").Spec}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}},
	}}}}
	fleettest.Create(t, member, pod)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "scratch-data"}}
	fleettest.ExpectEventually(t, member, claim, func(c *corev1.PersistentVolumeClaim) error {
		if c.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("it is %s", c.Status.Phase)
		}
		return nil
	})
	fleettest.ExpectEventually(t, member, pod, func(p *corev1.Pod) error {
		if p.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s", p.Status.Phase)
		}
		return nil
	})
	fleettest.Delete(t, member, pod)
	fleettest.ExpectGone(t, member, claim)
}
