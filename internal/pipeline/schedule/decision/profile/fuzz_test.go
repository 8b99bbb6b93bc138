package profile_test

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision/profile"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest/bounded"
)

// FuzzPlacement feeds arbitrary placements: whatever they say, a decision ends within its budget,
// is the same twice, and either fails with a message or adds up.
func FuzzPlacement(f *testing.F) {
	for _, p := range []*policyv1alpha1.Placement{
		placement(), placement(dynamic, spread(byRegion, 2, 2), spread(byCluster, 2, 3)), placement(aggregated, spread(byCluster, 1, 1)),
		placement(static("m1", 2, "m2", 1), affinity(named("m1", "m2"))), placement(duplicated, spreadByLabel("rack", 2, 0)),
		placement(dynamic, term("a", named("m1"), overflow("b", named("m2"))), term("c", policyv1alpha1.ClusterAffinity{})),
		placement(affinity(fields("zone", corev1.NodeSelectorOpNotIn, "z1")), tolerate(corev1.Toleration{Operator: corev1.TolerationOpExists})),
	} {
		data, err := json.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, int32(7), true)
	}
	snapshot := fleet(
		member("m1", available(3), in("p", "east", "z1"), labelled("rack", "r1")), member("m2", available(9), in("p", "west", "z2", "z3"), labelled("rack", "r2")),
		member("m3", available(0), in("q", "west")), member("m4", tainted("k", "v", corev1.TaintEffectNoSchedule)),
	)
	f.Fuzz(func(t *testing.T, data []byte, replicas int32, workload bool) {
		p := &policyv1alpha1.Placement{}
		if json.Unmarshal(data, p) != nil || replicas < 0 {
			return
		}
		req := configMap(p)
		if workload {
			req = deployment(replicas, p, now("m2", 2))
		}
		var d, again decision.Decision
		bounded.Run(t, func() { d, again = profile.Schedule(req, snapshot), profile.Schedule(req, snapshot) })
		if (d.Failure == nil) != (again.Failure == nil) || len(d.Targets) != len(again.Targets) {
			t.Fatalf("two answers: %+v and %+v", d, again)
		}
		if d.Failure != nil {
			if d.Failure.Message == "" || d.Failure.Reason == "" || len(d.Targets) > 0 {
				t.Fatalf("a failure without reason, or with targets: %+v", d)
			}
			return
		}
		divided := p.ReplicaScheduling != nil && p.ReplicaScheduling.ReplicaSchedulingType != policyv1alpha1.ReplicaSchedulingTypeDuplicated
		if workload && divided && sum(d.Targets) != int64(replicas) {
			t.Fatalf("%d replicas wanted, placed %v", replicas, d.Targets)
		}
	})
}
