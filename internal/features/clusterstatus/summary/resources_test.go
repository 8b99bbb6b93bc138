package summary

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
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

func TestPodsOfNodesThatCannotBeUsedTakeNothingFromOthers(t *testing.T) {
	r := NewResources(func(string, bool) {})
	replace(r.Nodes)
	replace(r.Pods)
	drained := nodeOf("drained", true, list("4", "8Gi", "10"))
	drained.Spec.Unschedulable = true
	update(r.Nodes, drained)
	update(r.Nodes, nodeOf("empty", true, list("4", "8Gi", "10")))
	update(r.Pods, podOf("p", "drained", corev1.PodRunning, list("3", "1Gi", "")))
	_, sums := r.Summary(nil)
	for name, want := range list("4", "8Gi", "10") {
		left := sums.Allocatable[name]
		left.Sub(sums.Allocated[name])
		if left.Cmp(want) != 0 {
			t.Errorf("%s %s are left, want %s", left.String(), name, want.String())
		}
	}
	capacity := r.Capacity()
	if len(capacity.Nodes) != 1 || capacity.Nodes[0].Name != "empty" {
		t.Errorf("the capacity has the nodes %v", capacity.Nodes)
	}
}

func TestAResizedPodIsCountedAnew(t *testing.T) {
	r := NewResources(func(string, bool) {})
	replace(r.Nodes)
	replace(r.Pods)
	update(r.Pods, podOf("p", "a", corev1.PodRunning, list("1", "", "")))
	update(r.Pods, podOf("p", "a", corev1.PodRunning, list("3", "", "")))
	_, sums := r.Summary(nil)
	if diff := cmp.Diff(list("3", "", "1"), sums.Allocated); diff != "" {
		t.Error(diff)
	}
}

// TestImpossibleReportsAreBounded: what no node, pod or label can have costs neither time nor memory.
func TestImpossibleReportsAreBounded(t *testing.T) {
	r := NewResources(func(string, bool) {})
	replace(r.Nodes)
	replace(r.Pods)
	absurd := list("1e2147483646", "-5", "10")
	for i := range 1000 {
		absurd[corev1.ResourceName(fmt.Sprintf("example.com/%d", i))] = resource.MustParse("1")
	}
	node := nodeOf("lie", true, absurd)
	node.Labels = map[string]string{}
	for i := range 1000 {
		node.Labels[fmt.Sprint(i)] = strings.Repeat("x", 1000)
	}
	update(r.Nodes, node)
	update(r.Nodes, nodeOf(strings.Repeat("n", 1000), true, list("1", "1", "1")))
	update(r.Pods, podOf("p", "lie", corev1.PodRunning, list("1e2147483646", "", "")))
	nodes, sums := r.Summary(clusterv1alpha1.DefaultResourceModels())
	if nodes.TotalNum != 1 || len(sums.Allocatable) > 128 {
		t.Errorf("%d nodes with %d resources", nodes.TotalNum, len(sums.Allocatable))
	}
	memory := sums.Allocatable[corev1.ResourceMemory]
	if memory.Sign() != 0 {
		t.Errorf("%s of memory", memory.String())
	}
	if capacity := r.Capacity(); len(capacity.Nodes) != 0 || capacity.OmittedNodes != 1 {
		t.Errorf("a node with a megabyte of labels is in the summary: %v", capacity)
	}
}

func TestResourcesHasNothingBeforeAllIsListed(t *testing.T) {
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

func TestPodsOfDeploymentsThatNoNodeTakes(t *testing.T) {
	pending := func(change func(*corev1.Pod)) *corev1.Pod {
		p := podOf("web-5d-x", "", corev1.PodPending, nil)
		p.Namespace, p.Labels = "shop", map[string]string{"pod-template-hash": "5d"}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5d", Controller: ptr.To(true)}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
		change(p)
		return p
	}
	cases := map[string]struct {
		change func(*corev1.Pod)
		want   int
	}{
		"unschedulable":            {func(*corev1.Pod) {}, 1},
		"not tried yet":            {func(p *corev1.Pod) { p.Status.Conditions = nil }, 0},
		"gated":                    {func(p *corev1.Pod) { p.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated }, 0},
		"it has a node":            {func(p *corev1.Pod) { p.Spec.NodeName = "a" }, 0},
		"it has finished":          {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, 0},
		"of no controller":         {func(p *corev1.Pod) { p.OwnerReferences = nil }, 0},
		"of a ReplicaSet alone":    {func(p *corev1.Pod) { p.Labels = nil }, 0},
		"of another kind":          {func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "StatefulSet" }, 0},
		"the hash is another one":  {func(p *corev1.Pod) { p.Labels["pod-template-hash"] = "6e" }, 0},
		"the name is only a hash ": {func(p *corev1.Pod) { p.OwnerReferences[0].Name = "5d" }, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := NewResources(func(string, bool) {})
			update(r.Pods, pending(c.change))
			got := r.Unplaced()
			if len(got) != c.want || c.want > 0 && got[0] != (Unplaced{Deployment: types.NamespacedName{Namespace: "shop", Name: "web"}, UID: "web-5d-x"}) {
				t.Errorf("%v", got)
			}
			update(r.Pods, pending(func(p *corev1.Pod) { p.Spec.NodeName = "a" }))
			if got := r.Unplaced(); len(got) > 0 {
				t.Errorf("with a node: %v", got)
			}
		})
	}
}

