package rebalance_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1alpha1 "github.com/flagship-k8s/flagship/api/apps/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/rebalance"
)

var created = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// hub is a control plane with one rebalancer, which counts what is written.
type hub struct {
	t      *testing.T
	client client.WithWatch
	clock  *clocktesting.FakeClock
	loop   *rebalance.Controller
	writes int
	// refuse, if set, answers the next write to a binding.
	refuse error
}

func newHub(t *testing.T, objects ...client.Object) *hub {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1alpha1.AddToScheme, workv1alpha2.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	h := &hub{t: t, clock: clocktesting.NewFakeClock(created.Add(2 * time.Second))}
	h.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&appsv1alpha1.WorkloadRebalancer{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				h.writes++
				if err := h.refuse; err != nil {
					h.refuse = nil
					return err
				}
				return c.Patch(ctx, obj, patch, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				h.writes++
				return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
			},
		}).Build()
	h.loop = rebalance.New(h.client, h.clock)
	return h
}

func (h *hub) reconcile() (time.Duration, error) {
	result, err := h.loop.Reconcile(h.t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "r"}})
	return result.RequeueAfter, err
}

func (h *hub) mustReconcile() time.Duration {
	h.t.Helper()
	after, err := h.reconcile()
	if err != nil {
		h.t.Fatal(err)
	}
	return after
}

func (h *hub) rebalancer() *appsv1alpha1.WorkloadRebalancer {
	h.t.Helper()
	r := &appsv1alpha1.WorkloadRebalancer{}
	if err := h.client.Get(h.t.Context(), client.ObjectKey{Name: "r"}, r); err != nil {
		h.t.Fatal(err)
	}
	return r
}

func (h *hub) asked(name string) *metav1.Time {
	h.t.Helper()
	b := &workv1alpha2.ResourceBinding{}
	if err := h.client.Get(h.t.Context(), client.ObjectKey{Namespace: "shop", Name: name + "-deployment"}, b); err != nil {
		h.t.Fatal(err)
	}
	return b.Spec.RescheduleTriggeredAt
}

func deployment(name string) appsv1alpha1.ObjectReference {
	return appsv1alpha1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: name}
}

func binding(name string) *workv1alpha2.ResourceBinding {
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name + "-deployment", UID: "1"}}
	b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: name}
	return b
}

func request(workloads ...appsv1alpha1.ObjectReference) *appsv1alpha1.WorkloadRebalancer {
	return &appsv1alpha1.WorkloadRebalancer{
		ObjectMeta: metav1.ObjectMeta{Name: "r", Generation: 1, CreationTimestamp: metav1.NewTime(created)},
		Spec:       appsv1alpha1.WorkloadRebalancerSpec{Workloads: workloads},
	}
}

func expectResults(t *testing.T, r *appsv1alpha1.WorkloadRebalancer, want ...string) {
	t.Helper()
	var got []string
	for _, o := range r.Status.ObservedWorkloads {
		got = append(got, strings.TrimSpace(strings.Join([]string{o.Workload.Kind, o.Workload.Name, string(o.Result), string(o.Reason)}, " ")))
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestEveryWorkloadIsRequestedOnce(t *testing.T) {
	role := &workv1alpha2.ClusterResourceBinding{ObjectMeta: metav1.ObjectMeta{Name: "reader-clusterrole"}}
	role.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "reader"}
	newer := binding("newer")
	newer.Spec.RescheduleTriggeredAt = ptr.To(metav1.NewTime(created.Add(time.Hour)))
	h := newHub(t, binding("web"), newer, role, request(
		deployment("web"), deployment("web"), deployment("newer"), deployment("absent"),
		appsv1alpha1.ObjectReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "reader"},
		appsv1alpha1.ObjectReference{APIVersion: "example.io/v1", Kind: "Deployment", Namespace: "shop", Name: "web"}))
	if after := h.mustReconcile(); after != 0 {
		t.Errorf("looks again after %s, want never", after)
	}
	if h.writes != 3 {
		t.Errorf("%d writes, want one to each of two bindings and one status", h.writes)
	}
	if got := h.asked("web"); got == nil || !got.Time.Equal(created) {
		t.Errorf("web is to be scheduled afresh as of %v, want the creation of the request", got)
	}
	if got := h.asked("newer"); !got.Time.Equal(created.Add(time.Hour)) {
		t.Errorf("a newer request was replaced by %v", got)
	}
	r := h.rebalancer()
	expectResults(t, r, "Deployment absent Failed ReferencedBindingNotFound", "Deployment newer Successful", "Deployment web Successful",
		"Deployment web Failed ReferencedBindingNotFound", "ClusterRole reader Successful")
	if r.Status.FinishTime == nil || !r.Status.FinishTime.Time.Equal(h.clock.Now()) || r.Status.ObservedGeneration != 1 {
		t.Errorf("status is %+v, want it finished now", r.Status)
	}
	h.writes = 0
	h.clock.Step(time.Hour)
	h.mustReconcile()
	if h.writes != 0 {
		t.Errorf("%d writes when nothing changed", h.writes)
	}
}

