package observe

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

const (
	healthy   = workv1alpha1.ResourceHealthy
	unhealthy = workv1alpha1.ResourceUnhealthy
	unknown   = workv1alpha1.ResourceUnknown
)

func manifestsOf(health ...workv1alpha1.ResourceHealth) []workv1alpha1.ManifestStatus {
	var list []workv1alpha1.ManifestStatus
	for i, h := range health {
		list = append(list, workv1alpha1.ManifestStatus{Identifier: workv1alpha1.ResourceIdentifier{Ordinal: i}, Health: h})
	}
	return list
}

// What the hub says for an agent that is silent is taken back to the letter when it is reported again.
func TestWhatWasSeenLastCountsAgain(t *testing.T) {
	tests := map[string]struct{ before, after []workv1alpha1.ManifestStatus }{
		"OneOfAll":    {manifestsOf(healthy, healthy, healthy), manifestsOf(healthy, healthy, healthy)},
		"Different":   {manifestsOf(healthy, unhealthy, unknown), manifestsOf(healthy, unhealthy, unknown)},
		"NothingYet":  {nil, nil},
		"NeverJudged": {manifestsOf(""), manifestsOf(unknown)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			status := &workv1alpha1.WorkStatus{Conditions: []metav1.Condition{workv1alpha1.Applied(1)}, ManifestStatuses: tc.before}
			for range 2 { // a hub that was restarted meanwhile may say it again
				unreachable(1, "member1")(nil, status)
			}
			unreachable(2, "member1")(nil, status)
			loss := lossIn(status.Conditions)
			if loss == nil || loss.ObservedGeneration != 2 {
				t.Errorf("the loss is %+v", loss)
			}
			for i, m := range status.ManifestStatuses {
				if m.Health != unknown {
					t.Errorf("manifest %d passes for %q", i, m.Health)
				}
			}
			reachableAgain(nil, status)
			if diff := cmp.Diff(tc.after, status.ManifestStatuses); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if len(status.Conditions) != 1 {
				t.Errorf("conditions that the agent never wrote are left over: %+v", status.Conditions)
			}
		})
	}
}

func TestReportsOfTheAgentWhileItIsUnreachableStay(t *testing.T) {
	status := &workv1alpha1.WorkStatus{ManifestStatuses: manifestsOf(healthy, healthy)}
	unreachable(1, "member1")(nil, status)
	status.ManifestStatuses[1].Health = unhealthy
	reachableAgain(nil, status)
	if diff := cmp.Diff(manifestsOf(healthy, unhealthy), status.ManifestStatuses); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	meta.SetStatusCondition(&status.Conditions, workv1alpha1.Available(1))
	reachableAgain(nil, status)
	if !meta.IsStatusConditionTrue(status.Conditions, workv1alpha1.WorkAvailable) {
		t.Error("the agent's own word was taken back")
	}
}

