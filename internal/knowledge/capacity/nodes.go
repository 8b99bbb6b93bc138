package capacity

import (
	"cmp"
	"encoding/json"
	"hash/fnv"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
)

// maxBuckets bounds what is read of a ClusterCapacity. It is more than [NodesOf] is ever given by Summarize.
const maxBuckets = 1024

// Nodes is what the nodes of a cluster have free, read from its ClusterCapacity once. It does not change after NodesOf.
type Nodes struct {
	sets         []nodeSet
	omitted      sets.Set[string]
	omittedNames bool
	// quotas are what ResourceQuotas leave, by namespace.
	quotas map[string][]quota
}

// nodeSet is nodes that the same pods can run on.
type nodeSet struct {
	// node has the labels and taints, and the name of a single node, as component-helpers match them.
	node    *corev1.Node
	buckets []bucket
	// key is equal for sets of the same nodes, total what they have free together.
	key   uint64
	total Amounts
}

// bucket is a number of nodes that each have at least so much free.
type bucket struct {
	nodes int64
	free  Amounts
}

// NodesOf reads the summary of a cluster's nodes. What is absurd in it does not count.
func NodesOf(c *fleetv1alpha1.ClusterCapacity) *Nodes {
	n := &Nodes{omitted: sets.New(c.OmittedValues...), omittedNames: c.OmittedNames, quotas: quotasOf(c.Quotas)}
	left := maxBuckets
	for i := range c.Nodes {
		reported := &c.Nodes[i]
		set := nodeSet{key: keyOf(reported), node: &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: reported.Name, Labels: reported.Labels}, Spec: corev1.NodeSpec{Taints: reported.Taints},
		}}
		for _, r := range reported.Buckets[:min(len(reported.Buckets), left)] {
			nodes := min(int64(r.Count), maxNodes)
			if nodes <= 0 {
				continue
			}
			free := AmountsOf(r.Free)
			set.buckets = append(set.buckets, bucket{nodes, free})
			for _, item := range free {
				set.total = set.total.plus(item.name, times(nodes, item.value))
			}
		}
		left -= len(set.buckets)
		n.sets = append(n.sets, set)
	}
	return n
}

// keyOf is a number for the nodes of a set. Equal numbers of different sets delay the next try of a workload that waits, no more.
func keyOf(set *fleetv1alpha1.NodeSet) uint64 {
	h := fnv.New64a()
	// Maps are encoded in the order of their keys. A struct of strings cannot fail to encode.
	_ = json.NewEncoder(h).Encode([]any{set.Name, set.Labels, set.Taints})
	return h.Sum64()
}

// perNode is how many pods that need items fit into a node that has free.
func perNode(items, free Amounts) int64 {
	fit, _ := free.Of(corev1.ResourcePods)
	for i := range items {
		if clusterv1alpha1.CountsDevices(items[i].name) {
			continue // of these the cluster has a count of its own
		}
		left, _ := free.Of(items[i].name)
		if fit = min(fit, left/items[i].value); fit == 0 {
			return 0
		}
	}
	return fit
}

// fit is how many units of d fit, at most limit.
func (n *Nodes) fit(d *Demand, limit int64) int64 {
	pieces := d.pieces
	if len(pieces) == 0 {
		pieces = []piece{{replicas: 1, items: d.items}}
	}
	if len(pieces) == 1 && pieces[0].replicas == 1 {
		return min(limit, n.fitPiece(&pieces[0], nil))
	}
	fits := make([]int64, len(pieces))
	allowed := make([][]bool, len(pieces))
	for i := range pieces {
		allowed[i] = make([]bool, len(n.sets))
		fits[i] = n.fitPiece(&pieces[i], allowed[i])
		limit = min(limit, fits[i]/pieces[i].replicas)
	}
	if limit <= 0 {
		return 0
	}
	// The piece that fewest fit of is placed first.
	order := make([]int, len(pieces))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(fits[a]/pieces[a].replicas, fits[b]/pieces[b].replicas)
	})
	holds := func(units int64) bool {
		p := n.packing()
		return !slices.ContainsFunc(order, func(i int) bool {
			return !p.place(pieces[i].items, times(units, pieces[i].replicas), allowed[i])
		})
	}
	if holds(limit) {
		return limit
	}
	// Some number that fits, and one that does not: halving the distance finds two that follow each other.
	some, none := int64(0), limit
	for none-some > 1 {
		if middle := some + (none-some)/2; holds(middle) {
			some = middle
		} else {
			none = middle
		}
	}
	return some
}

