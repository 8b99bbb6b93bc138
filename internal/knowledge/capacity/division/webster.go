package division

import (
	"container/heap"
	"hash/fnv"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Share is the part of one cluster in a division of replicas.
type Share struct {
	// Name is that of the cluster. It breaks ties.
	Name string
	// Weight counts as zero if it is negative.
	Weight int64
	// Replicas is what the cluster has. Webster adds to it.
	Replicas int32
}

// Webster divides n more replicas among clusters, in place, by Webster's (Sainte-Laguë) method: each next replica goes to the
// cluster with the largest weight/(2·replicas+1); among equals to the one with fewer replicas, then by name, ascending if uid is
// empty or its FNV-1a hash is even and descending if it is odd, so that not every workload favours the same clusters. If no cluster
// has a weight, all count alike. The order of shares does not matter.
func Webster(n int32, shares []Share, uid types.UID) {
	if n <= 0 || len(shares) == 0 {
		return
	}
	w := newDivision(shares, uid)
	n -= w.most(n)
	w.heap = make([]next, len(shares))
	for i := range shares {
		w.heap[i] = next{priority(w.weights[i], int64(shares[i].Replicas)), int32(i)}
	}
	heap.Init(w)
	for ; n > 0; n-- {
		first := &w.heap[0]
		shares[first.share].Replicas++
		first.priority = priority(w.weights[first.share], int64(shares[first.share].Replicas))
		heap.Fix(w, 0)
	}
}

// division is the state of a division: a heap of shares, with the one that gets the next replica on top.
type division struct {
	shares  []Share
	weights []float64
	heap    []next
	reverse bool
}

// next is when a share gets its next replica.
type next struct {
	priority float64
	share    int32
}

func newDivision(shares []Share, uid types.UID) *division {
	w := &division{shares: shares, weights: make([]float64, len(shares)), reverse: tieReversed(uid)}
	var most float64
	for i := range shares {
		w.weights[i] = float64(max(shares[i].Weight, 0))
		most = max(most, w.weights[i])
	}
	if most == 0 {
		for i := range w.weights {
			w.weights[i] = 1
		}
	}
	return w
}

func tieReversed(uid types.UID) bool {
	if uid == "" {
		return false
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid))
	return h.Sum32()%2 == 1
}

func priority(weight float64, replicas int64) float64 { return weight / float64(2*replicas+1) }

// most gives most of a large n at once. All replicas whose priority is above some threshold are given before any other, so that any
// threshold that gives at most n is a state of the division one by one. It returns how many replicas were given, and leaves fewer
// than about one per share.
func (w *division) most(n int32) int32 {
	shares := int64(len(w.shares))
	if int64(n) <= 2*shares {
		return 0
	}
	low, high := 0.0, 0.0
	for _, v := range w.weights {
		high = max(high, v)
	}
	given := int64(0)
	for range 64 {
		if int64(n)-given <= shares {
			break
		}
		middle := low + (high-low)/2
		if middle <= low || middle >= high {
			break
		}
		if g := w.above(middle, int64(n)); g <= int64(n) {
			high, given = middle, g
		} else {
			low = middle
		}
	}
	if given == 0 {
		return 0
	}
	for i := range w.shares {
		w.shares[i].Replicas += int32(w.replicasAbove(i, high, int64(n)))
	}
	return int32(given)
}

// above counts the replicas still to be given whose priority is above threshold; beyond limit it stops counting.
func (w *division) above(threshold float64, limit int64) int64 {
	var sum int64
	for i := range w.shares {
		if sum += w.replicasAbove(i, threshold, limit); sum > limit {
			break
		}
	}
	return sum
}

func (w *division) replicasAbove(i int, threshold float64, limit int64) int64 {
	weight, has := w.weights[i], int64(w.shares[i].Replicas)
	estimate := (weight/threshold - 1) / 2
	if estimate > float64(has+limit) {
		return limit + 1
	}
	replicas := max(int64(math.Floor(estimate))+1, 0)
	// The estimate is off by one at most; only the exact comparison decides.
	for replicas > 0 && priority(weight, replicas-1) <= threshold {
		replicas--
	}
	for priority(weight, replicas) > threshold {
		replicas++
	}
	return max(replicas-has, 0)
}

// Len, Less and Swap order the heap; it never grows or shrinks.
func (w *division) Len() int      { return len(w.heap) }
func (w *division) Swap(i, j int) { w.heap[i], w.heap[j] = w.heap[j], w.heap[i] }
func (w *division) Push(any)      {}
func (w *division) Pop() any      { return nil }

func (w *division) Less(i, j int) bool {
	a, b := w.heap[i], w.heap[j]
	if a.priority != b.priority {
		return a.priority > b.priority
	}
	p, q := &w.shares[a.share], &w.shares[b.share]
	if p.Replicas != q.Replicas {
		return p.Replicas < q.Replicas
	}
	if w.reverse {
		return strings.Compare(p.Name, q.Name) > 0
	}
	return strings.Compare(p.Name, q.Name) < 0
}
