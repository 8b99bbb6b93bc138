package division_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flagship-k8s/flagship/internal/knowledge/capacity/division"
)

const (
	evenUID = types.UID("a") // FNV-1a-32 is even
	oddUID  = types.UID("b") // FNV-1a-32 is odd
)

func TestParityOfTheUIDs(t *testing.T) {
	for uid, parity := range map[types.UID]uint32{evenUID: 0, oddUID: 1} {
		h := fnv.New32a()
		_, _ = h.Write([]byte(uid))
		if h.Sum32()%2 != parity {
			t.Fatalf("FNV-1a-32(%q) = %d, want parity %d", uid, h.Sum32(), parity)
		}
	}
}

func TestWebster(t *testing.T) {
	type shares = []division.Share
	cases := map[string]struct {
		reason string
		n      int32
		uid    types.UID
		in     shares
		want   []int32
	}{
		"Classic": {
			reason: "the textbook division of 230,000 weight: quotients 100000, 80000, 33333, 30000, 26667, 20000(A/5), 20000(D), 16000(B/5)",
			n:      8,
			in:     shares{{"a", 100000, 0}, {"b", 80000, 0}, {"c", 30000, 0}, {"d", 20000, 0}},
			want:   []int32{3, 3, 1, 1},
		},
		"TwoToOne": {
			reason: "quotients in order: a 2, b 1, a 2/3, a 2/5, b 1/3",
			n:      5,
			in:     shares{{"a", 2, 0}, {"b", 1, 0}},
			want:   []int32{3, 2},
		},
		"TieByName": {
			reason: "equal weights, one seat: without a uid the first name takes it",
			n:      1,
			in:     shares{{"b", 1, 0}, {"a", 1, 0}},
			want:   []int32{0, 1},
		},
		"TieEven": {
			reason: "an even hash behaves as no uid",
			n:      1, uid: evenUID,
			in:   shares{{"a", 1, 0}, {"b", 1, 0}},
			want: []int32{1, 0},
		},
		"TieOdd": {
			reason: "an odd hash turns the order of names round",
			n:      1, uid: oddUID,
			in:   shares{{"a", 1, 0}, {"b", 1, 0}},
			want: []int32{0, 1},
		},
		"TieFewerSeats": {
			reason: "3/3 equals 1/1: the cluster with fewer replicas goes first, whatever the names",
			n:      1,
			in:     shares{{"a", 3, 1}, {"b", 1, 0}},
			want:   []int32{1, 1},
		},
		"StartsFromSeats": {
			reason: "who already has replicas waits until the others have caught up",
			n:      3,
			in:     shares{{"a", 1, 3}, {"b", 1, 0}},
			want:   []int32{3, 3},
		},
		"NoWeights": {
			reason: "without any weight all have equal shares",
			n:      4,
			in:     shares{{"a", 0, 0}, {"b", 0, 0}, {"c", 0, 0}},
			want:   []int32{2, 1, 1},
		},
		"NoVotesNoSeat": {
			reason: "a cluster without weight gets nothing while others have some",
			n:      5,
			in:     shares{{"a", 0, 0}, {"b", 7, 0}},
			want:   []int32{0, 5},
		},
		"Nothing": {reason: "no replicas to give", n: 0, in: shares{{"a", 1, 2}}, want: []int32{2}},
		"Huge": {
			reason: "a billion replicas are leapt over, not counted out",
			n:      1_000_000_000,
			in:     shares{{"a", 3, 0}, {"b", 1, 0}},
			want:   []int32{750_000_000, 250_000_000},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := slices.Clone(tc.in)
			division.Webster(tc.n, got, tc.uid)
			replicas := make([]int32, len(got))
			for i := range got {
				replicas[i] = got[i].Replicas
			}
			if diff := cmp.Diff(tc.want, replicas); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// oneByOne is the method as it is defined, without heap or leap.
func oneByOne(n int32, shares []division.Share, uid types.UID) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid))
	reverse := uid != "" && h.Sum32()%2 == 1
	for range n {
		best := 0
		for i := range shares {
			p, b := shares[i], shares[best]
			x, y := float64(p.Weight)/float64(2*p.Replicas+1), float64(b.Weight)/float64(2*b.Replicas+1)
			switch {
			case x != y:
				if x > y {
					best = i
				}
			case p.Replicas != b.Replicas:
				if p.Replicas < b.Replicas {
					best = i
				}
			case p.Name < b.Name != reverse && p.Name != b.Name:
				best = i
			}
		}
		shares[best].Replicas++
	}
}

func randomParties(r *rand.Rand, most int64) []division.Share {
	shares := make([]division.Share, 1+r.IntN(12))
	for i := range shares {
		shares[i] = division.Share{Name: fmt.Sprintf("m%02d", i), Weight: r.Int64N(most)}
		if r.IntN(3) == 0 {
			shares[i].Replicas = r.Int32N(20)
		}
	}
	shares[0].Weight++
	r.Shuffle(len(shares), func(i, j int) { shares[i], shares[j] = shares[j], shares[i] })
	return shares
}

func TestWebsterIsTheMethodAsDefined(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		in := randomParties(r, []int64{2, 10, 1000, 1 << 40}[r.IntN(4)])
		n, uid := r.Int32N(300), []types.UID{"", evenUID, oddUID}[r.IntN(3)]
		want, got := slices.Clone(in), slices.Clone(in)
		oneByOne(n, want, uid)
		division.Webster(n, got, uid)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("Webster(%d, %v, %q): -want +got\n%s", n, in, uid, diff)
		}
	}
}

func TestWebsterGrowsOnly(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		in := randomParties(r, 1000)
		n := r.Int32N(5000)
		fewer, more := slices.Clone(in), slices.Clone(in)
		division.Webster(n, fewer, "")
		division.Webster(n+1, more, "")
		for i := range in {
			if more[i].Replicas < fewer[i].Replicas {
				t.Fatalf("one seat more took one from %s: %v then %v", in[i].Name, fewer, more)
			}
		}
	}
}

func TestWebsterNeverGivesMoreThanVotesThatSuffice(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		in := randomParties(r, 1000)
		var weight int64
		for i := range in {
			in[i].Replicas = 0
			weight += in[i].Weight
		}
		n := int32(r.Int64N(weight + 1))
		division.Webster(n, in, "")
		for _, p := range in {
			if int64(p.Replicas) > p.Weight {
				t.Fatalf("%d of %d weight: %s got %d for %d", n, weight, p.Name, p.Replicas, p.Weight)
			}
		}
	}
}

func TestOthersKeepTheirReplicasWhenOneLeaves(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 500 {
		in := randomParties(r, 1000)
		if len(in) < 3 {
			continue
		}
		for i := range in {
			in[i].Replicas = 0
			in[i].Weight++
		}
		n := r.Int32N(500)
		all, rest := slices.Clone(in), slices.Clone(in[1:])
		division.Webster(n, all, "")
		division.Webster(n, rest, "")
		for i := range rest {
			if rest[i].Replicas < all[i+1].Replicas {
				t.Fatalf("%s lost replicas when %s left: %v then %v", rest[i].Name, in[0].Name, all, rest)
			}
		}
	}
}
