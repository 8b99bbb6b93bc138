package profile_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision/profile"
)

// candidates is what a decision says of every cluster: the filter and reason that dropped it, or what it received.
func candidates(d decision.Decision) []string {
	var out []string
	for i := range d.Attempts {
		a := &d.Attempts[i]
		for n, v := range a.Candidates {
			text := fmt.Sprintf("%s gets %d", v.Cluster.Name, v.Replicas)
			if v.Reason != nil {
				text = fmt.Sprintf("%s: %s: %s", v.Cluster.Name, a.DroppedBy(n), v.Reason)
			}
			out = append(out, text)
		}
	}
	return out
}

// What a snapshot caches of earlier decisions must not show: after any change of the fleet the answer is that of a
// fleet seen for the first time.
func TestMemoryDoesNotShow(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 4))
	placements := []*policyv1alpha1.Placement{
		placement(duplicated), placement(dynamic, spread(byRegion, 1, 2), spread(byCluster, 1, 3)),
		placement(aggregated, affinity(policyv1alpha1.ClusterAffinity{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}, ExcludeClusters: []string{"m01"}})),
		placement(static("m00", 2, "m02", 1), tolerate(corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists})),
		placement(duplicated, tolerate(corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(9))})),
		placement(dynamic, term("a", named("m00", "m01"), overflow("b", named("m02"))), term("c", policyv1alpha1.ClusterAffinity{})),
	}
	changes := []func(*clusterv1alpha1.Cluster){
		labelled("env", "prod"), labelled("env", "test"), tainted("k", "v", corev1.TaintEffectNoSchedule), in("p", "r9"), available(3), available(40),
		func(c *clusterv1alpha1.Cluster) { c.Spec.Taints = nil }, tainted("k", "v", corev1.TaintEffectNoExecute),
		func(c *clusterv1alpha1.Cluster) {
			c.Status.Conditions = []metav1.Condition{{Type: clusterv1alpha1.ClusterConditionReady, Status: []metav1.ConditionStatus{"True", "False", "Unknown"}[r.IntN(3)]}}
		},
		func(c *clusterv1alpha1.Cluster) { c.Status.APIEnablements = nil },
		func(c *clusterv1alpha1.Cluster) { c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
	}
	for range 60 {
		w := randomWorld(r)
		cached := w.snapshot()
		for range 12 {
			i := r.IntN(len(w.clusters))
			changed := w.clusters[i].DeepCopy()
			changes[r.IntN(len(changes))](changed)
			w.clusters[i] = changed
			cached = cached.With(decision.Change{Present: []*clusterv1alpha1.Cluster{changed}})
			req := deployment(1+r.Int32N(20), placements[r.IntN(len(placements))])
			if r.IntN(2) == 0 {
				req.Current = w.running(r, 4)
			}
			req.Failover = r.IntN(3) == 0
			req.Expelled = req.Failover || r.IntN(3) == 0
			if r.IntN(4) == 0 {
				req.Evicting = []string{"m00"}
			}
			want, got := profile.Schedule(req, w.snapshot()), profile.Schedule(req, cached)
			if diff := cmp.Diff(candidates(want), candidates(got)); diff != "" {
				t.Fatalf("without memory (-) and with (+):\n%s", diff)
			}
		}
	}
}

// The first filter in their order gives the reason, whether its answer is cached or not.
func TestTheFirstFilterGivesTheReason(t *testing.T) {
	leaving := func(c *clusterv1alpha1.Cluster) { c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	snapshot := fleet(member("m1", leaving), member("m2"), member("m3", tainted("k", "v", corev1.TaintEffectNoSchedule)), member("m4", leaving))
	req := deployment(1, placement(duplicated, affinity(named("m1", "m2", "m3"))), func(r *decision.Request) { r.Evicting = []string{"m1", "m2"} })
	for range 2 {
		d := profile.Schedule(req, snapshot)
		want := []string{"m1: ClusterLeaving: is being deleted", "m2: ClusterEviction: is being evicted from", "m3: TaintToleration: has taint k=v:NoSchedule",
			"m4: ClusterAffinity: is not in clusterAffinity.clusterNames"}
		if diff := cmp.Diff(want, candidates(d)); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	}
}
