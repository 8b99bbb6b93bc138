package render

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// reports writes what apply and observe say of a Work.
func (s *stage) reports(work *workv1alpha1.Work, health workv1alpha1.ResourceHealth) {
	s.t.Helper()
	if err := s.client.Get(s.t.Context(), client.ObjectKeyFromObject(work), work); err != nil {
		s.t.Fatal(err)
	}
	meta.SetStatusCondition(&work.Status.Conditions, workv1alpha1.Applied(work.Generation))
	if health == workv1alpha1.ResourceHealthy {
		meta.SetStatusCondition(&work.Status.Conditions, workv1alpha1.Progressed(work.Generation))
	} else {
		meta.SetStatusCondition(&work.Status.Conditions, workv1alpha1.Progressing(work.Generation, workv1alpha1.RollingOutReason, "Waiting"))
	}
	work.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{Health: health}}
	if err := s.client.Status().Update(s.t.Context(), work); err != nil {
		s.t.Fatal(err)
	}
	s.reconciler.writes.Forget(client.ObjectKeyFromObject(work))
}

// moving is a stage where a binding that was in m1 is to go to m2.
func moving(t *testing.T, change func(*workv1alpha2.ResourceBinding)) (*stage, *workv1alpha2.ResourceBinding, *clocktesting.FakeClock) {
	t.Helper()
	binding := nginxBinding("m1")
	s := newStage(t, threeClusters(binding)...)
	s.reconciler.deps.EvictionTimeout = func() time.Duration { return 10 * time.Minute }
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	s.reconciler.deps.Clock = clock
	s.mustReconcile(binding)
	s.reports(s.work("m1"), workv1alpha1.ResourceHealthy)
	s.change(binding, func() {
		binding.Spec.Clusters = targets("m2")
		if change != nil {
			change(binding)
		}
	})
	return s, binding, clock
}

func TestAMoveLeavesTheOldCopyUntilTheNewOneIsHealthy(t *testing.T) {
	s, binding, _ := moving(t, nil)
	writes, result, err := s.reconcile(binding)
	if err != nil || result.RequeueAfter != 10*time.Minute {
		t.Errorf("got %v, %v, want another look when the time is up", result, err)
	}
	wantWrites(t, "the new copy is ordered", writes, "create "+workM2)
	s.reports(s.work("m2"), workv1alpha1.ResourceUnhealthy)
	wantWrites(t, "the new copy is not healthy", s.mustReconcile(binding))
	if !s.reconciler.moves.has(client.ObjectKeyFromObject(binding)) {
		t.Error("events of the new copy would not be handled")
	}
	s.reports(s.work("m2"), workv1alpha1.ResourceHealthy)
	wantWrites(t, "it is healthy now", s.mustReconcile(binding), "delete "+workM1)
	if s.reconciler.moves.has(client.ObjectKeyFromObject(binding)) {
		t.Error("a move that is over is kept")
	}
}

func TestAMoveEndsWhenItsTimeIsUp(t *testing.T) {
	s, binding, clock := moving(t, nil)
	wantWrites(t, "the new copy is ordered", s.mustReconcile(binding), "create "+workM2)
	clock.Step(10*time.Minute - time.Second)
	wantWrites(t, "there is a second left", s.mustReconcile(binding))
	clock.Step(time.Second)
	wantWrites(t, "the time is up", s.mustReconcile(binding), "delete "+workM1)
}

func TestMovesThatDoNotWait(t *testing.T) {
	cases := map[string]func(*workv1alpha2.ResourceBinding){
		"its policy says so": func(b *workv1alpha2.ResourceBinding) {
			b.Annotations = map[string]string{policyv1alpha1.PurgeModeAnnotation: "Directly"}
		},
	}
	for reason, change := range cases {
		t.Run(reason, func(t *testing.T) {
			s, binding, _ := moving(t, change)
			wantWrites(t, reason, s.mustReconcile(binding), "delete "+workM1, "create "+workM2)
		})
	}
}

func TestAMoveWaitsForAllReplicas(t *testing.T) {
	s, binding, _ := moving(t, func(b *workv1alpha2.ResourceBinding) { b.Spec.Replicas = 5 })
	s.change(binding, func() { binding.Status.SchedulerObservedGeneration = binding.Generation })
	wantWrites(t, "the new cluster has capacity for two of five", s.mustReconcile(binding), "create "+workM2)
	s.reports(s.work("m2"), workv1alpha1.ResourceHealthy)
	wantWrites(t, "two are less than five", s.mustReconcile(binding))
}

func TestACopyWaitsForThoseThatDependOnIt(t *testing.T) {
	s, binding, _ := moving(t, func(b *workv1alpha2.ResourceBinding) {
		b.Spec.RequiredBy = []workv1alpha2.BindingSnapshot{{Namespace: "default", Name: "web-deployment", Clusters: targets("m2")}}
	})
	dependant := &workv1alpha1.Work{}
	dependant.Namespace, dependant.Name = "karmada-es-m1", "web"
	dependant.Annotations = map[string]string{
		workv1alpha2.ResourceBindingNamespaceAnnotation: "default", workv1alpha2.ResourceBindingNameAnnotation: "web-deployment",
	}
	if err := s.client.Create(t.Context(), dependant); err != nil {
		t.Fatal(err)
	}
	s.mustReconcile(binding)
	s.reports(s.work("m2"), workv1alpha1.ResourceHealthy)
	writes, result, err := s.reconcile(binding)
	if err != nil || result.RequeueAfter != dependantsPause {
		t.Errorf("got %v, %v, want another look in a moment", result, err)
	}
	wantWrites(t, "what needs it is still there", writes)
	if err := s.client.Delete(t.Context(), dependant); err != nil {
		t.Fatal(err)
	}
	wantWrites(t, "nothing needs it any more", s.mustReconcile(binding), "delete "+workM1)
}

func TestAnEvictionKeepsItsTime(t *testing.T) {
	task := func(binding *workv1alpha2.ResourceBinding, grace int32) {
		created := metav1.NewTime(time.Unix(1000, 0))
		binding.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{{FromCluster: "m1", GracePeriodSeconds: &grace, CreationTimestamp: &created, Reason: "X", Producer: "p"}}
	}
	s, binding, clock := moving(t, func(binding *workv1alpha2.ResourceBinding) { task(binding, 60) })
	wantWrites(t, "the new copy is ordered", s.mustReconcile(binding), "create "+workM2)
	clock.Step(time.Minute)
	wantWrites(t, "its task is there", s.mustReconcile(binding))
	s.change(binding, func() { binding.Spec.GracefulEvictionTasks = nil })
	wantWrites(t, "its task has ended after its time", s.mustReconcile(binding), "delete "+workM1)

	s, binding, _ = moving(t, func(binding *workv1alpha2.ResourceBinding) { task(binding, 60) })
	wantWrites(t, "the new copy is ordered", s.mustReconcile(binding), "create "+workM2)
	s.change(binding, func() { binding.Spec.GracefulEvictionTasks = nil })
	wantWrites(t, "its task has ended before", s.mustReconcile(binding))
}
