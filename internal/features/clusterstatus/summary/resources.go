package summary

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"unique"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/capacity"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin"
)

// Resources adds up the nodes and pods of a member. Of a node and a pod it keeps what they contribute, not the objects.
type Resources struct {
	// Nodes and Pods are the stores of their watches.
	Nodes *memberwatch.Store[node]
	Pods  *memberwatch.Store[pod]
	// Quotas is the store of the ResourceQuotas. Until it is listed, they bound nothing.
	Quotas *memberwatch.Store[fleetv1alpha1.Quota]

	mu sync.Mutex
	// allocatable is how many pods the nodes can run.
	allocatable int64
	// used is what pods with a node request, by node; waiting is what pods without one request.
	used    map[string]capacity.Amounts
	waiting capacity.Amounts
	// unplaced are the pods of Deployments that no node takes, by their names.
	unplaced map[types.NamespacedName]Unplaced
}

// Unplaced is a pod of a Deployment that the scheduler of its member finds no node for.
type Unplaced struct {
	Deployment types.NamespacedName
	UID        types.UID
}

// node is what a node contributes.
type node struct {
	allocatable capacity.Amounts
	labels      capacity.Labels
	taints      []corev1.Taint
	ready       bool
	usable      bool // ready, and not cordoned
	// opaque is a node with more labels than are kept: it is in no summary of nodes.
	opaque bool
}

// pod is what a pod that has not finished takes.
type pod struct {
	node     string // empty while it waits for one
	requests capacity.Amounts
	unplaced *Unplaced
}

const (
	// maxLabels and maxLabelBytes bound what is kept of the labels of a node. Those of clouds have thirty labels.
	maxLabels, maxLabelBytes = 128, 8 << 10
	// maxTaints bounds the taints.
	maxTaints = 32
	// maxNameBytes is the longest valid name of a node, a pod or a namespace.
	maxNameBytes = 253
)

// NewResources returns the resources of a member without any. News is called with the name of a resource when the sums changed, and,
// with listed set, after every complete list; it must not block.
func NewResources(news func(resource string, listed bool)) *Resources {
	r := &Resources{used: map[string]capacity.Amounts{}, unplaced: map[types.NamespacedName]Unplaced{}}
	r.Nodes = &memberwatch.Store[node]{Keep: memberwatch.Of(readNode), Same: sameNode, Changed: r.nodeChanged, News: func(listed bool) { news("nodes", listed) }}
	r.Pods = &memberwatch.Store[pod]{
		Keep: memberwatch.Of(readPod),
		Same: func(a, b pod) bool {
			return a.node == b.node && a.requests.Equal(b.requests) && ptr.Equal(a.unplaced, b.unplaced)
		},
		Changed: func(key types.NamespacedName, before, after *pod) {
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.unplaced, key)
			if after != nil && after.unplaced != nil {
				r.unplaced[key] = *after.unplaced
			}
			if before != nil {
				r.charge(*before, -1)
			}
			if after != nil {
				r.charge(*after, 1)
			}
		},
		News: func(listed bool) { news("pods", listed) },
	}
	r.Quotas = &memberwatch.Store[fleetv1alpha1.Quota]{
		Keep: memberwatch.Of(readQuota),
		Same: func(a, b fleetv1alpha1.Quota) bool { return equality.Semantic.DeepEqual(a, b) },
		News: func(listed bool) { news("resourcequotas", listed) },
	}
	return r
}

func (r *Resources) nodeChanged(_ types.NamespacedName, before, after *node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.allocatable += podsOf(after) - podsOf(before)
}

// podsOf is how many pods a node can run, as it says; kubelets are not set to more than a thousand.
func podsOf(n *node) int64 {
	const most = 1000
	if n == nil {
		return 0
	}
	pods, _ := n.allocatable.Of(corev1.ResourcePods)
	return min(pods, most)
}

// PodBound is how much may be kept of the pods: more than the nodes can run wait.
func (r *Resources) PodBound() bounds.Amount {
	r.mu.Lock()
	defer r.mu.Unlock()
	most := bounds.PodsWaiting.Plus(bounds.Amount{Objects: 1, Bytes: bounds.PodBytes}.Times(r.allocatable))
	return bounds.Amount{Objects: min(most.Objects, bounds.Pods.Kept.Objects), Bytes: min(most.Bytes, bounds.Pods.Kept.Bytes)}
}

func readNode(n *corev1.Node) (node, bool, error) {
	if len(n.Name) > maxNameBytes {
		return node{}, false, nil
	}
	ready := nodeReady(n)
	out := node{allocatable: capacity.AmountsOf(n.Status.Allocatable), ready: ready, usable: ready && !n.Spec.Unschedulable}
	size := 0
	for key, value := range n.Labels {
		size += len(key) + len(value)
	}
	taints := capacity.TaintsOf(n.Spec.Taints)
	for _, t := range taints {
		size += len(t.Key) + len(t.Value)
	}
	if out.opaque = size > maxLabelBytes || len(n.Labels) > maxLabels || len(taints) > maxTaints; !out.opaque {
		out.labels, out.taints = capacity.LabelsOf(n.Labels), taints
	}
	return out, true, nil
}

