package eviction

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

var now = time.Unix(1_800_000_000, 0)

const timeout = 10 * time.Minute

// binding is one that the scheduler has placed in targets, with 2 replicas in each.
func binding(targets ...string) *workv1alpha2.ResourceBinding {
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-deployment", Generation: 3}}
	for _, name := range targets {
		b.Spec.Clusters = append(b.Spec.Clusters, workv1alpha2.TargetCluster{Name: name, Replicas: 2})
	}
	b.Status.SchedulerObservedGeneration = 3
	b.Status.Conditions = []metav1.Condition{workv1alpha2.ScheduledCondition(3, "")}
	return b
}

func report(b *workv1alpha2.ResourceBinding, cluster string, health workv1alpha2.ResourceHealth) {
	b.Status.AggregatedStatus = append(b.Status.AggregatedStatus, workv1alpha2.AggregatedStatusItem{ClusterName: cluster, Health: health})
}

func TestAppend(t *testing.T) {
	created := metav1.NewTime(now).Rfc3339Copy()
	cases := map[string]struct {
		order Order
		want  *workv1alpha2.GracefulEvictionTask
	}{
		"Default": {
			Order{Cluster: "a", Reason: "TaintUntolerated", Producer: "TaintManager", GracePeriodSeconds: ptr.To(int32(60))},
			&workv1alpha2.GracefulEvictionTask{FromCluster: "a", PurgeMode: policyv1alpha1.PurgeModeGracefully, Replicas: ptr.To(int32(2)), Reason: "TaintUntolerated",
				Producer: "TaintManager", GracePeriodSeconds: ptr.To(int32(60)), CreationTimestamp: &created, ClustersBeforeFailover: []string{"a", "b"}},
		},
		"Directly": {
			Order{Cluster: "a", Reason: "X", Producer: "p", PurgeMode: policyv1alpha1.PurgeModeDirectly, GracePeriodSeconds: ptr.To(int32(60)), PreservedLabelState: map[string]string{"k": "v"}},
			&workv1alpha2.GracefulEvictionTask{FromCluster: "a", PurgeMode: policyv1alpha1.PurgeModeDirectly, Replicas: ptr.To(int32(2)), Reason: "X",
				Producer: "p", PreservedLabelState: map[string]string{"k": "v"}, CreationTimestamp: &created, ClustersBeforeFailover: []string{"a", "b"}},
		},
		"Never": {
			Order{Cluster: "b", Reason: "X", Producer: "p", PurgeMode: policyv1alpha1.PurgeModeNever},
			&workv1alpha2.GracefulEvictionTask{FromCluster: "b", PurgeMode: policyv1alpha1.PurgeModeNever, Replicas: ptr.To(int32(2)), Reason: "X",
				Producer: "p", SuppressDeletion: ptr.To(true), CreationTimestamp: &created, ClustersBeforeFailover: []string{"a", "b"}},
		},
		"NoTarget": {Order{Cluster: "c"}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := binding("a", "b")
			if got := Append(&b.Spec, tc.order, now); got != (tc.want != nil) {
				t.Fatalf("Append returned %v", got)
			}
			if diff := cmp.Diff(tc.want, Find(&b.Spec, tc.order.Cluster)); diff != "" {
				t.Error(diff)
			}
			if tc.want != nil && Append(&b.Spec, tc.order, now) {
				t.Error("a second task for the same cluster was appended")
			}
			if len(b.Spec.Clusters) != 2 {
				t.Error("the targets were changed")
			}
		})
	}
}

func TestMessageIsCut(t *testing.T) {
	b := binding("a")
	Append(&b.Spec, Order{Cluster: "a", Message: strings.Repeat("ä", 1000)}, now)
	if got := b.Spec.GracefulEvictionTasks[0].Message; got != strings.Repeat("ä", 512) {
		t.Errorf("the message has %d bytes", len(got))
	}
}

