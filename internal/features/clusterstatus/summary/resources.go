package summary

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// tally keeps sums over the nodes and pods of a member, not the objects: what a pod adds is remembered in a few words, so
// that it can be taken off again. It is safe for use by the watches and the writer at the same time.
type Resources struct {
	mu    sync.Mutex
	nodes map[string]nodeShare
	pods  map[types.UID]podShare
	// used is what pods with a node request, by node; waiting is what pods without one request.
	used    map[string]corev1.ResourceList
	waiting corev1.ResourceList
	// listed says that both watches have delivered everything once.
	nodesListed, podsListed bool
}

// nodeShare is what a node contributes.
type nodeShare struct {
	allocatable corev1.ResourceList
	ready       bool
	usable      bool // ready, and not cordoned
}

// podShare is what a live pod takes.
type podShare struct {
	node     string // empty while it waits for one
	requests corev1.ResourceList
}

func NewResources() *Resources {
	return &Resources{
		nodes: map[string]nodeShare{}, pods: map[types.UID]podShare{},
		used: map[string]corev1.ResourceList{}, waiting: corev1.ResourceList{},
	}
}

// setNode takes a node into account; it says whether anything changed.
func (t *Resources) SetNode(n *corev1.Node) bool {
	share := nodeShare{allocatable: n.Status.Allocatable, ready: nodeReady(n)}
	share.usable = share.ready && !n.Spec.Unschedulable
	t.mu.Lock()
	defer t.mu.Unlock()
	old, known := t.nodes[n.Name]
	t.nodes[n.Name] = share
	return !known || old.ready != share.ready || old.usable != share.usable || !sameList(old.allocatable, share.allocatable)
}

func (t *Resources) DropNode(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, known := t.nodes[name]
	delete(t.nodes, name)
	return known
}

// setPod takes a pod into account, or off it when it has finished; it says whether anything changed.
func (t *Resources) SetPod(p *corev1.Pod) bool {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return t.DropPod(p.UID)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	old, known := t.pods[p.UID]
	if known && old.node == p.Spec.NodeName {
		return false // requests of a placed pod change only by resize, which the next placement of its kind shows
	}
	share := podShare{node: p.Spec.NodeName, requests: resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})}
	share.requests[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	if known {
		t.charge(old, -1)
	}
	t.charge(share, 1)
	t.pods[p.UID] = share
	return true
}

func (t *Resources) DropPod(uid types.UID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	old, known := t.pods[uid]
	if known {
		t.charge(old, -1)
		delete(t.pods, uid)
	}
	return known
}

// charge adds a pod's requests to where they belong, or takes them off. The lock is held.
func (t *Resources) charge(p podShare, sign int) {
	sum := t.waiting
	if p.node != "" {
		if sum = t.used[p.node]; sum == nil {
			sum = corev1.ResourceList{}
			t.used[p.node] = sum
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
		delete(t.used, p.node)
	}
}

// resetNodes and resetPods forget everything of one kind before a fresh list.
func (t *Resources) ResetNodes() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.nodes)
	t.nodesListed = true
}

func (t *Resources) ResetPods() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.pods)
	clear(t.used)
	clear(t.waiting)
	t.podsListed = true
}

// summary is the state of nodes and resources; nil before everything was listed once.
func (t *Resources) Summary(models []clusterv1alpha1.ResourceModel) (*clusterv1alpha1.NodeSummary, *clusterv1alpha1.ResourceSummary) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.nodesListed || !t.podsListed {
		return nil, nil
	}
	nodes := &clusterv1alpha1.NodeSummary{TotalNum: int32(len(t.nodes))}
	sums := &clusterv1alpha1.ResourceSummary{Allocatable: corev1.ResourceList{}, Allocated: corev1.ResourceList{}}
	grades := newGrades(models)
	for name, n := range t.nodes {
		if n.ready {
			nodes.ReadyNum++
		}
		if n.usable {
			add(sums.Allocatable, n.allocatable)
			grades.count(free(n.allocatable, t.used[name]))
		}
	}
	for _, used := range t.used {
		add(sums.Allocated, used)
	}
	if len(t.waiting) > 0 {
		sums.Allocating = t.waiting.DeepCopy()
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
