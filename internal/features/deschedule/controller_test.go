package deschedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

var now = time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC)

// web is the binding of a Deployment with 4 replicas in a and 2 in b, of which some are ready.
func web(readyInA int) *workv1alpha2.ResourceBinding {
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-deployment",
		Annotations: map[string]string{policyv1alpha1.DescheduleAnnotation: "true"}}}
	b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"}
	b.Spec.Placement = &policyv1alpha1.Placement{ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided, ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceAggregated}}
	b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "a", Replicas: 4}, {Name: "b", Replicas: 2}}
	for cluster, ready := range map[string]int{"a": readyInA, "b": 2} {
		b.Status.AggregatedStatus = append(b.Status.AggregatedStatus, workv1alpha2.AggregatedStatusItem{
			ClusterName: cluster, Applied: true, Status: &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"readyReplicas": %d}`, ready)}})
	}
	return b
}

func TestReplicasThatCannotRunAreLimited(t *testing.T) {
	static := &policyv1alpha1.ReplicaSchedulingStrategy{ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided,
		ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceWeighted}
	tests := map[string]struct {
		ready  int
		stuck  map[string]int // pods by cluster
		change func(*workv1alpha2.ResourceBinding)
		want   map[string]int32
	}{
		"some":                    {1, map[string]int{"a": 3}, nil, map[string]int32{"a": 1}},
		"all":                     {0, map[string]int{"a": 4}, nil, map[string]int32{"a": 0}},
		"in both clusters":        {2, map[string]int{"a": 2, "b": 5}, nil, map[string]int32{"a": 2}},
		"ready ones stay":         {3, map[string]int{"a": 4}, nil, map[string]int32{"a": 3}},
		"no target":               {4, map[string]int{"c": 4}, nil, nil},
		"without the annotation":  {1, map[string]int{"a": 3}, func(b *workv1alpha2.ResourceBinding) { b.Annotations = nil }, nil},
		"divided by fixed shares": {1, map[string]int{"a": 3}, func(b *workv1alpha2.ResourceBinding) { b.Spec.Placement.ReplicaScheduling = static }, nil},
		"duplicated":              {1, map[string]int{"a": 3}, func(b *workv1alpha2.ResourceBinding) { b.Spec.Placement = nil }, nil},
		"another object of that name": {1, map[string]int{"a": 3}, func(b *workv1alpha2.ResourceBinding) {
			b.Spec.Resource.APIVersion = "example.com/v1"
		}, nil},
		"not scheduled at this generation": {1, map[string]int{"a": 3}, func(b *workv1alpha2.ResourceBinding) { b.Generation = 2 }, nil},
		"scheduling is suspended": {1, map[string]int{"a": 3}, func(b *workv1alpha2.ResourceBinding) {
			b.Spec.Suspension = &workv1alpha2.Suspension{Scheduling: ptr.To(true)}
		}, nil},
		"it leaves a cluster": {1, map[string]int{"a": 3}, func(b *workv1alpha2.ResourceBinding) {
			b.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{{FromCluster: "c"}}
		}, nil},
		"nothing is reported": {1, map[string]int{"a": 3}, func(b *workv1alpha2.ResourceBinding) { b.Status.AggregatedStatus = nil }, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := web(test.ready)
			if test.change != nil {
				test.change(b)
			}
			hub, clock := fleettest.InMemory(t, nil, b), testingclock.NewFakeClock(now)
			var published []events.Event
			d := newDescheduler(Deps{Config: defaults, Client: hub.Client, Clock: clock, Events: events.RecorderFunc(func(e events.Event) { published = append(published, e) }),
				Unplaced: func(visit func(string, types.NamespacedName, types.UID)) {
					for cluster, n := range test.stuck {
						for i := range n {
							visit(cluster, types.NamespacedName{Namespace: "shop", Name: "web"}, types.UID(fmt.Sprint(cluster, i)))
							visit(cluster, types.NamespacedName{Namespace: "shop", Name: "unknown"}, types.UID(fmt.Sprint("u", cluster, i)))
						}
					}
				}})
			limits := func() map[string]int32 {
				if err := d.check(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := hub.Client.Get(t.Context(), client.ObjectKeyFromObject(b), b); err != nil {
					t.Fatal(err)
				}
				out := map[string]int32{}
				for cluster, limit := range workv1alpha2.ReplicaLimits(b, clock.Now()) {
					out[cluster] = limit.Replicas
				}
				return out
			}
			for range 5 {
				if got := limits(); len(got) > 0 {
					t.Fatalf("too early: %v", got)
				}
				clock.Step(time.Minute)
			}
			if diff := cmp.Diff(test.want, limits(), cmpopts.EquateEmpty()); diff != "" || (len(published) > 0) != (len(test.want) > 0) {
				t.Errorf("events %v, limits (-want +got):\n%s", published, diff)
			}
			writes := hub.Writes
			if limits(); hub.Writes != writes {
				t.Error("a second check writes")
			}
			clock.Step(hold)
			test.stuck = nil
			if got := limits(); len(got) > 0 || len(d.since) > 0 {
				t.Errorf("after the time of the limits: %v, kept %v", got, d.since)
			}
		})
	}
}

// TestAgentsReportPods: the pods of a cluster in Pull mode count as its agent reports them, while it is known to be ready.
func TestAgentsReportPods(t *testing.T) {
	ready, unknown := clusterv1alpha1.Ready(), clusterv1alpha1.ReadinessUnknown(clusterv1alpha1.ClusterStatusUnknownReason, "")
	for name, test := range map[string]struct {
		reason string
		mode   clusterv1alpha1.ClusterSyncMode
		ready  metav1.Condition
		want   map[string]int32
	}{
		"pull":  {"three of four replicas cannot run", clusterv1alpha1.Pull, ready, map[string]int32{"a": 1}},
		"push":  {"the report is that of a former agent", clusterv1alpha1.Push, ready, nil},
		"stale": {"the agent does not report any more", clusterv1alpha1.Pull, unknown, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b, cluster := web(1), &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: clusterv1alpha1.ClusterSpec{SyncMode: test.mode}}
			cluster.Status.Conditions = []metav1.Condition{test.ready}
			report := &fleetv1alpha1.ClusterCapacity{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Unplaced: []fleetv1alpha1.UnplacedPods{
				{Namespace: "shop", Name: "unknown", Pods: []string{"0"}}, {Namespace: "shop", Name: "web", Pods: []string{"1", "2", "3"}},
			}}
			hub, clock := fleettest.InMemory(t, nil, b, cluster, report), testingclock.NewFakeClock(now)
			d := newDescheduler(Deps{Config: defaults, Client: hub.Client, Clock: clock, Events: events.RecorderFunc(func(events.Event) {}),
				Unplaced: func(func(string, types.NamespacedName, types.UID)) {}})
			for range 2 {
				if err := d.check(t.Context()); err != nil {
					t.Fatal(err)
				}
				clock.Step(d.Threshold)
			}
			if err := hub.Client.Get(t.Context(), client.ObjectKeyFromObject(b), b); err != nil {
				t.Fatal(err)
			}
			got := map[string]int32{}
			for cluster, limit := range workv1alpha2.ReplicaLimits(b, now) {
				got[cluster] = limit.Replicas
			}
			if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.reason, diff)
			}
		})
	}
}

func defaults() Config { return Config{} }