// Works of a cluster that this process does not observe, after the cluster was lost while no one looked.
func TestAWorkIsRevisitedOnlyIfItsStatusWouldChange(t *testing.T) {
	s := newBench(t, knowing{})
	cluster := &clusterv1alpha1.Cluster{}
	if err := s.hub.Get(t.Context(), types.NamespacedName{Name: "member1"}, cluster); err != nil {
		t.Fatal(err)
	}
	cluster.Spec.SyncMode = clusterv1alpha1.Pull
	if err := s.hub.Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	s.fleet.Remove("member1")
	turn := func(ready metav1.Condition) {
		t.Helper()
		meta.SetStatusCondition(&cluster.Status.Conditions, ready)
		if err := s.hub.Status().Update(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
	}
	visited := func() bool {
		t.Helper()
		if _, err := s.reconcile(t.Context(), "member1", theWork); err != nil {
			t.Fatal(err)
		}
		if s.revisits.queue.Len() == 0 {
			return false
		}
		next, _ := s.revisits.queue.Get()
		defer s.revisits.queue.Done(next)
		if err := s.revisit(t.Context(), next.cluster, next.work); err != nil {
			t.Error(err)
		}
		return true
	}
	agent := func(change func(*workv1alpha1.WorkStatus)) {
		t.Helper()
		work := &workv1alpha1.Work{}
		if err := s.hub.Get(t.Context(), theWork, work); err != nil {
			t.Fatal(err)
		}
		change(&work.Status)
		if err := s.hub.Status().Update(t.Context(), work); err != nil {
			t.Fatal(err)
		}
	}
	agent(func(status *workv1alpha1.WorkStatus) {
		status.ManifestStatuses = manifestsOf(healthy)
		meta.SetStatusCondition(&status.Conditions, workv1alpha1.Applied(1))
	})

	turn(clusterv1alpha1.Ready())
	if visited() {
		t.Error("visited although the agent is well")
	}
	turn(clusterv1alpha1.ReadinessUnknown(clusterv1alpha1.ClusterStatusUnknownReason, "silent"))
	if !visited() {
		t.Fatal("not visited although the agent is silent")
	}
	s.wait("it is cannot be reached", func(status workv1alpha1.WorkStatus) bool {
		return lossIn(status.Conditions) != nil && health(status) == unknown && len(status.Conditions) == 2
	})
	if visited() {
		t.Error("visited although the status says so already")
	}
	turn(clusterv1alpha1.Ready())
	if !visited() {
		t.Fatal("not visited although the agent is back")
	}
	s.wait("it is what the agent said", func(status workv1alpha1.WorkStatus) bool {
		return lossIn(status.Conditions) == nil && health(status) == healthy && len(status.Conditions) == 1
	})
}

// While an agent observed the member the control plane did not watch it.
func TestTheWorksOfAClusterThatIsOursAgainAreReconciled(t *testing.T) {
	s := newBench(t, knowing{})
	cluster := &clusterv1alpha1.Cluster{}
	if err := s.hub.Get(t.Context(), types.NamespacedName{Name: "member1"}, cluster); err != nil {
		t.Fatal(err)
	}
	pulled := cluster.DeepCopy()
	pulled.Spec.SyncMode = clusterv1alpha1.Pull
	s.clusterChanged(cluster, cluster, false)
	if n := s.revisits.queue.Len(); n != 0 {
		t.Errorf("%d Works are revisited although nothing changed", n)
	}
	s.clusterChanged(pulled, cluster, false)
	next, _ := s.revisits.queue.Get()
	if next.work != theWork {
		t.Errorf("next is %s, want %s", next.work, theWork)
	}
}

// unordered lists Works in another order than that of their names, as a cache may.
type unordered struct{ client.Client }

func (u unordered) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := u.Client.List(ctx, list, options...)
	slices.Reverse(list.(*workv1alpha1.WorkList).Items)
	return err
}

// TestTheWorksOfABindingAreRevisitedOneAfterTheOther: otherwise the status of each binding is written once for each cluster that is lost.
func TestTheWorksOfABindingAreRevisitedOneAfterTheOther(t *testing.T) {
	s := newBench(t, knowing{})
	var want []types.NamespacedName
	for _, name := range []string{"x", "y", "z"} {
		for _, cluster := range []string{"lost1", "lost2"} {
			work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: workv1alpha1.ExecutionNamespace(cluster), Name: name}}
			if err := s.hub.Create(t.Context(), work); err != nil {
				t.Fatal(err)
			}
			want = append(want, client.ObjectKeyFromObject(work))
		}
	}
	s.client = unordered{s.hub}
	for _, cluster := range []string{"lost1", "lost2"} {
		if err := s.revisitAll(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
	}
	var got []types.NamespacedName
	for range want {
		next, _ := s.revisits.queue.Get()
		got = append(got, next.work)
		s.revisits.queue.Done(next)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("visited in another order (-want +got):\n%s", diff)
	}
}
