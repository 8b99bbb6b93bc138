package compose

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

func TestPlan(t *testing.T) {
	evict := func(cluster string, mode policyv1alpha1.PurgeMode) workv1alpha2.GracefulEvictionTask {
		return workv1alpha2.GracefulEvictionTask{FromCluster: cluster, PurgeMode: mode}
	}
	cases := map[string]struct {
		reason  string
		edit    func(*workv1alpha2.ResourceBinding)
		wants   []string
		purging []string
		delete  bool
	}{
		"Scheduled": {"the targets, and nothing else, may stay", nil, []string{"m1", "m2"}, nil, true},
		"NeverScheduled": {"no targets may mean that the binding is not scheduled yet",
			func(b *workv1alpha2.ResourceBinding) {
				b.Spec.Clusters, b.Status.SchedulerObservedGeneration = nil, 0
			}, nil, nil, false},
		"NothingFits": {"no targets after scheduling means that there are none",
			func(b *workv1alpha2.ResourceBinding) { b.Spec.Clusters = nil }, nil, nil, true},
		"Attached": {"clusters of dependants count, each once",
			func(b *workv1alpha2.ResourceBinding) {
				b.Spec.Placement, b.Spec.Clusters, b.Status.SchedulerObservedGeneration = nil, nil, 0
				b.Spec.RequiredBy = []workv1alpha2.BindingSnapshot{{Clusters: targets("m3", "m1")}, {Clusters: targets("m1")}}
			}, []string{"m3", "m1"}, nil, true},
		"Draining": {"a copy that leaves gracefully, or is left to a person, stays",
			func(b *workv1alpha2.ResourceBinding) {
				b.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{
					evict("m3", policyv1alpha1.PurgeModeGracefully), evict("m4", policyv1alpha1.PurgeModeNever), evict("m5", "")}
			}, []string{"m1", "m2", "m3", "m4", "m5"}, nil, true},
		"Purging": {"a copy that is purged goes first",
			func(b *workv1alpha2.ResourceBinding) {
				b.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{evict("m3", policyv1alpha1.PurgeModeDirectly)}
			}, []string{"m1", "m2"}, []string{"m3"}, true},
		"Paused": {"nothing moves while dispatching is suspended",
			func(b *workv1alpha2.ResourceBinding) {
				yes := true
				b.Spec.Suspension = &workv1alpha2.Suspension{Suspension: policyv1alpha1.Suspension{Dispatching: &yes}}
			}, []string{"m1", "m2", "m3", "m4", "m5"}, nil, true},
		"PausedInOne": {"nothing moves out of a cluster while dispatching to it is suspended",
			func(b *workv1alpha2.ResourceBinding) {
				b.Spec.Suspension = &workv1alpha2.Suspension{Suspension: policyv1alpha1.Suspension{
					DispatchingOnClusters: &policyv1alpha1.SuspendClusters{ClusterNames: []string{"m4"}}}}
			}, []string{"m1", "m2", "m4"}, nil, true},
		"PurgedAndBack": {"a cluster that was chosen again is a target like any other",
			func(b *workv1alpha2.ResourceBinding) {
				b.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{evict("m2", policyv1alpha1.PurgeModeDirectly)}
			}, []string{"m1", "m2"}, nil, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			binding := nginxBinding("m1", "m2")
			if tc.edit != nil {
				tc.edit(binding)
			}
			p := PlanFor(binding)
			for _, name := range []string{"m1", "m2", "m3", "m4", "m5"} {
				if got := p.Wants(name); got != slices.Contains(tc.wants, name) {
					t.Errorf("%s: wants(%s) = %v", tc.reason, name, got)
				}
				if p.Purging[name] != slices.Contains(tc.purging, name) {
					t.Errorf("%s: purging[%s] = %v", tc.reason, name, p.Purging[name])
				}
			}
			if p.MayDelete != tc.delete {
				t.Errorf("%s: mayDelete = %v", tc.reason, p.MayDelete)
			}
		})
	}
}