// TestPodsHaveTheBoundOfTheirNodes: a member shows no more pods than its nodes can run, and some that wait.
func TestPodsHaveTheBoundOfTheirNodes(t *testing.T) {
	r := NewResources(func(string, bool) {})
	says := func(when string, pods int64) {
		t.Helper()
		want := bounds.PodsWaiting.Plus(bounds.Amount{Objects: pods, Bytes: pods * bounds.PodBytes})
		if got := r.PodBound(); got != want {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	says("without nodes", 0)
	update(r.Nodes, nodeOf("a", true, list("4", "8Gi", "110")))
	update(r.Nodes, nodeOf("b", true, list("4", "8Gi", "9000000")))
	says("a node that says too much counts as a thousand", 1110)
	update(r.Nodes, nodeOf("a", true, list("4", "8Gi", "250")))
	says("a node that can run more", 1250)
	if err := r.Nodes.Delete(nodeOf("b", true, list("4", "8Gi", "9000000"))); err != nil {
		t.Fatal(err)
	}
	says("with a node less", 250)
	for i := range 1000 {
		update(r.Nodes, nodeOf(fmt.Sprint("n", i), true, list("4", "8Gi", "1000")))
	}
	if got := r.PodBound(); got != bounds.Pods.Kept {
		t.Errorf("with many nodes: %v, want that of all members", got)
	}
}

func TestQuotasAreInTheCapacity(t *testing.T) {
	r := NewResources(func(string, bool) {})
	replace(r.Nodes)
	replace(r.Pods)
	of := func(namespace, name string, counted corev1.ResourceName) *corev1.ResourceQuota {
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name)}}
		q.Status.Hard = corev1.ResourceList{counted: *resource.NewQuantity(3, resource.DecimalSI)}
		return q
	}
	names := func() (out []string) {
		for _, q := range r.Capacity().Quotas {
			out = append(out, q.Namespace+"/"+q.Name)
		}
		return out
	}
	if got := names(); len(got) > 0 {
		t.Errorf("before they are listed there are %v", got)
	}
	update(r.Quotas, of("shop", "b", corev1.ResourcePods))
	update(r.Quotas, of("bank", "c", corev1.ResourcePods))
	update(r.Quotas, of("shop", "a", corev1.ResourceServices)) // bounds no pods
	if got := names(); !slices.Equal(got, []string{"bank/c", "shop/b"}) {
		t.Errorf("they are %v", got)
	}
	if err := r.Quotas.Delete(of("shop", "b", corev1.ResourcePods)); err != nil {
		t.Fatal(err)
	}
	if got := names(); !slices.Equal(got, []string{"bank/c"}) {
		t.Errorf("with one less they are %v", got)
	}
	for i := range 600 {
		update(r.Quotas, of("many", fmt.Sprint("q", i), corev1.ResourcePods))
	}
	if c := r.Capacity(); len(c.Quotas) != 512 || c.OmittedQuotas != 89 {
		t.Errorf("of 601 there are %d, and %d are omitted", len(c.Quotas), c.OmittedQuotas)
	}
	large := of("bank", "d", corev1.ResourcePods)
	large.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{
		ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{strings.Repeat("x", 1<<20)},
	}}}
	update(r.Quotas, large)
	if c := r.Capacity(); len(c.Quotas) != 512 || c.OmittedQuotas != 90 {
		t.Errorf("beside one of a megabyte there are %d, and %d are omitted", len(c.Quotas), c.OmittedQuotas)
	}
}
