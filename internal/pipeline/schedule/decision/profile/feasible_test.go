package profile_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision/profile"
)

// bounds are how many groups a constraint allows.
type bounds struct{ least, most int }

func (b bounds) allow(n int) bool { return n >= b.least && (b.most == 0 || n <= b.most) }

// TestWhatConstraintsAllowIsFound compares small fleets with all selections that there are: whatever meets the constraints is
// placed, and what is placed meets them.
func TestWhatConstraintsAllowIsFound(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 14))
	met := 0
	for range 4000 {
		clusters := 2 + r.IntN(6)
		capacities, groups := make([]int64, clusters), make([][2]int, clusters) // by region and rack
		members := make([]*clusterv1alpha1.Cluster, clusters)
		for i := range clusters {
			capacities[i], groups[i] = int64(r.IntN(12)), [2]int{r.IntN(3), r.IntN(3)}
			members[i] = member(fmt.Sprintf("m%d", i), available(capacities[i]),
				in("p", fmt.Sprintf("region-%d", groups[i][0])), labelled("rack", fmt.Sprintf("rack-%d", groups[i][1])))
		}
		some := func() bounds {
			least := 1 + r.IntN(3)
			return bounds{least, []int{0, least, least + 1}[r.IntN(3)]}
		}
		all, byGroup := some(), [2]bounds{some(), some()}
		copies := r.IntN(3) == 0
		strategy, replicas := dynamic, int64(1+r.IntN(25))
		if copies {
			strategy = duplicated
		}
		request := deployment(int32(replicas), placement(strategy, spread(byCluster, all.least, all.most),
			spread(byRegion, byGroup[0].least, byGroup[0].most), spreadByLabel("rack", byGroup[1].least, byGroup[1].most)))
		if all.most > 0 { // each region that is required has its cluster
			all.most = max(all.most, byGroup[0].least)
		}
		allowed := func(chosen func(int) bool) bool {
			var n int
			var held int64
			seen := [2]map[int]bool{{}, {}}
			for i := range clusters {
				if chosen(i) {
					n, held = n+1, held+capacities[i]
					seen[0][groups[i][0]], seen[1][groups[i][1]] = true, true
				}
			}
			return n > 0 && all.allow(n) && byGroup[0].allow(len(seen[0])) && byGroup[1].allow(len(seen[1])) && (copies || held >= replicas)
		}
		possible := false
		for set := range 1 << clusters {
			possible = possible || allowed(func(i int) bool { return set&(1<<i) != 0 })
		}
		d := profile.Schedule(request, fleet(members...))
		story := fmt.Sprintf("%d replicas (copies: %t), clusters %v, regions %v, racks %v, available %v, in %v", replicas, copies, all, byGroup[0], byGroup[1], capacities, groups)
		switch {
		case d.Failure != nil && possible:
			t.Errorf("%s: %s", story, d.Failure.Message)
		case d.Failure == nil && !allowed(func(i int) bool { return d.Attempts[0].Candidates[i].Chosen }):
			t.Fatalf("%s: %v are not allowed", story, d.Targets)
		case d.Failure == nil:
			met++
		}
	}
	if met < 1000 {
		t.Fatalf("only %d random requests were placed: the test shows nothing", met)
	}
}