func TestWhatCouldNotBeRequestedIsTriedAgain(t *testing.T) {
	h := newHub(t, binding("web"), binding("api"), request(deployment("web"), deployment("api")))
	h.refuse = apierrors.NewServiceUnavailable("not now")
	if _, err := h.reconcile(); err == nil {
		t.Fatal("no error, so it is not retried")
	}
	r := h.rebalancer()
	expectResults(t, r, "Deployment api", "Deployment web Successful")
	if r.Status.FinishTime != nil {
		t.Error("finished, though a workload is open")
	}
	h.mustReconcile()
	r = h.rebalancer()
	expectResults(t, r, "Deployment api Successful", "Deployment web Successful")
	if r.Status.FinishTime == nil {
		t.Error("not finished")
	}
}

func TestChangedRequest(t *testing.T) {
	h := newHub(t, binding("web"), binding("api"), request(deployment("web"), deployment("absent")))
	h.mustReconcile()
	first := h.rebalancer().Status.FinishTime
	h.clock.Step(time.Minute)
	r := h.rebalancer()
	r.Generation, r.Spec.Workloads = 2, []appsv1alpha1.ObjectReference{deployment("api")}
	if err := h.client.Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	h.mustReconcile()
	r = h.rebalancer()
	expectResults(t, r, "Deployment api Successful", "Deployment web Successful")
	if got := h.asked("api"); !got.Time.Equal(h.clock.Now()) {
		t.Errorf("what was added later is asked for as of %v, want now: the creation may be before it was last scheduled", got)
	}
	if got := h.asked("web"); !got.Time.Equal(created) {
		t.Errorf("what was done is asked for again: %v", got)
	}
	if !r.Status.FinishTime.After(first.Time) || r.Status.ObservedGeneration != 2 {
		t.Errorf("status is %+v, want it finished anew", r.Status)
	}
}

func TestTimeToLive(t *testing.T) {
	r := request(deployment("web"))
	r.Spec.TTLSecondsAfterFinished = ptr.To(int32(30))
	h := newHub(t, binding("web"), r)
	if after := h.mustReconcile(); after != 30*time.Second {
		t.Errorf("looks again after %s, want when its time is over", after)
	}
	h.clock.Step(20 * time.Second)
	if after := h.mustReconcile(); after != 10*time.Second {
		t.Errorf("looks again after %s, want the rest of its time", after)
	}
	h.clock.Step(10 * time.Second)
	h.mustReconcile()
	err := h.client.Get(t.Context(), client.ObjectKey{Name: "r"}, r)
	if !apierrors.IsNotFound(err) {
		t.Errorf("it is there after its time: %v", err)
	}
}

func TestZeroTimeToLiveEndsAtOnce(t *testing.T) {
	r := request(deployment("absent"))
	r.Spec.TTLSecondsAfterFinished = ptr.To(int32(0))
	h := newHub(t, r)
	h.mustReconcile()
	err := h.client.Get(t.Context(), client.ObjectKey{Name: "r"}, r)
	if !apierrors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
}
