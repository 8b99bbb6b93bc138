package summary

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
)

// Resources adds up the nodes and pods of a member. Of a node and a pod it keeps what they contribute, not the objects.
type Resources struct {
	// Nodes and Pods are the stores of their watches.
	Nodes *memberwatch.Store[node]
	Pods  *memberwatch.Store[pod]

	mu sync.Mutex
	// used is what pods with a node request, by node; waiting is what pods without one request.
	used    map[string]corev1.ResourceList
	waiting corev1.ResourceList
}

// node is what a node contributes.
type node struct {
	allocatable corev1.ResourceList
	ready       bool
	usable      bool // ready, and not cordoned
}

// pod is what a pod that has not finished takes.
type pod struct {
	uid      types.UID
	node     string // empty while it waits for one
	requests corev1.ResourceList
}

// NewResources returns the resources of a member without any. News is called with the name of a resource when the sums changed, and,
// with listed set, after every complete list; it must not block.
func NewResources(news func(resource string, listed bool)) *Resources {
	r := &Resources{used: map[string]corev1.ResourceList{}, waiting: corev1.ResourceList{}}
	r.Nodes = &memberwatch.Store[node]{Keep: memberwatch.Of(readNode), Same: sameNode, News: func(listed bool) { news("nodes", listed) }}
	r.Pods = &memberwatch.Store[pod]{
		Keep: memberwatch.Of(readPod),
		// Requests of a placed pod change only by resize, which the next placement of its kind shows.
		Same: func(a, b pod) bool { return a.uid == b.uid && a.node == b.node },
		Changed: func(_ types.NamespacedName, before, after *pod) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if before != nil {
				r.charge(*before, -1)
			}
			if after != nil {
				r.charge(*after, 1)
			}
		},
		News: func(listed bool) { news("pods", listed) },
	}
	return r
}

func readNode(n *corev1.Node) (node, bool, error) {
	ready := nodeReady(n)
	return node{allocatable: n.Status.Allocatable, ready: ready, usable: ready && !n.Spec.Unschedulable}, true, nil
}

func sameNode(a, b node) bool {
	return a.ready == b.ready && a.usable == b.usable && sameList(a.allocatable, b.allocatable)
}

func readPod(p *corev1.Pod) (pod, bool, error) {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return pod{}, false, nil
	}
	requests := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})
	requests[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return pod{uid: p.UID, node: p.Spec.NodeName, requests: requests}, true, nil
}

// charge adds a pod's requests to where they belong, or takes them off. The lock is held.
func (r *Resources) charge(p pod, sign int) {
	sum := r.waiting
	if p.node != "" {
		if sum = r.used[p.node]; sum == nil {
			sum = corev1.ResourceList{}
			r.used[p.node] = sum
		}
	}
	for name, q := range p.requests {
		total := sum[name]
		if sign > 0 {
			total.Add(q)
		} else {
			total.Sub(q)
		}
		if total.IsZero() {
			delete(sum, name)
		} else {
			sum[name] = total
		}
	}
	if p.node != "" && len(sum) == 0 {
		delete(r.used, p.node)
	}
}

// Summary is the state of nodes and resources; nil before everything was listed once.
func (r *Resources) Summary(models []clusterv1alpha1.ResourceModel) (*clusterv1alpha1.NodeSummary, *clusterv1alpha1.ResourceSummary) {
	if !r.Nodes.Synced() || !r.Pods.Synced() {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	nodes := &clusterv1alpha1.NodeSummary{}
	sums := &clusterv1alpha1.ResourceSummary{Allocatable: corev1.ResourceList{}, Allocated: corev1.ResourceList{}}
	grades := newGrades(models)
	r.Nodes.Visit(func(key types.NamespacedName, n node) {
		nodes.TotalNum++
		if n.ready {
			nodes.ReadyNum++
		}
		if n.usable {
			add(sums.Allocatable, n.allocatable)
			grades.count(free(n.allocatable, r.used[key.Name]))
		}
	})
	for _, used := range r.used {
		add(sums.Allocated, used)
	}
	if len(r.waiting) > 0 {
		sums.Allocating = r.waiting.DeepCopy()
	}
	sums.AllocatableModelings = grades.result()
	return nodes, sums
}

func nodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func sameList(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, q := range a {
		if other, ok := b[name]; !ok || q.Cmp(other) != 0 {
			return false
		}
	}
	return true
}

func add(sum, more corev1.ResourceList) {
	for name, q := range more {
		total := sum[name]
		total.Add(q)
		sum[name] = total
	}
}

func free(allocatable, used corev1.ResourceList) corev1.ResourceList {
	out := make(corev1.ResourceList, len(allocatable))
	for name, q := range allocatable {
		left := q.DeepCopy()
		left.Sub(used[name])
		out[name] = left
	}
	return out
}
