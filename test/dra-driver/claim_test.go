package dradriver

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1alpha2 "k8s.io/api/resource/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	resourceclient "k8s.io/client-go/kubernetes/typed/resource/v1alpha2"
)

// patience is how long a test waits for the driver.
const patience = 30 * time.Second

const finalizer = driverName + "/deletion-protection"

// story is a claim and everything that happens to it from its creation on.
type story struct {
	claims resourceclient.ResourceClaimInterface
	name   string
	events watch.Interface
}

func begin(t *testing.T, mode resourcev1alpha2.AllocationMode) story {
	t.Helper()
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "dra-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	claims := client.ResourceV1alpha2().ResourceClaims(namespace.Name)
	events, err := claims.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(events.Stop)
	_, err = claims.Create(t.Context(), &resourcev1alpha2.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "claim"},
		Spec:       resourcev1alpha2.ResourceClaimSpec{ResourceClassName: "gpu", AllocationMode: mode},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return story{claims, "claim", events}
}

// until waits for a state of the claim; nil stands for the claim that is gone.
func (s story) until(t *testing.T, what string, reached func(*resourcev1alpha2.ResourceClaim) bool) *resourcev1alpha2.ResourceClaim {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case event, ok := <-s.events.ResultChan():
			if !ok {
				t.Fatalf("the watch ended before the claim was %s", what)
			}
			claim, ok := event.Object.(*resourcev1alpha2.ResourceClaim)
			if !ok {
				t.Fatalf("the watch says %v", event.Object)
			}
			if event.Type == watch.Deleted {
				claim = nil
			}
			if reached(claim) {
				return claim
			}
			if claim == nil {
				t.Fatalf("the claim is gone before it was %s", what)
			}
		case <-late:
			t.Fatalf("the claim is not %s", what)
		}
	}
}

func (s story) updateStatus(t *testing.T, change func(*resourcev1alpha2.ResourceClaimStatus)) {
	t.Helper()
	for {
		claim, err := s.claims.Get(t.Context(), s.name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		change(&claim.Status)
		if _, err = s.claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{}); err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
}

func (s story) remove(t *testing.T) {
	t.Helper()
	if err := s.claims.Delete(context.WithoutCancel(t.Context()), s.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func isAllocated(claim *resourcev1alpha2.ResourceClaim) bool {
	return claim != nil && claim.Status.Allocation != nil
}

func isPending(claim *resourcev1alpha2.ResourceClaim) bool {
	return claim != nil && claim.Status.Allocation == nil
}

func isGone(claim *resourcev1alpha2.ResourceClaim) bool { return claim == nil }

func reserve(status *resourcev1alpha2.ResourceClaimStatus) {
	status.ReservedFor = []resourcev1alpha2.ResourceClaimConsumerReference{{Resource: "pods", Name: "pod", UID: "uid"}}
}

func TestImmediateClaimIsAllocated(t *testing.T) {
	claim := begin(t, resourcev1alpha2.AllocationModeImmediate).until(t, "allocated", isAllocated)
	if claim.Status.DriverName != driverName || !slices.Contains(claim.Finalizers, finalizer) {
		t.Errorf("driver %q, finalizers %v, want %s and %s", claim.Status.DriverName, claim.Finalizers, driverName, finalizer)
	}
	allocation := claim.Status.Allocation
	if !allocation.Shareable || len(allocation.ResourceHandles) != 1 || allocation.ResourceHandles[0].Data != "device of claim" ||
		allocation.AvailableOnNodes.NodeSelectorTerms[0].MatchExpressions[0].Key != "gpu" {
		t.Errorf("allocation %+v is not what the driver gave", allocation)
	}
	if len(claim.Status.ReservedFor) > 0 {
		t.Errorf("reserved for %v, without a request", claim.Status.ReservedFor)
	}
}

func TestRequestFreesAndAllocatesAgain(t *testing.T) {
	claim := begin(t, resourcev1alpha2.AllocationModeImmediate)
	claim.until(t, "allocated", isAllocated)
	claim.updateStatus(t, func(status *resourcev1alpha2.ResourceClaimStatus) { status.DeallocationRequested = true })
	claim.until(t, "freed", isPending)
	again := claim.until(t, "allocated again", isAllocated)
	if again.Status.DeallocationRequested {
		t.Error("the request outlived the allocation")
	}
}

func TestDeletedClaimIsFreedAndGoes(t *testing.T) {
	claim := begin(t, resourcev1alpha2.AllocationModeImmediate)
	claim.until(t, "allocated", isAllocated)
	claim.remove(t)
	claim.until(t, "gone", isGone)
}

func TestDeletedClaimStaysWhileReserved(t *testing.T) {
	claim := begin(t, resourcev1alpha2.AllocationModeImmediate)
	claim.until(t, "allocated", isAllocated)
	claim.updateStatus(t, reserve)
	claim.remove(t)
	held := claim.until(t, "marked for deletion", func(claim *resourcev1alpha2.ResourceClaim) bool {
		return claim == nil || claim.DeletionTimestamp != nil
	})
	if held == nil || held.Status.Allocation == nil || len(held.Status.ReservedFor) != 1 {
		t.Fatalf("a claim in use was taken away: %+v", held)
	}
	claim.updateStatus(t, func(status *resourcev1alpha2.ResourceClaimStatus) { status.ReservedFor = nil })
	claim.until(t, "gone", isGone)
}

// TestWaitingClaimIsLeftAlone: an allocated claim of another mode that was created later shows that the driver has
// seen this one too.
func TestWaitingClaimIsLeftAlone(t *testing.T) {
	waiting := begin(t, "")
	begin(t, resourcev1alpha2.AllocationModeImmediate).until(t, "allocated", isAllocated)
	claim, err := waiting.claims.Get(t.Context(), waiting.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if claim.Spec.AllocationMode != resourcev1alpha2.AllocationModeWaitForFirstConsumer || len(claim.Finalizers) > 0 || claim.Status.DriverName != "" {
		t.Errorf("spec %+v, finalizers %v, status %+v: it is not requested yet", claim.Spec, claim.Finalizers, claim.Status)
	}
}
