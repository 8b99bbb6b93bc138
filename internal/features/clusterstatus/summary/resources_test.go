package summary

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
)

func list(cpu, memory, pods string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, text := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory, corev1.ResourcePods: pods} {
		if text != "" {
			out[name] = resource.MustParse(text)
		}
	}
	return out
}

func nodeOf(name string, ready bool, allocatable corev1.ResourceList) *corev1.Node {
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

func podOf(uid, node string, phase corev1.PodPhase, requests corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid)},
		Spec: corev1.PodSpec{
			NodeName:   node,
			Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}},
		},
		Status: corev1.PodStatus{Phase: phase},
	}
}

func TestResources(t *testing.T) {
	full := list("4", "8Gi", "10")
	models := clusterv1alpha1.DefaultResourceModels()
	cases := map[string]struct {
		do        func(*Resources)
		nodes     clusterv1alpha1.NodeSummary
		allocated corev1.ResourceList
		waiting   corev1.ResourceList
		grades    map[uint]int
	}{
		"nodes that are not ready offer nothing": {
			do: func(t *Resources) {
				update(t.Nodes, nodeOf("a", true, full))
				update(t.Nodes, nodeOf("b", false, full))
			},
			nodes:     clusterv1alpha1.NodeSummary{TotalNum: 2, ReadyNum: 1},
			allocated: corev1.ResourceList{},
			grades:    map[uint]int{1: 1}, // memory limits: 8 GiB is of grade 1, 4 CPUs alone would be of grade 3
		},
		"a pod counts where it is, and moves when it is placed": {
			do: func(t *Resources) {
				update(t.Nodes, nodeOf("a", true, full))
				update(t.Pods, podOf("p", "", corev1.PodPending, list("3500m", "", "")))
				update(t.Pods, podOf("p", "a", corev1.PodPending, list("3500m", "", "")))
				update(t.Pods, podOf("q", "", corev1.PodPending, list("1", "", "")))
			},
			nodes:     clusterv1alpha1.NodeSummary{TotalNum: 1, ReadyNum: 1},
			allocated: list("3500m", "", "1"),
			waiting:   list("1", "", "1"),
			grades:    map[uint]int{0: 1},
		},
		"a finished pod gives everything back": {
			do: func(t *Resources) {
				update(t.Nodes, nodeOf("a", true, full))
				update(t.Pods, podOf("p", "a", corev1.PodRunning, list("3", "1Gi", "")))
				update(t.Pods, podOf("p", "a", corev1.PodSucceeded, list("3", "1Gi", "")))
			},
			nodes:     clusterv1alpha1.NodeSummary{TotalNum: 1, ReadyNum: 1},
			allocated: corev1.ResourceList{},
			grades:    map[uint]int{1: 1},
		},
		"a node without a free slot is of no grade and hides no other": {
			do: func(t *Resources) {
				update(t.Nodes, nodeOf("a", true, list("4", "8Gi", "1")))
				update(t.Nodes, nodeOf("b", true, full))
				update(t.Pods, podOf("p", "a", corev1.PodRunning, nil))
			},
			nodes:     clusterv1alpha1.NodeSummary{TotalNum: 2, ReadyNum: 2},
			allocated: list("", "", "1"),
			grades:    map[uint]int{1: 1},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			tl := NewResources(func(string, bool) {})
			replace(tl.Nodes)
			replace(tl.Pods)
			c.do(tl)
			nodes, sums := tl.Summary(models)
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

func TestResourcesSaysNothingBeforeItKnows(t *testing.T) {
	tl := NewResources(func(string, bool) {})
	replace(tl.Nodes)
	if nodes, _ := tl.Summary(nil); nodes != nil {
		t.Error("a summary without pods would show a full cluster as empty")
	}
}

func TestResourcesReportsOnlyChanges(t *testing.T) {
	news := false
	tl := NewResources(func(string, bool) { news = true })
	changes := func(f func()) bool { news = false; f(); return news }
	n := nodeOf("a", true, list("4", "8Gi", "10"))
	if !changes(func() { update(tl.Nodes, n) }) || changes(func() { update(tl.Nodes, n) }) {
		t.Error("a heartbeat of a node is no news")
	}
	p := podOf("p", "a", corev1.PodRunning, list("1", "", ""))
	if !changes(func() { update(tl.Pods, p) }) || changes(func() { update(tl.Pods, p) }) {
		t.Error("a status change of a placed pod is no news")
	}
}

func update[T any](s *memberwatch.Store[T], obj any) { _ = s.Update(obj) }

func replace[T any](s *memberwatch.Store[T]) { _ = s.Replace(nil, "") }
