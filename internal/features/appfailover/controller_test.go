package appfailover

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/eviction"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// world is a control plane in memory with one binding in cluster a.
type world struct {
	*testing.T
	hub       *fleettest.Memory
	clock     *testingclock.FakeClock
	mover     *mover
	published []events.Event
}

func begin(t *testing.T, objects ...client.Object) *world {
	w := &world{T: t, hub: fleettest.InMemory(t, nil, objects...), clock: testingclock.NewFakeClock(now)}
	w.restart()
	return w
}

func (w *world) restart() {
	w.mover = newMover(Deps{Client: w.hub.Client, Clock: w.clock, EvictionRate: eviction.NewRate(func() float64 { return 0 }, w.clock, nil), Events: events.RecorderFunc(func(e events.Event) { w.published = append(w.published, e) })})
	w.mover.presence.since(w.clock.Now())
}

// pass advances the clock second by second, as for a process that runs.
func (w *world) pass(d time.Duration) {
	for range d / time.Second {
		w.clock.Step(time.Second)
		w.mover.presence.since(w.clock.Now())
	}
}

func (w *world) reconcile() (*workv1alpha2.ResourceBinding, time.Duration) {
	w.Helper()
	key := client.ObjectKeyFromObject(bindingIn())
	result, err := w.mover.Reconcile(w.Context(), reconcile.Request{NamespacedName: key})
	if err != nil {
		w.Fatal(err)
	}
	b := &workv1alpha2.ResourceBinding{}
	if err := w.hub.Client.Get(w.Context(), key, b); err != nil {
		w.Fatal(err)
	}
	return b, result.RequeueAfter
}

func unhealthyIn(cluster string) *workv1alpha2.ResourceBinding {
	b := bindingIn(cluster)
	report(b, cluster, workv1alpha2.ResourceUnhealthy, "")
	return b
}

func TestAnUnhealthyApplicationLeaves(t *testing.T) {
	w := begin(t, unhealthyIn("a"))
	if b, again := w.reconcile(); len(b.Spec.GracefulEvictionTasks) > 0 || again != time.Minute || w.hub.Writes > 0 {
		t.Fatalf("tasks %v, again in %v, %d writes", b.Spec.GracefulEvictionTasks, again, w.hub.Writes)
	}
	w.pass(time.Minute)
	b, _ := w.reconcile()
	if len(b.Spec.GracefulEvictionTasks) != 1 || w.hub.Writes != 1 {
		t.Fatalf("after the time: tasks %v, %d writes", b.Spec.GracefulEvictionTasks, w.hub.Writes)
	}
	if len(w.published) != 2 || w.published[0].Reason != events.EvictWorkloadFromClusterSucceed || w.published[1].Object.Kind != "Deployment" {
		t.Errorf("events %v", w.published)
	}
	if w.reconcile(); w.hub.Writes != 1 {
		t.Error("another reconcile writes")
	}
}

