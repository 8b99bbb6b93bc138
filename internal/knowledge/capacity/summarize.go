package capacity

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
)

// Node is one node that pods can be placed on.
type Node struct {
	Name   string
	Labels Labels
	Taints []corev1.Taint
	Free   Amounts
}

// Labels are the labels of a node, sorted. The nodes of a cluster have most of them in common, so that one copy of each is kept.
type Labels []unique.Handle[label]

type label struct{ key, value string }

// LabelsOf returns labels as they are kept.
func LabelsOf(labels map[string]string) Labels {
	out := make(Labels, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, unique.Make(label{key, labels[key]}))
	}
	return out
}

// detail is how much a summary shows.
type detail struct {
	// values is how many values of a label, or names of nodes, are listed.
	values int
	// decimal and binary are how many digits of an amount are kept: binary ones of memory and storage, decimal ones of all else, so
	// that four CPUs remain four, and three gigabytes three. Zero is all.
	decimal, binary int
}

// details are tried until all nodes are in the summary.
func details(nodes int) []detail {
	all := []detail{{32, 0, 0}, {32, 2, 4}, {32, 2, 3}, {16, 1, 2}, {4, 1, 1}, {0, 1, 1}}
	if nodes > all[0].values {
		return all[1:] // rounded amounts change less often, which saves writes
	}
	return all
}

const (
	// maxSummarySets and maxSummaryBuckets bound a summary: a hundred kilobytes, with twenty labels for each set.
	maxSummarySets, maxSummaryBuckets = 128, 256
	// maxSummaryTaints bounds the taints of a node. A node with more is left out.
	maxSummaryTaints = 16
)

// Summarize returns what the nodes of a cluster have free: those with equal labels and taints together, and of these those with equal
// amounts, which are rounded down. The more the nodes differ, the less detail it has, and what is left out is named. Labels with many
// values tell nodes apart, such as the host name; no summary of a large cluster can list them.
func Summarize(nodes []Node) *fleetv1alpha1.ClusterCapacity {
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	var out *fleetv1alpha1.ClusterCapacity
	for _, d := range details(len(nodes)) {
		if out = d.summarize(nodes); out.OmittedNodes == 0 {
			break
		}
	}
	return out
}

// summary is a ClusterCapacity in the making.
type summary struct {
	*fleetv1alpha1.ClusterCapacity
	detail  detail
	omitted sets.Set[string]
	// sets is the index of each set, buckets that of each bucket in its set; free is what each bucket of each set has.
	sets, buckets map[string]int
	free          [][]Amounts
}

func (d detail) summarize(nodes []Node) *fleetv1alpha1.ClusterCapacity {
	s := summary{&fleetv1alpha1.ClusterCapacity{OmittedNames: len(nodes) > d.values}, d, d.omittedValues(nodes), map[string]int{}, map[string]int{}, nil}
	for i := range nodes {
		if !s.add(&nodes[i]) {
			s.OmittedNodes++
		}
	}
	s.OmittedValues = slices.Sorted(maps.Keys(s.omitted))
	return s.ClusterCapacity
}

// add counts a node. It returns false if there is no place for it.
func (s *summary) add(node *Node) bool {
	if len(node.Taints) > maxSummaryTaints {
		return false
	}
	key := s.keyOf(node)
	free := s.detail.round(node.Free)
	bucket := key + fmt.Sprint(free)
	at, known := s.sets[key]
	if i, ok := s.buckets[bucket]; ok {
		s.Nodes[at].Buckets[i].Count++
		return true
	}
	switch {
	case known && len(s.buckets) == maxSummaryBuckets:
		return s.addToLesser(at, free)
	case len(s.buckets) == maxSummaryBuckets, !known && len(s.sets) == maxSummarySets:
		return false
	case !known:
		at = len(s.Nodes)
		s.sets[key], s.Nodes, s.free = at, append(s.Nodes, s.setOf(node)), append(s.free, nil)
	}
	s.buckets[bucket] = len(s.Nodes[at].Buckets)
	s.free[at] = append(s.free[at], free)
	s.Nodes[at].Buckets = append(s.Nodes[at].Buckets, fleetv1alpha1.Bucket{Count: 1, Free: free.List()})
	return true
}

// addToLesser counts a node in the bucket of its set with the most CPUs that has no more of anything, if there is one.
func (s *summary) addToLesser(set int, free Amounts) bool {
	best, most := -1, int64(-1)
	for i, has := range s.free[set] {
		if cpu, _ := has.Of(corev1.ResourceCPU); cpu > most && free.Reaches(has) {
			best, most = i, cpu
		}
	}
	if best >= 0 {
		s.Nodes[set].Buckets[best].Count++
	}
	return best >= 0
}

// keyOf is equal for nodes of the same set.
func (s *summary) keyOf(node *Node) string {
	var b strings.Builder
	write := func(words ...string) {
		for _, word := range words {
			b.WriteString(word)
			b.WriteByte(0)
		}
	}
	if !s.OmittedNames {
		write(node.Name)
	}
	for _, l := range node.Labels {
		write(l.Value().key, s.valueOf(l.Value()))
	}
	for _, t := range node.Taints {
		write(t.Key, t.Value, string(t.Effect))
	}
	return b.String()
}

func (s *summary) setOf(node *Node) fleetv1alpha1.NodeSet {
	set := fleetv1alpha1.NodeSet{Labels: make(map[string]string, len(node.Labels)), Taints: node.Taints}
	if !s.OmittedNames {
		set.Name = node.Name
	}
	for _, l := range node.Labels {
		set.Labels[l.Value().key] = s.valueOf(l.Value())
	}
	return set
}

func (s *summary) valueOf(l label) string {
	if s.omitted.Has(l.key) {
		return ""
	}
	return l.value
}

// omittedValues are the keys of labels that have too many values.
func (d detail) omittedValues(nodes []Node) sets.Set[string] {
	seen := sets.New[unique.Handle[label]]()
	values, out := map[string]int{}, sets.New[string]()
	for i := range nodes {
		for _, l := range nodes[i].Labels {
			if seen.Has(l) {
				continue
			}
			seen.Insert(l)
			key := l.Value().key
			if values[key]++; values[key] > d.values {
				out.Insert(key)
			}
		}
	}
	return out
}

// TaintsOf returns the taints that keep pods off a node, in a fixed order.
func TaintsOf(taints []corev1.Taint) []corev1.Taint {
	var out []corev1.Taint
	for i := range taints {
		if t := &taints[i]; hinders(t) {
			out = append(out, corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
		}
	}
	slices.SortFunc(out, func(a, b corev1.Taint) int { return cmp.Compare(a.ToString(), b.ToString()) })
	return out
}

// round returns the amounts with the digits that are kept, the others being zero. Amounts of nothing are left out.
func (d detail) round(amounts Amounts) Amounts {
	out := make(Amounts, 0, len(amounts))
	for _, item := range amounts {
		unit := int64(1)
		if d.binary > 0 && formatOf(item.name) == resource.BinarySI {
			unit <<= max(bits.Len64(uint64(item.value))-d.binary, 0)
		} else if d.decimal > 0 {
			for most := int64(math.Pow10(d.decimal)); item.value/unit >= most; {
				unit *= 10
			}
		}
		if item.value -= item.value % unit; item.value > 0 {
			out = append(out, item)
		}
	}
	return out
}
