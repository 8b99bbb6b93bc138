package schedule_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule"
)

// TestReplicasOverALimitMoveIfTheyFitElsewhere: nothing returns to a cluster with a limit before the limit ends, and nothing moves if
// some replicas would have no place.
func TestReplicasOverALimitMoveIfTheyFitElsewhere(t *testing.T) {
	h := newHub(t, member("m1", available(9)), member("m2", available(3)), bindingOf("web", 6, placement(aggregated)))
	h.reconcile("web")
	h.expectTargets("web", "the fewest clusters", targets("m1", 6))
	limit := func(replicas int32) {
		h.change("web", func(b *workv1alpha2.ResourceBinding) {
			workv1alpha2.SetReplicaLimits(b, map[string]workv1alpha2.ReplicaLimit{"m1": {Replicas: replicas, Until: metav1.NewTime(h.clock.Now().Add(time.Minute))}})
		})
		h.reconcile("web")
	}
	limit(2)
	h.expectTargets("web", "only 3 fit elsewhere", targets("m1", 6))
	limit(4)
	h.expectTargets("web", "2 move", targets("m1", 4, "m2", 2))
	h.writes, h.events = nil, nil
	h.reconcile("web")
	h.expect("and rest", nil)
	h.change("web", func(b *workv1alpha2.ResourceBinding) { b.Spec.Replicas = 7 })
	h.reconcile("web")
	h.expectTargets("web", "what is added goes elsewhere, too", targets("m1", 4, "m2", 3))
	h.clock.Step(time.Minute)
	h.change("web", func(b *workv1alpha2.ResourceBinding) { b.Spec.Replicas = 8 })
	h.reconcile("web")
	h.expectTargets("web", "the limit has ended", targets("m1", 5, "m2", 3))
	limit(0)
	h.expectTargets("web", "none fits elsewhere", targets("m1", 5, "m2", 3))
}

// TestReplicasOverALimitWaitForAPlace: a cluster that joins may have one for them, while the limit lasts.
func TestReplicasOverALimitWaitForAPlace(t *testing.T) {
	h := newHub(t, member("m1", available(9)), bindingOf("web", 6, placement(aggregated)))
	h.reconcile("web")
	h.change("web", func(b *workv1alpha2.ResourceBinding) {
		workv1alpha2.SetReplicaLimits(b, map[string]workv1alpha2.ReplicaLimit{"m1": {Replicas: 2, Until: metav1.NewTime(h.clock.Now().Add(time.Minute))}})
	})
	h.reconcile("web")
	h.expectTargets("web", "there is no other cluster", targets("m1", 6))
	w, q := schedule.NewRequeuer(h.controller), newQueue(t)
	if _, err := w.Compare(h.ctx, q); err != nil {
		t.Fatal(err)
	}
	join := func(name string) []string {
		t.Helper()
		if err := h.client.Create(h.ctx, member(name, available(9))); err != nil {
			t.Fatal(err)
		}
		h.controller.Touch(name)
		if _, err := w.Compare(h.ctx, q); err != nil {
			t.Fatal(err)
		}
		return drain(q)
	}
	if got := join("m2"); !slices.Equal(got, []string{"web"}) {
		t.Errorf("a cluster that joins has %v scheduled", got)
	}
	h.reconcile("web")
	h.expectTargets("web", "4 move", targets("m1", 2, "m2", 4))
	if got := join("m3"); len(got) > 0 {
		t.Errorf("another cluster has %v scheduled, though nothing waits", got)
	}
}

func TestFixedSharesHaveNoLimits(t *testing.T) {
	h := newHub(t, member("m1"), member("m2"), bindingOf("web", 6, placement(static("m1", 2, "m2", 1))))
	h.reconcile("web")
	h.change("web", func(b *workv1alpha2.ResourceBinding) {
		workv1alpha2.SetReplicaLimits(b, map[string]workv1alpha2.ReplicaLimit{"m1": {Until: metav1.NewTime(h.clock.Now().Add(time.Minute))}})
	})
	h.reconcile("web")
	h.expectTargets("web", "the placement names the shares", targets("m1", 4, "m2", 2))
}
