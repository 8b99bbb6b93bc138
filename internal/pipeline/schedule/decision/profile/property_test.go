package profile_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision/profile"
)

// world is a random fleet and its capacity.
type world struct {
	clusters []*clusterv1alpha1.Cluster
	free     map[string]int32
	region   map[string]string
}

func randomWorld(r *rand.Rand) world {
	w := world{free: map[string]int32{}, region: map[string]string{}}
	for i := range 2 + r.IntN(9) {
		name := fmt.Sprintf("m%02d", i)
		w.free[name] = r.Int32N(30)
		w.region[name] = fmt.Sprintf("r%d", r.IntN(4))
		w.clusters = append(w.clusters, member(name, available(int64(w.free[name])), in("p", w.region[name])))
	}
	return w
}

func (w world) snapshot() *decision.Snapshot { return fleet(w.clusters...) }

// running puts up to n replicas into random clusters. The rest of the capacity is available.
func (w world) running(r *rand.Rand, n int32) []workv1alpha2.TargetCluster {
	out := targets()
	for _, c := range w.clusters {
		if r.IntN(2) == 0 {
			out = append(out, workv1alpha2.TargetCluster{Name: c.Name, Replicas: 1 + r.Int32N(n)})
		}
	}
	return out
}

func sum(ts []workv1alpha2.TargetCluster) (n int64) {
	for _, t := range ts {
		n += int64(t.Replicas)
	}
	return n
}

func replicasIn(ts []workv1alpha2.TargetCluster, name string) int32 {
	for _, t := range ts {
		if t.Name == name {
			return t.Replicas
		}
	}
	return 0
}

var divisions = map[string]func(*policyv1alpha1.Placement){
	"Dynamic": dynamic, "Aggregated": aggregated, "Equal": static(), "Weighted": static("m00", 5, "m01", 2, "m02", 1, "m05", 3),
}

func forEachDivision(t *testing.T, seed uint64, check func(t *testing.T, r *rand.Rand, w world, name string, p *policyv1alpha1.Placement)) {
	t.Helper()
	for name, mode := range divisions {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 99))
			for range 400 {
				check(t, r, randomWorld(r), name, placement(mode))
			}
		})
	}
}

func byAvailable(name string) bool { return name == "Dynamic" || name == "Aggregated" }

func TestDivisionAddsUpWithinBounds(t *testing.T) {
	forEachDivision(t, 1, func(t *testing.T, r *rand.Rand, w world, name string, p *policyv1alpha1.Placement) {
		req := deployment(r.Int32N(120), p)
		if r.IntN(2) == 0 {
			req.Current = w.running(r, 15)
		}
		req.Fresh = r.IntN(4) == 0
		d := profile.Schedule(req, w.snapshot())
		if d.Failure != nil {
			if !byAvailable(name) {
				t.Fatalf("weights always divide: %s", d.Failure.Message)
			}
			return
		}
		if got := sum(d.Targets); got != int64(req.Replicas) {
			t.Fatalf("%d replicas wanted, %d placed: %v", req.Replicas, got, d.Targets)
		}
		if !byAvailable(name) {
			return
		}
		for _, target := range d.Targets {
			if most := int64(w.free[target.Name]) + int64(replicasIn(req.Current, target.Name)); int64(target.Replicas) > most {
				t.Fatalf("%s received %d, holds %d", target.Name, target.Replicas, most)
			}
		}
	})
}

func TestDivisionFailsOnlyWithoutCapacity(t *testing.T) {
	forEachDivision(t, 2, func(t *testing.T, r *rand.Rand, w world, name string, p *policyv1alpha1.Placement) {
		req := deployment(r.Int32N(200), p)
		var total int64
		for _, free := range w.free {
			total += int64(free)
		}
		d := profile.Schedule(req, w.snapshot())
		if failed, short := d.Failure != nil, byAvailable(name) && total < int64(req.Replicas); failed != short {
			t.Fatalf("%d replicas, %d available: failure %+v", req.Replicas, total, d.Failure)
		}
		req.Partial = true
		if d := profile.Schedule(req, w.snapshot()); byAvailable(name) && total > 0 && sum(d.Targets) != min(total, int64(req.Replicas)) {
			t.Fatalf("partial: %d replicas, %d available, placed %d", req.Replicas, total, sum(d.Targets))
		}
	})
}