func TestCancel(t *testing.T) {
	b := binding("a", "b")
	Append(&b.Spec, Order{Cluster: "a"}, now)
	if !Cancel(b, "a", now) || Returns(b) != nil || len(b.Spec.GracefulEvictionTasks) != 0 {
		t.Errorf("a task of a cluster that is still a target: %+v, returns %v", b.Spec, Returns(b))
	}
	Append(&b.Spec, Order{Cluster: "a"}, now)
	b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "b", Replicas: 4}}
	if !Cancel(b, "a", now) || Cancel(b, "a", now) {
		t.Error("the task is not cancelled once")
	}
	want := []Return{{Cluster: "a", Replicas: 2, Before: []string{"a", "b"}, At: metav1.NewTime(now).Rfc3339Copy()}}
	if diff := cmp.Diff(want, Returns(b)); diff != "" {
		t.Error(diff)
	}
	SetReturns(b, nil)
	if len(b.Annotations) != 0 {
		t.Errorf("annotations are %v", b.Annotations)
	}
	b.Annotations = map[string]string{workv1alpha2.ReturnsAnnotation: "{"}
	if Returns(b) != nil {
		t.Error("what cannot be read is a return")
	}
}

func TestAssess(t *testing.T) {
	healthy, unhealthy, unknown := workv1alpha2.ResourceHealthy, workv1alpha2.ResourceUnhealthy, workv1alpha2.ResourceUnknown
	type Binding = workv1alpha2.ResourceBinding
	cases := map[string]struct {
		targets []string // besides the task for a, of a binding that was in a
		change  func(*Binding)
		age     time.Duration
		ended   bool
		finish  bool
		why     Why
		again   time.Duration
	}{
		"NothingFits":           {[]string{"a"}, func(b *Binding) { report(b, "a", healthy) }, time.Hour, false, false, NothingFits, 0},
		"EmptyResult":           {nil, func(b *Binding) { report(b, "a", healthy) }, time.Hour, false, false, LastCopy, 0},
		"Replaced":              {[]string{"b"}, func(b *Binding) { report(b, "b", healthy) }, 0, false, true, Replaced, 0},
		"OneOfTwoHealthy":       {[]string{"b", "c"}, func(b *Binding) { report(b, "b", healthy) }, time.Minute, false, false, AwaitsCopies, 9 * time.Minute},
		"OneOfTwoHealthyInTime": {[]string{"b", "c"}, func(b *Binding) { report(b, "b", healthy) }, timeout, false, true, Expired, 0},
		"NoneHealthy":           {[]string{"b"}, func(b *Binding) { report(b, "a", healthy); report(b, "b", unhealthy) }, timeout, false, false, LastCopy, 0},
		"NoneHealthyFromDead":   {[]string{"b"}, func(b *Binding) { report(b, "a", unknown) }, timeout, false, false, LastCopy, 0},
		"NothingReports": {[]string{"b"}, func(b *Binding) {
			report(b, "a", unknown)
			report(b, "b", unknown)
			b.Status.AggregatedStatus[1].Applied = true
		}, 0, false, true, Replaced, 0},
		"NotKnownAnyMore": {[]string{"b"}, func(b *Binding) {
			report(b, "b", unknown)
			b.Status.AggregatedStatus[0].Applied, b.Status.AggregatedStatus[0].Status = true, &runtime.RawExtension{Raw: []byte(`{"replicas":1}`)}
		}, timeout, false, false, LastCopy, 0},
		"NoneHealthyNorThis": {[]string{"b"}, func(b *Binding) { report(b, "a", unhealthy) }, timeout, false, true, Expired, 0},
		"OwnGracePeriod": {[]string{"b", "c"}, func(b *Binding) {
			report(b, "b", healthy)
			b.Spec.GracefulEvictionTasks[0].GracePeriodSeconds = ptr.To(int32(30))
		}, 30 * time.Second, false, true, Expired, 0},
		"OlderDecision": {[]string{"b"}, func(b *Binding) { report(b, "b", healthy); b.Generation++ }, 0, false, false, AwaitsCopies, timeout},
		"SomeReplicasWithoutPlace": {[]string{"b"}, func(b *Binding) {
			report(b, "b", healthy)
			b.Status.Conditions = []metav1.Condition{workv1alpha2.NotScheduledCondition(3, "Unschedulable", "")}
		}, 0, false, false, AwaitsCopies, timeout},
		"Suppressed": {[]string{"b"}, func(b *Binding) {
			report(b, "b", healthy)
			b.Spec.GracefulEvictionTasks[0].SuppressDeletion = ptr.To(true)
		}, time.Hour, false, false, Suppressed, 0},
		"Requested":        {[]string{"b"}, func(b *Binding) { b.Spec.GracefulEvictionTasks[0].SuppressDeletion = ptr.To(false) }, 0, false, true, Requested, 0},
		"WithoutTimestamp": {[]string{"b"}, func(b *Binding) { b.Spec.GracefulEvictionTasks[0].CreationTimestamp = nil }, time.Hour, false, false, AwaitsCopies, timeout},
		"Directly":         {[]string{"b"}, func(b *Binding) { b.Spec.GracefulEvictionTasks[0].PurgeMode = policyv1alpha1.PurgeModeDirectly }, timeout, false, true, Expired, 0},
		"Exclusive": {[]string{"b"}, func(b *Binding) {
			b.Annotations = map[string]string{policyv1alpha1.HandoverAnnotation: policyv1alpha1.HandoverExclusive}
		},
			time.Hour, false, false, AwaitsEnd, 0},
		"ExclusiveEnded": {[]string{"b"}, func(b *Binding) {
			b.Annotations = map[string]string{policyv1alpha1.HandoverAnnotation: policyv1alpha1.HandoverExclusive}
		},
			0, true, true, Replaced, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := binding("a")
			Append(&b.Spec, Order{Cluster: "a"}, now.Add(-tc.age))
			b.Spec.Clusters = binding(tc.targets...).Spec.Clusters
			if tc.change != nil {
				tc.change(b)
			}
			verdicts := Assess(b, State{Now: now, Timeout: timeout, Ended: func(string) bool { return tc.ended }})
			if len(verdicts) != 1 {
				t.Fatalf("%d verdicts", len(verdicts))
			}
			v := verdicts[0]
			if v.Finish != tc.finish || v.Why != tc.why || v.Again != tc.again {
				t.Errorf("verdict is %v %s %v, want %v %s %v", v.Finish, v.Why, v.Again, tc.finish, tc.why, tc.again)
			}
		})
	}
}

