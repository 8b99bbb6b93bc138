package clusterstatus

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

func TestSmoother(t *testing.T) {
	ready := clusterv1alpha1.Ready()
	down := clusterv1alpha1.NotReady(clusterv1alpha1.ClusterNotReachableReason, "no route")
	unwell := clusterv1alpha1.NotReady(clusterv1alpha1.ClusterNotReadyReason, "etcd failed")
	start := time.Unix(0, 0)
	type look struct {
		after time.Duration
		seen  metav1.Condition
		want  string // reason published afterwards
	}
	cases := map[string][]look{
		"the first observation counts at once, good or bad": {
			{0, down, clusterv1alpha1.ClusterNotReachableReason},
		},
		"a failure counts when it has lasted": {
			{0, ready, clusterv1alpha1.ClusterReadyReason},
			{10 * time.Second, down, clusterv1alpha1.ClusterReadyReason},
			{39 * time.Second, down, clusterv1alpha1.ClusterReadyReason},
			{40 * time.Second, down, clusterv1alpha1.ClusterNotReachableReason},
		},
		"a failure that passes never counts, and the next one starts from nothing": {
			{0, ready, clusterv1alpha1.ClusterReadyReason},
			{10 * time.Second, down, clusterv1alpha1.ClusterReadyReason},
			{20 * time.Second, ready, clusterv1alpha1.ClusterReadyReason},
			{30 * time.Second, down, clusterv1alpha1.ClusterReadyReason},
			{59 * time.Second, down, clusterv1alpha1.ClusterReadyReason},
			{60 * time.Second, down, clusterv1alpha1.ClusterNotReachableReason},
		},
		"recovery has a threshold of its own": {
			{0, down, clusterv1alpha1.ClusterNotReachableReason},
			{10 * time.Second, ready, clusterv1alpha1.ClusterNotReachableReason},
			{25 * time.Second, ready, clusterv1alpha1.ClusterReadyReason},
		},
		"another reason for the same status is written at once": {
			{0, down, clusterv1alpha1.ClusterNotReachableReason},
			{time.Second, unwell, clusterv1alpha1.ClusterNotReadyReason},
		},
	}
	for name, looks := range cases {
		t.Run(name, func(t *testing.T) {
			s := smoother{failure: 30 * time.Second, success: 15 * time.Second}
			for _, l := range looks {
				s.see(l.seen, start.Add(l.after))
				if s.published.Reason != l.want {
					t.Fatalf("after %s: published %s, want %s", l.after, s.published.Reason, l.want)
				}
			}
		})
	}
}

func TestSmootherKeepsTheMessageOfALastingFailure(t *testing.T) {
	s := smoother{}
	s.see(clusterv1alpha1.NotReady(clusterv1alpha1.ClusterNotReachableReason, "dial 1"), time.Unix(0, 0))
	s.see(clusterv1alpha1.NotReady(clusterv1alpha1.ClusterNotReachableReason, "dial 2"), time.Unix(10, 0))
	if s.published.Message != "dial 1" {
		t.Errorf("message became %q: a write for every attempt", s.published.Message)
	}
}

func TestConditionTaints(t *testing.T) {
	own := corev1.Taint{Key: "env", Value: "test", Effect: corev1.TaintEffectNoSchedule}
	notReady := corev1.Taint{Key: clusterv1alpha1.TaintClusterNotReady, Effect: corev1.TaintEffectNoSchedule}
	unreachable := corev1.Taint{Key: clusterv1alpha1.TaintClusterUnreachable, Effect: corev1.TaintEffectNoSchedule}
	evict := corev1.Taint{Key: clusterv1alpha1.TaintClusterNotReady, Effect: corev1.TaintEffectNoExecute}
	cases := map[string]struct {
		taints []corev1.Taint
		ready  metav1.ConditionStatus
		want   []corev1.Taint
	}{
		"a ready cluster has none":                   {[]corev1.Taint{own, notReady, unreachable}, metav1.ConditionTrue, []corev1.Taint{own}},
		"a failing one gets not-ready":               {[]corev1.Taint{own}, metav1.ConditionFalse, []corev1.Taint{own, notReady}},
		"an unknown one gets unreachable instead":    {[]corev1.Taint{notReady}, metav1.ConditionUnknown, []corev1.Taint{unreachable}},
		"what is right stays as it is":               {[]corev1.Taint{notReady, own}, metav1.ConditionFalse, []corev1.Taint{notReady, own}},
		"a NoExecute taint is not from this package": {[]corev1.Taint{evict}, metav1.ConditionTrue, []corev1.Taint{evict}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, conditionTaints(c.taints, c.ready)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEnablements(t *testing.T) {
	got := enablements([]*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods/log", Kind: "Pod"}, {Name: "pods", Kind: "Pod"}, {Name: "events", Kind: "Event"}}},
		{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{{Name: "deployments", Kind: "Deployment"}}},
	})
	want := []clusterv1alpha1.APIEnablement{
		{GroupVersion: "apps/v1", Resources: []clusterv1alpha1.APIResource{{Name: "deployments", Kind: "Deployment"}}},
		{GroupVersion: "v1", Resources: []clusterv1alpha1.APIResource{{Name: "events", Kind: "Event"}, {Name: "pods", Kind: "Pod"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sorted, without subresources: %s", diff)
	}
}