func TestDecisionIsStable(t *testing.T) {
	constraints := []func(*policyv1alpha1.Placement){
		func(*policyv1alpha1.Placement) {}, spread(byCluster, 1, 3),
		func(p *policyv1alpha1.Placement) { spread(byRegion, 1, 2)(p); spread(byCluster, 1, 4)(p) },
	}
	forEachDivision(t, 3, func(t *testing.T, r *rand.Rand, w world, name string, p *policyv1alpha1.Placement) {
		constraints[r.IntN(len(constraints))](p)
		req := deployment(r.Int32N(60), p)
		req.SpreadStatic = r.IntN(2) == 0
		first := profile.Schedule(req, w.snapshot())
		if again := profile.Schedule(req, w.snapshot()); !cmp.Equal(first.Targets, again.Targets) {
			t.Fatalf("same question, two answers: %v and %v", first.Targets, again.Targets)
		}
		if first.Failure != nil {
			return
		}
		req.Current = first.Targets
		for _, c := range w.clusters { // the replicas now take up their capacity
			available(int64(w.free[c.Name] - replicasIn(first.Targets, c.Name)))(c)
		}
		if name == "Weighted" || name == "Equal" {
			for _, c := range w.clusters {
				available(int64(w.free[c.Name]))(c)
			}
		}
		second := profile.Schedule(req, w.snapshot())
		if diff := cmp.Diff(first.Targets, second.Targets); diff != "" {
			t.Fatalf("%s: asked again it moves:\n%s", name, diff)
		}
	})
}

func TestScalingMovesNothing(t *testing.T) {
	forEachDivision(t, 4, func(t *testing.T, r *rand.Rand, w world, _ string, p *policyv1alpha1.Placement) {
		before := profile.Schedule(deployment(1+r.Int32N(40), p), w.snapshot())
		if before.Failure != nil {
			return
		}
		for _, c := range w.clusters {
			available(int64(w.free[c.Name] - min(w.free[c.Name], replicasIn(before.Targets, c.Name))))(c)
		}
		n := int32(sum(before.Targets))
		wanted := r.Int32N(2*n + 2)
		req := deployment(wanted, p)
		req.Current = before.Targets
		after := profile.Schedule(req, w.snapshot())
		if after.Failure != nil {
			return
		}
		for _, c := range w.clusters {
			was, is := replicasIn(before.Targets, c.Name), replicasIn(after.Targets, c.Name)
			if wanted >= n && is < was || wanted <= n && is > was {
				t.Fatalf("from %d to %d replicas %s went from %d to %d: %v, then %v", n, wanted, c.Name, was, is, before.Targets, after.Targets)
			}
		}
	})
}

func TestJoiningClusterMovesNothingThatIsDividedByCapacity(t *testing.T) {
	forEachDivision(t, 5, func(t *testing.T, r *rand.Rand, w world, name string, p *policyv1alpha1.Placement) {
		if !byAvailable(name) {
			return
		}
		first := profile.Schedule(deployment(1+r.Int32N(40), p), w.snapshot())
		if first.Failure != nil {
			return
		}
		req := deployment(int32(sum(first.Targets)), p)
		req.Current = first.Targets
		second := profile.Schedule(req, fleet(append(w.clusters, member("new", available(1000)))...))
		if diff := cmp.Diff(first.Targets, second.Targets); diff != "" {
			t.Fatalf("-before +after\n%s", diff)
		}
	})
}

