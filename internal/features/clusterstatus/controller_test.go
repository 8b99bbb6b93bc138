package clusterstatus

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
		"another reason for the same status is told at once": {
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
		"a ready cluster has none":                 {[]corev1.Taint{own, notReady, unreachable}, metav1.ConditionTrue, []corev1.Taint{own}},
		"a failing one gets not-ready":             {[]corev1.Taint{own}, metav1.ConditionFalse, []corev1.Taint{own, notReady}},
		"an unknown one gets unreachable instead":  {[]corev1.Taint{notReady}, metav1.ConditionUnknown, []corev1.Taint{unreachable}},
		"what is right stays as it is":             {[]corev1.Taint{notReady, own}, metav1.ConditionFalse, []corev1.Taint{notReady, own}},
		"a NoExecute taint is somebody's decision": {[]corev1.Taint{evict}, metav1.ConditionTrue, []corev1.Taint{evict}},
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

func list(cpu, memory, pods string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, text := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory, corev1.ResourcePods: pods} {
		if text != "" {
			out[name] = resource.MustParse(text)
		}
	}
	return out
}

func node(name string, ready bool, allocatable corev1.ResourceList) *corev1.Node {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{
			Allocatable: allocatable,
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}},
		},
	}
}

func pod(uid, node string, phase corev1.PodPhase, requests corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)},
		Spec: corev1.PodSpec{
			NodeName:   node,
			Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}},
		},
		Status: corev1.PodStatus{Phase: phase},
	}
}

func TestTally(t *testing.T) {
	full := list("4", "8Gi", "10")
	models := clusterv1alpha1.DefaultResourceModels()
	cases := map[string]struct {
		do        func(*tally)
		nodes     clusterv1alpha1.NodeSummary
		allocated corev1.ResourceList
		waiting   corev1.ResourceList
		grades    map[uint]int
	}{
		"nodes that are not ready offer nothing": {
			do: func(t *tally) {
				t.setNode(node("a", true, full))
				t.setNode(node("b", false, full))
			},
			nodes:     clusterv1alpha1.NodeSummary{TotalNum: 2, ReadyNum: 1},
			allocated: corev1.ResourceList{},
			grades:    map[uint]int{1: 1}, // memory limits: 8 GiB is of grade 1, 4 CPUs alone would be of grade 3
		},
		"a pod counts where it is, and moves when it is placed": {
			do: func(t *tally) {
				t.setNode(node("a", true, full))
				t.setPod(pod("p", "", corev1.PodPending, list("3500m", "", "")))
				t.setPod(pod("p", "a", corev1.PodPending, list("3500m", "", "")))
				t.setPod(pod("q", "", corev1.PodPending, list("1", "", "")))
			},
			nodes:     clusterv1alpha1.NodeSummary{TotalNum: 1, ReadyNum: 1},
			allocated: list("3500m", "", "1"),
			waiting:   list("1", "", "1"),
			grades:    map[uint]int{0: 1},
		},
		"a finished pod gives everything back": {
			do: func(t *tally) {
				t.setNode(node("a", true, full))
				t.setPod(pod("p", "a", corev1.PodRunning, list("3", "1Gi", "")))
				t.setPod(pod("p", "a", corev1.PodSucceeded, list("3", "1Gi", "")))
			},
			nodes:     clusterv1alpha1.NodeSummary{TotalNum: 1, ReadyNum: 1},
			allocated: corev1.ResourceList{},
			grades:    map[uint]int{1: 1},
		},
		"a node without a free slot is of no grade and hides no other": {
			do: func(t *tally) {
				t.setNode(node("a", true, list("4", "8Gi", "1")))
				t.setNode(node("b", true, full))
				t.setPod(pod("p", "a", corev1.PodRunning, nil))
			},
			nodes:     clusterv1alpha1.NodeSummary{TotalNum: 2, ReadyNum: 2},
			allocated: list("", "", "1"),
			grades:    map[uint]int{1: 1},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			tl := newTally()
			tl.resetNodes()
			tl.resetPods()
			c.do(tl)
			nodes, sums := tl.summary(models)
			if diff := cmp.Diff(&c.nodes, nodes); diff != "" {
				t.Errorf("nodes: %s", diff)
			}
			if diff := cmp.Diff(c.allocated, sums.Allocated); diff != "" {
				t.Errorf("allocated: %s", diff)
			}
			if diff := cmp.Diff(c.waiting, sums.Allocating); diff != "" {
				t.Errorf("allocating: %s", diff)
			}
			got := map[uint]int{}
			for _, g := range sums.AllocatableModelings {
				if g.Count > 0 {
					got[g.Grade] = g.Count
				}
			}
			if diff := cmp.Diff(c.grades, got); diff != "" {
				t.Errorf("grades: %s", diff)
			}
		})
	}
}

func TestTallySaysNothingBeforeItKnows(t *testing.T) {
	tl := newTally()
	tl.resetNodes()
	if nodes, _ := tl.summary(nil); nodes != nil {
		t.Error("a summary without pods would show a full cluster as empty")
	}
}

func TestTallyReportsOnlyChanges(t *testing.T) {
	tl := newTally()
	n := node("a", true, list("4", "8Gi", "10"))
	if !tl.setNode(n) || tl.setNode(n) {
		t.Error("a heartbeat of a node is no news")
	}
	p := pod("p", "a", corev1.PodRunning, list("1", "", ""))
	if !tl.setPod(p) || tl.setPod(p) {
		t.Error("a status change of a placed pod is no news")
	}
}