// lost is how many units of d at most do not fit any more if others have so many pods on these nodes, wherever these are. A pod of others
// keeps a unit off its node only once the node has no place for a pod left, which is after as many pods as it has places to spare.
func (n *Nodes) lost(d *Demand, pods int64) int64 {
	if len(d.pieces) > 1 || len(d.pieces) == 1 && d.pieces[0].replicas != 1 {
		return (pods + d.pods() - 1) / d.pods()
	}
	p := piece{items: d.items}
	if len(d.pieces) == 1 {
		p = d.pieces[0]
	}
	spare, claim := pods, p.claim.relaxed(n)
	for i := range n.sets {
		for _, b := range n.sets[i].buckets {
			places, _ := b.free.Of(corev1.ResourcePods)
			if units := perNode(p.items, b.free); units > 0 && places-units < spare && claim.allows(n.sets[i].node) {
				spare = places - units
			}
		}
	}
	return pods - spare
}

// fitPiece is how many pods like a piece fit if there are no others. It sets which sets they can run on, unless allowed is nil.
func (n *Nodes) fitPiece(p *piece, allowed []bool) (fit int64) {
	claim := p.claim.relaxed(n)
	for i := range n.sets {
		set := &n.sets[i]
		if !claim.allows(set.node) {
			continue
		}
		if allowed != nil {
			allowed[i] = true
		}
		for j := range set.buckets {
			fit += set.buckets[j].nodes * perNode(p.items, set.buckets[j].free)
		}
	}
	return fit
}

// packing is nodes that are filled pod by pod.
type packing struct {
	buckets []bucket
	set     []int // of each bucket
}

func (n *Nodes) packing() *packing {
	p := &packing{}
	for i := range n.sets {
		for _, r := range n.sets[i].buckets {
			p.buckets, p.set = append(p.buckets, r), append(p.set, i)
		}
	}
	return p
}

// place puts pods on the first nodes that hold them, and returns whether all found a place.
func (p *packing) place(items Amounts, pods int64, allowed []bool) bool {
	for i := 0; i < len(p.buckets) && pods > 0; i++ {
		r := &p.buckets[i]
		if !allowed[p.set[i]] {
			continue
		}
		each := perNode(items, r.free)
		if each == 0 {
			continue
		}
		placed := min(pods, r.nodes*each)
		pods -= placed
		full, rest := placed/each, placed%each
		set, free := p.set[i], r.free
		p.add(set, full, free, items, each)
		if rest > 0 {
			p.add(set, 1, free, items, rest)
			full++
		}
		p.buckets[i].nodes -= full
	}
	return pods == 0
}

// add adds nodes that have free less what some pods take. They come last, so that place does not take those of its own call for empty.
func (p *packing) add(set int, nodes int64, free, items Amounts, pods int64) {
	if nodes == 0 {
		return
	}
	taken := Amounts{{corev1.ResourcePods, pods}}
	for _, item := range items {
		taken = append(taken, amount{item.name, pods * item.value})
	}
	p.buckets, p.set = append(p.buckets, bucket{nodes, free.Less(taken)}), append(p.set, set)
}

// admits returns whether some node suits the claim of each piece, however much it has free.
func (n *Nodes) admits(d *Demand) bool {
	return !slices.ContainsFunc(d.pieces, func(p piece) bool {
		claim := p.claim.relaxed(n)
		return !slices.ContainsFunc(n.sets, func(s nodeSet) bool { return claim.allows(s.node) })
	})
}

// exceeds returns whether some set is new, or has more of anything than before.
func (n *Nodes) exceeds(before *Nodes) bool {
	had := make(map[uint64]Amounts, len(before.sets))
	for i := range before.sets {
		had[before.sets[i].key] = before.sets[i].total
	}
	return slices.ContainsFunc(n.sets, func(s nodeSet) bool {
		total, known := had[s.key]
		return !known || slices.ContainsFunc(s.total, func(a amount) bool {
			value, _ := total.Of(a.name)
			return a.value > value
		})
	})
}