func readQuota(q *corev1.ResourceQuota) (fleetv1alpha1.Quota, bool, error) {
	quota, bounds := capacity.QuotaOf(q)
	return quota, bounds && len(q.Namespace) <= validation.DNS1123LabelMaxLength && len(q.Name) <= maxNameBytes, nil
}

func sameNode(a, b node) bool {
	return a.ready == b.ready && a.usable == b.usable && a.opaque == b.opaque && a.allocatable.Equal(b.allocatable) &&
		slices.Equal(a.labels, b.labels) && slices.Equal(a.taints, b.taints)
}

func readPod(p *corev1.Pod) (pod, bool, error) {
	finished := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	if finished || max(len(p.Name), len(p.Namespace), len(p.Spec.NodeName)) > maxNameBytes {
		return pod{}, false, nil
	}
	out := pod{node: unique.Make(p.Spec.NodeName).Value(), requests: capacity.OnePod(), unplaced: readUnplaced(p)}
	if needs := builtin.Requirements(&p.Spec); needs != nil {
		out.requests.Add(capacity.AmountsOf(needs.ResourceRequest), 1)
	}
	return out, true, nil
}

// readUnplaced returns nil for a pod that has a node or may get one, and for one of no Deployment.
func readUnplaced(p *corev1.Pod) *Unplaced {
	owner, hash := metav1.GetControllerOf(p), p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if p.Spec.NodeName != "" || owner == nil || owner.Kind != "ReplicaSet" || hash == "" {
		return nil
	}
	name, ok := strings.CutSuffix(owner.Name, "-"+hash)
	unschedulable := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
	if !ok || !unschedulable {
		return nil
	}
	return &Unplaced{Deployment: types.NamespacedName{Namespace: p.Namespace, Name: name}, UID: p.UID}
}

// Unplaced returns the pods of Deployments that no node takes.
func (r *Resources) Unplaced() []Unplaced {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.unplaced))
}

// charge adds a pod's requests to where they belong, or takes them off. The lock is held.
func (r *Resources) charge(p pod, sign int64) {
	if p.node == "" {
		r.waiting.Add(p.requests, sign)
		return
	}
	sum := r.used[p.node]
	if sum.Add(p.requests, sign); len(sum) == 0 {
		delete(r.used, p.node)
		return
	}
	r.used[p.node] = sum
}

// Summary is the state of nodes and resources; nil before everything was listed once.
func (r *Resources) Summary(models []clusterv1alpha1.ResourceModel) (*clusterv1alpha1.NodeSummary, *clusterv1alpha1.ResourceSummary) {
	if !r.Nodes.Synced() || !r.Pods.Synced() {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	nodes := &clusterv1alpha1.NodeSummary{}
	var allocatable, allocated capacity.Amounts
	grades := newGrades(models)
	r.Nodes.Visit(func(key types.NamespacedName, n node) {
		nodes.TotalNum++
		if n.ready {
			nodes.ReadyNum++
		}
		used := r.used[key.Name]
		if !n.usable {
			// Its pods are among the allocated ones, and would lessen what the other nodes have left.
			allocatable.Add(n.allocatable.Least(used), 1)
			return
		}
		allocatable.Add(n.allocatable, 1)
		grades.count(n.allocatable.Less(used))
	})
	for _, used := range r.used {
		allocated.Add(used, 1)
	}
	sums := &clusterv1alpha1.ResourceSummary{Allocatable: allocatable.Bounded().List(), Allocated: allocated.Bounded().List()}
	if len(r.waiting) > 0 {
		sums.Allocating = slices.Clone(r.waiting).Bounded().List()
	}
	sums.AllocatableModelings = grades.result()
	return nodes, sums
}

// Capacity is what the nodes have free, for the scheduler; nil before everything was listed once.
func (r *Resources) Capacity() *fleetv1alpha1.ClusterCapacity {
	if !r.Nodes.Synced() || !r.Pods.Synced() {
		return nil
	}
	r.mu.Lock()
	var nodes []capacity.Node
	opaque := int32(0)
	r.Nodes.Visit(func(key types.NamespacedName, n node) {
		switch {
		case !n.usable:
		case n.opaque:
			opaque++
		default:
			nodes = append(nodes, capacity.Node{Name: key.Name, Labels: n.labels, Taints: n.taints, Free: n.allocatable.Less(r.used[key.Name])})
		}
	})
	r.mu.Unlock()
	out := capacity.Summarize(nodes)
	out.OmittedNodes += opaque
	var quotas []fleetv1alpha1.Quota
	r.Quotas.Visit(func(_ types.NamespacedName, q fleetv1alpha1.Quota) { quotas = append(quotas, q) })
	out.Quotas, out.OmittedQuotas = capacity.SortQuotas(quotas)
	return out
}

func nodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
