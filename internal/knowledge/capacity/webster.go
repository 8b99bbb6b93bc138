package capacity

import (
	"hash/fnv"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Party is one claimant in a division: a cluster, its weight, and what it has.
type Party struct {
	// Name breaks ties.
	Name string
	// Votes is the weight; negative counts as zero.
	Votes int64
	// Seats is what the party has. Webster adds to it.
	Seats int32
}

// Webster hands out n more seats among parties, in place, by Webster's
// (Sainte-Laguë) method: each next seat goes to the party with the largest
// votes/(2·seats+1); among equals to the one with fewer seats, then by name,
// ascending if uid is empty or its FNV-1a hash is even and descending if it is
// odd, so that not every workload favours the same clusters. If nobody has
// votes, everybody counts alike. The order of parties does not matter.
func Webster(n int32, parties []Party, uid types.UID) {
	if n <= 0 || len(parties) == 0 {
		return
	}
	w := newHandout(parties, uid)
	n -= w.leap(n)
	w.heapify()
	for ; n > 0; n-- {
		w.giveOne()
	}
}

// handout is a division under way: a heap of parties, the next to be served on top.
type handout struct {
	parties []Party
	votes   []float64
	heap    []claim
	reverse bool
}

type claim struct {
	priority float64
	party    int32
}

func newHandout(parties []Party, uid types.UID) *handout {
	w := &handout{parties: parties, votes: make([]float64, len(parties)), reverse: tieReversed(uid)}
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

// leap hands out most of a large n at once. All seats whose priority is above
// some threshold are given before any other, so any threshold that gives at
// most n is a point the one-by-one process passes through. It returns how many
// seats were given, and leaves fewer than about one per party.
func (w *handout) leap(n int32) int32 {
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
func (w *handout) above(threshold float64, limit int64) int64 {
	var sum int64
	for i := range w.parties {
		if sum += w.seatsAbove(i, threshold, limit); sum > limit {
			break
		}
	}
	return sum
}

func (w *handout) seatsAbove(i int, threshold float64, limit int64) int64 {
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

func (w *handout) heapify() {
	w.heap = make([]claim, len(w.parties))
	for i := range w.heap {
		w.heap[i] = claim{priority(w.votes[i], int64(w.parties[i].Seats)), int32(i)}
	}
	for i := len(w.heap)/2 - 1; i >= 0; i-- {
		w.sink(i)
	}
}

func (w *handout) giveOne() {
	top := &w.heap[0]
	p := &w.parties[top.party]
	p.Seats++
	top.priority = priority(w.votes[top.party], int64(p.Seats))
	w.sink(0)
}

func (w *handout) sink(i int) {
	for {
		first, left := i, 2*i+1
		if left < len(w.heap) && w.before(w.heap[left], w.heap[first]) {
			first = left
		}
		if right := left + 1; right < len(w.heap) && w.before(w.heap[right], w.heap[first]) {
			first = right
		}
		if first == i {
			return
		}
		w.heap[i], w.heap[first] = w.heap[first], w.heap[i]
		i = first
	}
}

func (w *handout) before(a, b claim) bool {
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
