package appfailover

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

var now = time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC)

// bindingIn is a binding with application failover after a minute, whose object is in clusters.
func bindingIn(clusters ...string) *workv1alpha2.ResourceBinding {
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-deployment"}}
	b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"}
	b.Spec.Failover = &policyv1alpha1.FailoverBehavior{Application: &policyv1alpha1.ApplicationFailoverBehavior{
		PurgeMode: policyv1alpha1.PurgeModeGracefully, DecisionConditions: policyv1alpha1.DecisionConditions{TolerationSeconds: ptr.To(int32(60))}}}
	for _, name := range clusters {
		b.Spec.Clusters = append(b.Spec.Clusters, workv1alpha2.TargetCluster{Name: name, Replicas: 2})
	}
	return b
}

func report(b *workv1alpha2.ResourceBinding, cluster string, health workv1alpha2.ResourceHealth, status string) {
	item := workv1alpha2.AggregatedStatusItem{ClusterName: cluster, Health: health}
	if status != "" {
		item.Status = &runtime.RawExtension{Raw: []byte(status)}
	}
	b.Status.AggregatedStatus = append(b.Status.AggregatedStatus, item)
}

func TestDecide(t *testing.T) {
	const unhealthy, healthy, unknown = workv1alpha2.ResourceUnhealthy, workv1alpha2.ResourceHealthy, workv1alpha2.ResourceUnknown
	type Binding = workv1alpha2.ResourceBinding
	state := func(b *Binding) {
		b.Spec.Failover.Application.StatePreservation = &policyv1alpha1.StatePreservation{
			Rules: []policyv1alpha1.StatePreservationRule{{AliasLabelName: "example.com/job", JSONPath: "{.job}"}}}
	}
	task := func(cluster string, mode policyv1alpha1.PurgeMode, producer string) workv1alpha2.GracefulEvictionTask {
		return workv1alpha2.GracefulEvictionTask{FromCluster: cluster, PurgeMode: mode, Producer: producer, Reason: "ApplicationFailure"}
	}
	const ours = "resource-binding-application-failover-controller"
	tests := map[string]struct {
		targets []string
		change  func(*Binding)
		since   time.Duration // for how long it is unhealthy in a
		present time.Duration // for how long this process observes; an hour if 0
		over    bool          // the rate
		volumes bool
		want    []workv1alpha2.GracefulEvictionTask
		again   time.Duration
		wrong   string
	}{
		"TooLong": {targets: []string{"a", "b"}, change: func(b *Binding) { report(b, "a", unhealthy, "") }, since: time.Minute, want: []workv1alpha2.GracefulEvictionTask{{
			FromCluster: "a", PurgeMode: "Gracefully", Replicas: ptr.To(int32(2)), Reason: "ApplicationFailure", Producer: ours,
			Message:                "the application is unhealthy in cluster a for more than 1m0s",
			ClustersBeforeFailover: []string{"a", "b"}, CreationTimestamp: &metav1.Time{Time: now}}}},
		"NotLongEnough": {targets: []string{"a"}, change: func(b *Binding) { report(b, "a", unhealthy, "") }, since: 20 * time.Second, again: 40 * time.Second},
		"DefaultToleration": {targets: []string{"a"}, change: func(b *Binding) {
			report(b, "a", unhealthy, "")
			b.Spec.Failover.Application.DecisionConditions.TolerationSeconds = nil
		}, since: time.Minute, again: 4 * time.Minute},
		"Healthy":        {targets: []string{"a"}, change: func(b *Binding) { report(b, "a", healthy, "") }},
		"Unknown":        {targets: []string{"a"}, change: func(b *Binding) { report(b, "a", unknown, "") }},
		"NothingReports": {targets: []string{"a"}, change: func(*Binding) {}},
		"NoTarget":       {targets: []string{"b"}, change: func(b *Binding) { report(b, "a", unhealthy, "") }},
		"AfterAStart":    {targets: []string{"a"}, change: func(b *Binding) { report(b, "a", unhealthy, "") }, since: time.Hour, present: 10 * time.Second, again: 20 * time.Second},
		"OverTheRate":    {targets: []string{"a"}, change: func(b *Binding) { report(b, "a", unhealthy, "") }, since: time.Hour, over: true, again: time.Second},
		"Directly": {targets: []string{"a"}, change: func(b *Binding) {
			report(b, "a", unhealthy, `{"job": "j7"}`)
			b.Spec.Failover.Application.PurgeMode = policyv1alpha1.PurgeModeDirectly
			state(b)
		}, since: time.Minute, want: []workv1alpha2.GracefulEvictionTask{{
			FromCluster: "a", PurgeMode: "Directly", Replicas: ptr.To(int32(2)), Reason: "ApplicationFailure", Producer: ours,
			Message: "the application is unhealthy in cluster a for more than 1m0s", PreservedLabelState: map[string]string{"example.com/job": "j7"},
			ClustersBeforeFailover: []string{"a"}, CreationTimestamp: &metav1.Time{Time: now}}}},
		"Never": {targets: []string{"a"}, change: func(b *Binding) {
			report(b, "a", unhealthy, "")
			b.Spec.Failover.Application.PurgeMode = policyv1alpha1.PurgeModeNever
		}, since: time.Minute, want: []workv1alpha2.GracefulEvictionTask{{
			FromCluster: "a", PurgeMode: "Never", Replicas: ptr.To(int32(2)), Reason: "ApplicationFailure", Producer: ours, SuppressDeletion: ptr.To(true),
			Message: "the application is unhealthy in cluster a for more than 1m0s", ClustersBeforeFailover: []string{"a"}, CreationTimestamp: &metav1.Time{Time: now}}}},
		"Exclusive": {targets: []string{"a"}, change: func(b *Binding) {
			report(b, "a", unhealthy, "")
			b.Annotations = map[string]string{policyv1alpha1.HandoverAnnotation: policyv1alpha1.HandoverExclusive}
		}, since: time.Minute, want: []workv1alpha2.GracefulEvictionTask{{
			FromCluster: "a", PurgeMode: "Directly", Replicas: ptr.To(int32(2)), Reason: "ApplicationFailure", Producer: ours,
			Message: "the application is unhealthy in cluster a for more than 1m0s", ClustersBeforeFailover: []string{"a"}, CreationTimestamp: &metav1.Time{Time: now}}}},
		"ExclusiveOneByOne": {targets: []string{"a", "b"}, change: func(b *Binding) {
			report(b, "a", unhealthy, "")
			b.Annotations = map[string]string{policyv1alpha1.HandoverAnnotation: policyv1alpha1.HandoverExclusive}
			b.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{task("b", "Directly", ours)}
		}, since: time.Minute, want: []workv1alpha2.GracefulEvictionTask{task("b", "Directly", ours)}},
		"Volumes": {targets: []string{"a"}, change: func(b *Binding) { report(b, "a", unhealthy, "") }, volumes: true,
			since: time.Minute, wrong: "it has persistent volumes, and its policy lacks the annotation flagship.io/handover"},
		"VolumesOneByOne": {targets: []string{"a", "b"}, change: func(b *Binding) {
			report(b, "a", unhealthy, "")
			b.Annotations = map[string]string{policyv1alpha1.HandoverAnnotation: policyv1alpha1.HandoverOverlap}
			b.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{task("b", "Gracefully", "TaintManager")}
		}, volumes: true, since: time.Minute, want: []workv1alpha2.GracefulEvictionTask{task("b", "Gracefully", "TaintManager")}},
		"StateThatCannotBeRead": {targets: []string{"a"}, change: func(b *Binding) { report(b, "a", unhealthy, `{"job": "not a label"}`); state(b) },
			since: time.Minute, again: time.Minute, wrong: "stays in cluster a: statePreservation: rule 0: {.job} yields no label value"},
		"NoState": {targets: []string{"a"}, change: func(b *Binding) { report(b, "a", unhealthy, ""); state(b) },
			since: time.Minute, again: time.Minute, wrong: "has not reported a status"},
		"SchedulingSuspended": {targets: []string{"a"}, change: func(b *Binding) {
			report(b, "a", unhealthy, "")
			b.Spec.Suspension = &workv1alpha2.Suspension{Scheduling: ptr.To(true)}
		}, since: time.Hour},
		"DispatchingSuspendedThere": {targets: []string{"a"}, change: func(b *Binding) {
			report(b, "a", unhealthy, "")
			b.Spec.Suspension = &workv1alpha2.Suspension{}
			b.Spec.Suspension.DispatchingOnClusters = &policyv1alpha1.SuspendClusters{ClusterNames: []string{"a"}}
		}, since: time.Hour},
		"Leaving": {targets: []string{"a"}, change: func(b *Binding) {
			report(b, "a", unhealthy, "")
			b.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{task("a", "Gracefully", ours)}
		}, since: time.Hour, want: []workv1alpha2.GracefulEvictionTask{task("a", "Gracefully", ours)}},
		"RecoversInTime": {targets: []string{"b"}, change: func(b *Binding) {
			report(b, "a", healthy, "")
			b.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{task("a", "Gracefully", ours)}
		}},
		"RecoversInATarget": {targets: []string{"a"}, change: func(b *Binding) {
			report(b, "a", healthy, "")
			b.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{task("a", "Directly", ours)}
		}},
		"RecoversTooLate": {targets: []string{"b"}, change: func(b *Binding) {
			report(b, "a", healthy, "")
			b.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{task("a", "Never", ours), task("a", "Directly", ours)}
		}, want: []workv1alpha2.GracefulEvictionTask{task("a", "Never", ours), task("a", "Directly", ours)}},
		"TasksOfOthers": {targets: []string{"b"}, change: func(b *Binding) {
			report(b, "a", healthy, "")
			b.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{task("a", "Gracefully", "TaintManager")}
		}, want: []workv1alpha2.GracefulEvictionTask{task("a", "Gracefully", "TaintManager")}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := bindingIn(test.targets...)
			test.change(b)
			targets := b.DeepCopy().Spec.Clusters
			since := map[string]time.Time{}
			for _, cluster := range unhealthyTargets(b) {
				since[cluster] = now.Add(-test.since)
			}
			present := now.Add(-time.Hour)
			if test.present != 0 {
				present = now.Add(-test.present)
			}
			delay := func(string) time.Duration {
				if test.over {
					return time.Second
				}
				return 0
			}
			o, err := decide(b, since, now, func(string) time.Time { return present.Add(observation) }, delay, func() (bool, error) { return test.volumes, nil })
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, b.Spec.GracefulEvictionTasks, cmpopts.EquateEmpty()); diff != "" || o.again != test.again {
				t.Errorf("again in %v, tasks (-want +got):\n%s", o.again, diff)
			}
			if (o.held != nil) != (test.wrong != "") || o.held != nil && !strings.Contains(o.held.message, test.wrong) {
				t.Errorf("held by %v, want %q", o.held, test.wrong)
			}
			if !cmp.Equal(targets, b.Spec.Clusters) {
				t.Errorf("the targets are %v", b.Spec.Clusters)
			}
		})
	}
}

func TestARestartedProcessObservesFirst(t *testing.T) {
	p := &presence{}
	at := func(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
	for _, step := range []struct{ now, want int }{{0, 0}, {5, 0}, {20, 0}, {600, 600}, {605, 600}, {500, 500}} {
		if got := p.since(at(step.now)); !got.Equal(at(step.want)) {
			t.Errorf("after %d seconds: since %v, want %v", step.now, got, at(step.want))
		}
	}
}