func TestSpreadConstraintsHold(t *testing.T) {
	modes := map[string]func(*policyv1alpha1.Placement){"Duplicated": duplicated}
	for name, mode := range divisions {
		modes[name] = mode
	}
	r := rand.New(rand.NewPCG(6, 99))
	placed := 0
	for range 3000 {
		for name, mode := range modes {
			w := randomWorld(r)
			least, most, regionsLeast, regionsMost := 1+r.IntN(3), r.IntN(5), 1+r.IntN(3), r.IntN(4)
			p := placement(mode, spread(byRegion, regionsLeast, regionsMost), spread(byCluster, least, most))
			d := profile.Schedule(deployment(10+r.Int32N(20), p, spreadStatic), w.snapshot())
			if d.Failure != nil {
				continue
			}
			placed++
			chosen, regions := 0, map[string]bool{}
			for _, v := range d.Attempts[0].Candidates {
				if v.Chosen {
					chosen++
					regions[v.Cluster.Region] = true
				}
			}
			if chosen < least || most > 0 && chosen > max(most, regionsLeast) || len(regions) < regionsLeast || regionsMost > 0 && len(regions) > regionsMost {
				t.Fatalf("%s: %d clusters in %d regions chosen for clusters %d..%d, regions %d..%d", name, chosen, len(regions), least, most, regionsLeast, regionsMost)
			}
		}
	}
	if placed < 1000 {
		t.Fatalf("only %d random requests were placed: the test shows nothing", placed)
	}
}

// randomPlacement uses every field of a placement, sensibly or not.
func randomPlacement(r *rand.Rand) *policyv1alpha1.Placement {
	p := placement()
	some := func() policyv1alpha1.ClusterAffinity {
		a := policyv1alpha1.ClusterAffinity{}
		switch r.IntN(5) {
		case 0:
			a = named("m00", "m01", "m03", "gone")
		case 1:
			a = fields([]string{"region", "zone", "provider", "color"}[r.IntN(4)], []corev1.NodeSelectorOperator{"In", "NotIn", "Gt"}[r.IntN(3)], "r1", "p")
		case 2:
			a.ExcludeClusters = []string{"m01", "m02"}
		}
		return a
	}
	for i := range r.IntN(3) {
		term(fmt.Sprintf("t%d", i), some(), overflow("o", some()))(p)
	}
	if len(p.ClusterAffinities) == 0 && r.IntN(2) == 0 {
		affinity(some())(p)
	}
	for _, field := range []policyv1alpha1.SpreadFieldValue{byCluster, byRegion, byZone, byProvider, ""} {
		if r.IntN(4) == 0 {
			spread(field, r.IntN(4)-1, r.IntN(5)-1)(p)
		}
	}
	if r.IntN(4) == 0 {
		spreadByLabel("rack", r.IntN(3), r.IntN(3))(p)
	}
	switch r.IntN(6) {
	case 0:
		duplicated(p)
	case 1:
		dynamic(p)
	case 2:
		aggregated(p)
	case 3:
		static()(p)
	case 4:
		static("m00", 3, "m01", 1<<40)(p)
	}
	return p
}

func TestAnyPlacementGetsAnAnswer(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 99))
	placed := 0
	for range 5000 {
		w := randomWorld(r)
		for _, c := range w.clusters {
			if r.IntN(3) == 0 {
				labelled("rack", fmt.Sprint(r.IntN(3)))(c)
				c.Spec.Zones = []string{"r1", "r2"}[:1+r.IntN(2)]
			}
		}
		req := deployment(r.Int32N(40), randomPlacement(r))
		req.Current, req.Fresh, req.Partial, req.SpreadStatic = w.running(r, 6), r.IntN(4) == 0, r.IntN(4) == 0, r.IntN(2) == 0
		req.ObservedAffinity = []string{"", "t0", "t1"}[r.IntN(3)]
		if r.IntN(4) == 0 {
			req.Replicas, req.Requirements = 0, nil
		}
		d := profile.Schedule(req, w.snapshot())
		if d.Failure != nil {
			if d.Failure.Message == "" || d.Failure.Reason == "" || len(d.Targets) > 0 {
				t.Fatalf("a failure without reason, or with targets: %+v of %+v", d.Failure, req.Placement)
			}
			continue
		}
		placed++
		s := req.Placement.ReplicaScheduling
		if req.Requirements != nil && s != nil && s.ReplicaSchedulingType == policyv1alpha1.ReplicaSchedulingTypeDivided &&
			sum(d.Targets)+int64(d.Missing) != int64(req.Replicas) {
			t.Fatalf("%d replicas wanted, %d missing, placed %v", req.Replicas, d.Missing, d.Targets)
		}
	}
	if placed < 1000 {
		t.Fatalf("only %d random requests were placed: the test shows nothing", placed)
	}
}