// FuzzAssess makes random bindings with tasks, and checks that the last copy that may be healthy is not evicted unless a person
// or the purge mode orders it, and that a task which is kept for a time ends with that time.
func FuzzAssess(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3}, []byte{1, 2, 0}, 0, uint8(0))
	f.Add([]byte{1, 2}, []byte{2, 2, 2}, 7000, uint8(3))
	f.Fuzz(func(t *testing.T, targets, healths []byte, age int, flags uint8) {
		name := func(i byte) string { return string(rune('a' + i%5)) }
		b := binding("a", "b", "c")
		for _, cluster := range []string{"a", "b"} {
			Append(&b.Spec, Order{Cluster: cluster, PurgeMode: []policyv1alpha1.PurgeMode{"", "Directly", "Never"}[flags%3]}, now.Add(-time.Duration(age%7200)*time.Second))
		}
		b.Spec.Clusters = nil
		for _, i := range targets {
			if !strings.Contains(names(b), name(i)) {
				b.Spec.Clusters = append(b.Spec.Clusters, workv1alpha2.TargetCluster{Name: name(i)})
			}
		}
		for i, h := range healths {
			report(b, name(byte(i)), []workv1alpha2.ResourceHealth{"", workv1alpha2.ResourceHealthy, workv1alpha2.ResourceUnhealthy, workv1alpha2.ResourceUnknown}[h%4])
		}
		b.Generation += int64(flags >> 3 & 1)
		for _, v := range Assess(b, State{Now: now, Timeout: timeout}) {
			from, some := v.Task.FromCluster, false
			for _, target := range b.Spec.Clusters {
				some = some || target.Name != from && HealthOf(b, target.Name) == workv1alpha2.ResourceHealthy
			}
			graceful := v.Task.PurgeMode == policyv1alpha1.PurgeModeGracefully
			if v.Finish && graceful && !some && HealthOf(b, from) != workv1alpha2.ResourceUnhealthy {
				t.Errorf("the last copy, in %s, is evicted: %+v of %+v", from, v, b)
			}
			if v.Finish && (strings.Contains(names(b), from) || len(b.Spec.Clusters) == 0) {
				t.Errorf("the task of %s is finished though there is no other place", from)
			}
			if v.Again < 0 || v.Finish && v.Again != 0 {
				t.Errorf("verdict %+v", v)
			}
			if v.Again > 0 {
				later := Assess(b, State{Now: now.Add(v.Again), Timeout: timeout})
				for _, l := range later {
					if l.Task.FromCluster == from && l.Why == AwaitsCopies && l.Task.CreationTimestamp != nil {
						t.Errorf("the task of %s still awaits copies after its time", from)
					}
				}
			}
		}
	})
}

func names(b *workv1alpha2.ResourceBinding) (all string) {
	for _, target := range b.Spec.Clusters {
		all += target.Name
	}
	return all
}
