package clusterstatus

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// ward is one pulling cluster, its agent, and the loop that watches over it with the times of the contract.
type ward struct {
	*leaseMonitor
	t      *testing.T
	clock  *clocktesting.FakePassiveClock
	client client.Client
	agent  time.Duration // how far the agent's clock is ahead
}

func newWard(t *testing.T) *ward {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(coordinationv1.AddToScheme(scheme), clusterv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "far", UID: "c"}, Spec: clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Pull}}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: clusterv1alpha1.ClusterNamespace, Name: "far"}}
	w := &ward{t: t, clock: clocktesting.NewFakePassiveClock(time.Unix(1_800_000_000, 0))}
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(cluster).WithObjects(cluster, lease).Build()
	w.leaseMonitor = newLeaseMonitor(w.client, LeaseDeps{
		Serves: func(c *clusterv1alpha1.Cluster) bool { return c.Spec.SyncMode == clusterv1alpha1.Push },
		Events: events.RecorderFunc(func(events.Event) {}), Clock: w.clock,
		Periods: func() LeasePeriods {
			return LeasePeriods{Period: 5 * time.Second, Grace: 40 * time.Second, StartupGrace: time.Minute}
		},
	})
	return w
}

func (w *ward) cluster() *clusterv1alpha1.Cluster {
	w.t.Helper()
	c := &clusterv1alpha1.Cluster{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: "far"}, c); err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *ward) renew() {
	w.t.Helper()
	lease := &coordinationv1.Lease{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: clusterv1alpha1.ClusterNamespace, Name: "far"}, lease); err != nil {
		w.t.Fatal(err)
	}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: w.clock.Now().Add(w.agent)}
	if err := w.client.Update(w.t.Context(), lease); err != nil {
		w.t.Fatal(err)
	}
}

func (w *ward) report(ready metav1.Condition) {
	w.t.Helper()
	c := w.cluster()
	meta.SetStatusCondition(&c.Status.Conditions, ready)
	if err := w.client.Status().Update(w.t.Context(), c); err != nil {
		w.t.Fatal(err)
	}
}

// pass lets time go by, with a look every period.
func (w *ward) pass(d time.Duration, each func()) {
	w.t.Helper()
	for end := w.clock.Now().Add(d); w.clock.Now().Before(end); {
		each()
		w.look()
		w.clock.SetTime(w.clock.Now().Add(w.Periods().Period))
	}
	w.look()
}

func (w *ward) look() {
	w.t.Helper()
	result, err := w.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "far"}})
	if err != nil || result.RequeueAfter != w.Periods().Period {
		w.t.Fatalf("looked: %+v, error %v", result, err)
	}
}

func (w *ward) expect(when, reason, taint string) {
	w.t.Helper()
	c := w.cluster()
	got := ""
	if ready := readinessOf(c); ready != nil {
		got = ready.Reason
	}
	tainted := ""
	for _, t := range c.Spec.Taints {
		tainted += t.Key
	}
	if got != reason || tainted != taint {
		w.t.Errorf("%s: Ready says %q and the taint is %q, want %q and %q", when, got, tainted, reason, taint)
	}
}

func nothing() {}

func TestAnAgentWithoutALeaseIsUnknownUntilItRenews(t *testing.T) {
	w := newWard(t)
	w.agent = -time.Hour // a clock that is wrong matters to no one
	w.look()
	w.expect("before the first report", "", clusterv1alpha1.TaintClusterNotReady)
	w.renew()
	w.report(clusterv1alpha1.Ready())
	w.look()
	w.expect("after the first report", clusterv1alpha1.ClusterReadyReason, "")
	w.pass(5*time.Minute, w.renew)
	w.expect("while the lease is renewed", clusterv1alpha1.ClusterReadyReason, "")

	w.pass(30*time.Second, nothing) // the last renewal was a period ago
	w.expect("within the grace period", clusterv1alpha1.ClusterReadyReason, "")
	w.pass(5*time.Second, nothing)
	w.expect("after it", clusterv1alpha1.ClusterStatusUnknownReason, clusterv1alpha1.TaintClusterUnreachable)
	w.pass(5*time.Minute, nothing)
	w.expect("long after it", clusterv1alpha1.ClusterStatusUnknownReason, clusterv1alpha1.TaintClusterUnreachable)

	w.renew()
	w.report(clusterv1alpha1.Ready())
	w.look()
	w.expect("when the agent is back", clusterv1alpha1.ClusterReadyReason, "")
	w.pass(35*time.Second, nothing)
	w.expect("within the grace period from then on", clusterv1alpha1.ClusterReadyReason, "")
}

func TestAnAgentThatNeverReports(t *testing.T) {
	w := newWard(t)
	w.pass(55*time.Second, nothing)
	w.expect("within the grace period of a start", "", clusterv1alpha1.TaintClusterNotReady)
	w.pass(10*time.Second, nothing)
	w.expect("after it", clusterv1alpha1.ClusterStatusNeverUpdatedReason, clusterv1alpha1.TaintClusterUnreachable)
}

func TestAnAgentMayReportThatItsClusterIsNotReady(t *testing.T) {
	w := newWard(t)
	w.report(clusterv1alpha1.NotReady(clusterv1alpha1.ClusterNotReadyReason, "etcd"))
	w.pass(time.Minute, w.renew)
	w.expect("while it renews its lease", clusterv1alpha1.ClusterNotReadyReason, clusterv1alpha1.TaintClusterNotReady)
}

// A hub that starts gives agents their time, however old a lease is.
func TestAHubThatStartsWaitsBeforeItJudges(t *testing.T) {
	w := newWard(t)
	w.renew()
	w.report(clusterv1alpha1.Ready())
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	w.look()
	w.expect("at the start", clusterv1alpha1.ClusterReadyReason, "")
}

func TestAClusterThatChangesItsModeIsLeftAlone(t *testing.T) {
	w := newWard(t)
	w.look()
	c := w.cluster()
	c.Spec.SyncMode = clusterv1alpha1.Push
	if err := w.client.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	result, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "far"}})
	if err != nil || result != (ctrl.Result{}) || len(w.pulses) != 0 {
		t.Errorf("reconciled again: %+v, error %v, kept %v", result, err, w.pulses)
	}
}

// TestANewClusterIsTaintedWithAReason: before the agent has reported, too.
func TestANewClusterIsTaintedWithAReason(t *testing.T) {
	w := newWard(t)
	var messages []string
	w.Events = events.RecorderFunc(func(e events.Event) { messages = append(messages, e.Message) })
	w.look()
	if len(messages) != 1 || messages[0] != "Ready is False: condition taints updated" {
		t.Errorf("published %q", messages)
	}
}