func TestTheTimeBeginsAgainAfterARecovery(t *testing.T) {
	w := begin(t, unhealthyIn("a"))
	w.reconcile()
	w.pass(50 * time.Second)
	set := func(health workv1alpha2.ResourceHealth) {
		b, _ := w.reconcile()
		b.Status.AggregatedStatus[0].Health = health
		if err := w.hub.Client.Update(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	set(workv1alpha2.ResourceHealthy)
	w.reconcile()
	set(workv1alpha2.ResourceUnhealthy)
	if b, again := w.reconcile(); len(b.Spec.GracefulEvictionTasks) > 0 || again != time.Minute {
		t.Errorf("tasks %v, again in %v", b.Spec.GracefulEvictionTasks, again)
	}
}

// TestAnApplicationThatReturnsStaysForAWhile: it is placed in the cluster again as soon as each eviction is finished, as a copy in every cluster is.
func TestAnApplicationThatReturnsStaysForAWhile(t *testing.T) {
	b := unhealthyIn("a")
	b.Spec.Failover.Application.DecisionConditions.TolerationSeconds = ptr.To(int32(0))
	w := begin(t, b)
	w.pass(observation)
	evictions := 0
	for range 20 * 60 {
		if b, again := w.reconcile(); len(b.Spec.GracefulEvictionTasks) > 0 {
			evictions++
			b.Spec.GracefulEvictionTasks = nil
			if err := w.hub.Client.Update(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		} else if again <= 0 || again > returnPause {
			t.Fatalf("again in %v", again)
		}
		w.pass(time.Second)
	}
	if want := int(20 * time.Minute / returnPause); evictions != want {
		t.Errorf("%d evictions in 20 minutes, want %d", evictions, want)
	}
}

// degradedWork is the Work of the binding in a, degraded for some time.
func degradedWork(ago time.Duration) *workv1alpha1.Work {
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: workv1alpha1.ExecutionNamespace("a"), Name: workv1alpha1.WorkName("Deployment", "shop", "web"),
		Annotations: map[string]string{workv1alpha2.ResourceBindingNamespaceAnnotation: "shop", workv1alpha2.ResourceBindingNameAnnotation: "web-deployment"}}}
	condition := metav1.Condition{Type: workv1alpha1.WorkDegraded, Status: metav1.ConditionTrue, Reason: "x", LastTransitionTime: metav1.NewTime(now.Add(-ago))}
	meta.SetStatusCondition(&work.Status.Conditions, condition)
	return work
}

func TestTheTimeSurvivesARestart(t *testing.T) {
	tests := map[string]struct {
		mode clusterv1alpha1.ClusterSyncMode
		ago  time.Duration
		want time.Duration
	}{
		"Push":              {clusterv1alpha1.Push, 10 * time.Second, 50 * time.Second},
		"LongAgo":           {clusterv1alpha1.Push, time.Hour, observation},
		"ClockOfAnAgent":    {clusterv1alpha1.Pull, time.Hour, time.Minute},
		"AClockThatIsAhead": {clusterv1alpha1.Push, -time.Hour, time.Minute},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: clusterv1alpha1.ClusterSpec{SyncMode: test.mode}}
			w := begin(t, unhealthyIn("a"), cluster, degradedWork(test.ago))
			if _, again := w.reconcile(); again != test.want {
				t.Errorf("again in %v, want %v", again, test.want)
			}
			w.pass(test.want)
			if b, _ := w.reconcile(); len(b.Spec.GracefulEvictionTasks) != 1 {
				t.Errorf("after that time: tasks %v", b.Spec.GracefulEvictionTasks)
			}
		})
	}
}

func TestAPauseIsNotATimeOfObservation(t *testing.T) {
	w := begin(t, unhealthyIn("a"))
	w.reconcile()
	w.clock.Step(time.Hour) // the process was stopped
	if b, again := w.reconcile(); len(b.Spec.GracefulEvictionTasks) > 0 || again != observation {
		t.Errorf("after a pause: tasks %v, again in %v", b.Spec.GracefulEvictionTasks, again)
	}
}

func TestOnlyBindingsWithApplicationFailoverCount(t *testing.T) {
	with, without := bindingIn("a"), bindingIn("a")
	without.Spec.Failover = nil
	p := concerned()
	if !p.Create(event.CreateEvent{Object: with}) || p.Create(event.CreateEvent{Object: without}) ||
		!p.Update(event.UpdateEvent{ObjectOld: with, ObjectNew: without}) || p.Update(event.UpdateEvent{ObjectOld: without, ObjectNew: without}) {
		t.Error("the wrong bindings count")
	}
	w := begin(t, without)
	w.mover.storeUnhealthy(client.ObjectKeyFromObject(without), map[string]time.Time{"a": now})
	if w.reconcile(); len(w.mover.unhealthy) > 0 {
		t.Error("a binding without application failover is kept")
	}
}
