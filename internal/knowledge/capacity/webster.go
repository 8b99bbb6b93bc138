package capacity

import (
	"container/heap"
	"hash/fnv"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Party is a cluster in a division of replicas: its weight, and the seats (replicas) that it has.
type Party struct {
	// Name breaks ties.
	Name string
	// Votes is the weight; negative counts as zero.
	Votes int64
	// Seats is what the party has. Webster adds to it.
	Seats int32
}

// Webster divides n more seats among parties, in place, by Webster's (Sainte-Laguë) method: each next seat goes to the party with
// the largest votes/(2·seats+1); among equals to the one with fewer seats, then by name, ascending if uid is empty or its FNV-1a
// hash is even and descending if it is odd, so that not every workload favours the same clusters. If no party has votes, all
// count alike. The order of parties does not matter.
func Webster(n int32, parties []Party, uid types.UID) {
	if n <= 0 || len(parties) == 0 {
		return
	}
	w := newDivision(parties, uid)
	n -= w.most(n)
	w.heap = make([]next, len(parties))
	for i := range parties {
		w.heap[i] = next{priority(w.votes[i], int64(parties[i].Seats)), int32(i)}
	}
	heap.Init(w)
	for ; n > 0; n-- {
		first := &w.heap[0]
		parties[first.party].Seats++
		first.priority = priority(w.votes[first.party], int64(parties[first.party].Seats))
		heap.Fix(w, 0)
	}
}

// division is the state of a division: a heap of parties, with the one that gets the next seat on top.
type division struct {
	parties []Party
	votes   []float64
	heap    []next
	reverse bool
}

// next is when a party gets its next seat.
type next struct {
	priority float64
	party    int32
}

func newDivision(parties []Party, uid types.UID) *division {
	w := &division{parties: parties, votes: make([]float64, len(parties)), reverse: tieReversed(uid)}
	var most float64
	for i := range parties {
		w.votes[i] = float64(max(parties[i].Votes, 0))
		most = max(most, w.votes[i])
	}
	if most == 0 {
		for i := range w.votes {
			w.votes[i] = 1
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

func priority(votes float64, seats int64) float64 { return votes / float64(2*seats+1) }

// most gives most of a large n at once. All seats whose priority is above some threshold are given before any other, so that any
// threshold that gives at most n is a state of the division one by one. It returns how many seats were given, and leaves fewer
// than about one per party.
func (w *division) most(n int32) int32 {
	parties := int64(len(w.parties))
	if int64(n) <= 2*parties {
		return 0
	}
	low, high := 0.0, 0.0
	for _, v := range w.votes {
		high = max(high, v)
	}
	given := int64(0)
	for range 64 {
		if int64(n)-given <= parties {
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
	for i := range w.parties {
		w.parties[i].Seats += int32(w.seatsAbove(i, high, int64(n)))
	}
	return int32(given)
}

// above counts the seats still to be given whose priority is above threshold; beyond limit it stops counting.
func (w *division) above(threshold float64, limit int64) int64 {
	var sum int64
	for i := range w.parties {
		if sum += w.seatsAbove(i, threshold, limit); sum > limit {
			break
		}
	}
	return sum
}

func (w *division) seatsAbove(i int, threshold float64, limit int64) int64 {
	votes, has := w.votes[i], int64(w.parties[i].Seats)
	estimate := (votes/threshold - 1) / 2
	if estimate > float64(has+limit) {
		return limit + 1
	}
	seats := max(int64(math.Floor(estimate))+1, 0)
	// The estimate is off by one at most; only the exact comparison decides.
	for seats > 0 && priority(votes, seats-1) <= threshold {
		seats--
	}
	for priority(votes, seats) > threshold {
		seats++
	}
	return max(seats-has, 0)
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
	p, q := &w.parties[a.party], &w.parties[b.party]
	if p.Seats != q.Seats {
		return p.Seats < q.Seats
	}
	if w.reverse {
		return strings.Compare(p.Name, q.Name) > 0
	}
	return strings.Compare(p.Name, q.Name) < 0
}