func TestAwaitsScheduler(t *testing.T) {
	cases := map[string]struct {
		reason string
		edit   func(*workv1alpha2.ResourceBinding)
		want   bool
	}{
		"UpToDate":     {"numbers add up", func(*workv1alpha2.ResourceBinding) {}, false},
		"Scaled":       {"new numbers are on their way", func(b *workv1alpha2.ResourceBinding) { b.Spec.Replicas++ }, true},
		"DoesNotFit":   {"the scheduler looked and left it", func(b *workv1alpha2.ResourceBinding) { b.Spec.Replicas++; b.Generation = 2 }, false},
		"NotScheduled": {"there is nothing to wait with", func(b *workv1alpha2.ResourceBinding) { b.Spec.Clusters = nil }, false},
		"Suspended": {"the scheduler will not look", func(b *workv1alpha2.ResourceBinding) {
			b.Spec.Replicas++
			b.Spec.Suspension = &workv1alpha2.Suspension{Scheduling: new(true)}
		}, false},
		"Duplicated": {"every target has to have all", func(b *workv1alpha2.ResourceBinding) { b.Spec.Placement.ReplicaScheduling = nil }, true},
		"NoWorkload": {"there are no numbers", func(b *workv1alpha2.ResourceBinding) { b.Spec.Replicas = 0 }, false},
		"Attached":   {"it has no placement", func(b *workv1alpha2.ResourceBinding) { b.Spec.Replicas++; b.Spec.Placement = nil }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			binding := nginxBinding("m1", "m2")
			binding.Generation = 3
			tc.edit(binding)
			if got := AwaitsScheduler(binding); got != tc.want {
				t.Errorf("got %v: %s", got, tc.reason)
			}
		})
	}
}

func TestDivide(t *testing.T) {
	votes := func(replicas ...int32) []workv1alpha2.TargetCluster {
		out := make([]workv1alpha2.TargetCluster, len(replicas))
		for i, n := range replicas {
			out[i] = workv1alpha2.TargetCluster{Name: string(rune('a' + i)), Replicas: n}
		}
		return out
	}
	cases := map[string]struct {
		n        int64
		clusters []workv1alpha2.TargetCluster
		uid      types.UID
		want     map[string]int64
	}{
		"InProportion":     {10, votes(3, 2), "", map[string]int64{"a": 6, "b": 4}},
		"TieByName":        {3, votes(1, 1), "", map[string]int64{"a": 2, "b": 1}},
		"TieByOddTemplate": {3, votes(1, 1), "a", map[string]int64{"a": 2, "b": 1}},
		"TieByEven":        {3, votes(1, 1), "b", map[string]int64{"a": 1, "b": 2}},
		"Nothing":          {3, votes(0, 0), "", map[string]int64{"a": 0, "b": 0}},
		"Millions":         {2_000_000_001, votes(1, 1, 2), "", map[string]int64{"a": 500_000_000, "b": 500_000_000, "c": 1_000_000_001}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, divide(tc.n, tc.clusters, tc.uid)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	// The shortcut for large numbers must not change any result.
	for n := int64(0); n < 200; n++ {
		sum := int64(0)
		previous := divide(max(n-1, 0), votes(7, 1, 4, 4), "")
		for name, seats := range divide(n, votes(7, 1, 4, 4), "") {
			sum += seats
			if seats < previous[name] {
				t.Errorf("%s falls from %d to %d when the total grows to %d", name, previous[name], seats, n)
			}
		}
		if sum != n {
			t.Errorf("%d seats were handed out of %d", sum, n)
		}
	}
}

func TestShareCompletions(t *testing.T) {
	job := parse(t, "{apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: default}, spec: {completions: 10, parallelism: 5}}")
	binding := nginxBinding("m1", "m2")
	if diff := cmp.Diff(map[string]int64{"m1": 4, "m2": 6}, ShareCompletions(job, &binding.Spec)); diff != "" {
		t.Errorf("a divided Job (-want +got):\n%s", diff)
	}
	binding.Spec.Placement.ReplicaScheduling = nil
	if got := ShareCompletions(job, &binding.Spec); got != nil {
		t.Errorf("a duplicated Job got %v, want nil", got)
	}
	if got := ShareCompletions(parse(t, nginx), &nginxBinding("m1").Spec); got != nil {
		t.Errorf("a Deployment got %v, want nil", got)
	}
}
