package compose

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/eviction"
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
				if got := p.Keeps(name); got != slices.Contains(tc.wants, name) {
					t.Errorf("%s: Keeps(%s) = %v", tc.reason, name, got)
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

func TestDraining(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	task := func(cluster string, suppress *bool, grace *int32) workv1alpha2.GracefulEvictionTask {
		created := metav1.NewTime(now.Add(-time.Minute))
		return workv1alpha2.GracefulEvictionTask{FromCluster: cluster, SuppressDeletion: suppress, GracePeriodSeconds: grace, CreationTimestamp: &created}
	}
	b := &workv1alpha2.ResourceBinding{}
	b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "m1"}}
	b.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{
		task("m1", nil, nil), task("m2", nil, nil), task("m3", nil, ptr.To(int32(90))), task("m4", ptr.To(true), nil),
	}
	eviction.SetReturns(b, []eviction.Return{{Cluster: "m5"}})
	p := PlanFor(b)
	want := map[string]time.Time{"m2": now.Add(9 * time.Minute), "m3": now.Add(30 * time.Second), "m4": now, "m5": now.Add(10 * time.Minute)}
	if diff := cmp.Diff(want, p.Draining(&b.Spec, now, 10*time.Minute)); diff != "" {
		t.Error(diff)
	}
	for cluster := range want {
		if !p.Keeps(cluster) {
			t.Errorf("the Work in %s does not stay", cluster)
		}
	}
}

func TestAwaitsEnd(t *testing.T) {
	ready, fenced := &clusterv1alpha1.Cluster{}, &clusterv1alpha1.Cluster{}
	ready.Status.Conditions = []metav1.Condition{clusterv1alpha1.Ready()}
	fenced.Status.Conditions = []metav1.Condition{clusterv1alpha1.NotReady("", "")}
	fenced.Annotations = map[string]string{clusterv1alpha1.FencedAnnotation: "2027-01-31T12:00:00Z"}
	old := fenced.DeepCopy()
	old.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC))
	missing := apierrors.NewNotFound(schema.GroupResource{}, "m1")
	exclusive := map[string]string{policyv1alpha1.HandoverAnnotation: policyv1alpha1.HandoverExclusive}
	cases := map[string]struct {
		annotations map[string]string
		cluster     *clusterv1alpha1.Cluster
		err         error
		works       string // the cluster with a Work
		want        bool
	}{
		"Shared":      {nil, ready, nil, "m1", false},
		"Exclusive":   {exclusive, ready, nil, "m1", true},
		"Fenced":      {exclusive, fenced, nil, "m1", false},
		"FencedOnce":  {exclusive, old, nil, "m1", true},
		"Gone":        {exclusive, nil, missing, "m1", false},
		"OfTheTarget": {exclusive, ready, nil, "m2", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := &workv1alpha2.ResourceBinding{}
			b.Annotations = tc.annotations
			b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "m2"}}
			works := []*workv1alpha1.Work{{}}
			works[0].Namespace = workv1alpha1.ExecutionNamespace(tc.works)
			got, err := PlanFor(b).AwaitsEnd(b, works, func(_ string, c *clusterv1alpha1.Cluster) error {
				if tc.cluster != nil {
					tc.cluster.DeepCopyInto(c)
				}
				return tc.err
			})
			if err != nil || got != tc.want {
				t.Errorf("got %v, %v, want %v", got, err, tc.want)
			}
		})
	}
}

func TestKeptReplicas(t *testing.T) {
	b := &workv1alpha2.ResourceBinding{}
	b.Spec.Replicas = 4
	b.Spec.Placement = &policyv1alpha1.Placement{ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided}}
	work := func(manifest string) *workv1alpha1.Work {
		w := &workv1alpha1.Work{}
		w.SetManifest([]byte(manifest))
		return w
	}
	returning := b.DeepCopy()
	eviction.SetReturns(returning, []eviction.Return{{Cluster: "m2"}})
	cases := map[string]struct {
		binding  *workv1alpha2.ResourceBinding
		cluster  string
		existing *workv1alpha1.Work
		want     int32
	}{
		"Settled":    {b, "m1", work(`{"spec":{"replicas":4}}`), 2},
		"Returning":  {returning, "m1", work(`{"spec":{"replicas":4}}`), 4},
		"Grows":      {returning, "m1", work(`{"spec":{"replicas":1}}`), 2},
		"ScaledDown": {returning, "m1", work(`{"spec":{"replicas":9}}`), 4},
		"Itself":     {returning, "m2", work(`{"spec":{"replicas":4}}`), 2},
		"New":        {returning, "m1", nil, 2},
		"OtherKind":  {returning, "m1", work(`{"spec":{"replicas":"many"}}`), 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			q := Request{Binding: tc.binding, Existing: tc.existing, Target: Target{workv1alpha2.TargetCluster{Name: tc.cluster, Replicas: 2}, true}}
			if got := KeptReplicas(q); got != tc.want {
				t.Errorf("%d replicas, want %d", got, tc.want)
			}
		})
	}
}
