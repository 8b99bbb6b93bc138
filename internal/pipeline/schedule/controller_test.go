package schedule_test

import (
	"context"
	"fmt"
	"k8s.io/apimachinery/pkg/types"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule"
)

// hub is a control plane small enough to count every write.
type hub struct {
	t          *testing.T
	ctx        context.Context
	client     client.WithWatch
	controller *schedule.Controller
	clock      *clocktesting.FakeClock
	// writes and events since the last call of expect; mu is for tests with several workers.
	mu     sync.Mutex
	writes []string
	events []string
	// refuse, if set, answers the next write of a result.
	refuse error
	// unlisted, if set, answers lists of bindings.
	unlisted error
	// listed, if set, is called when bindings are listed.
	listed func()
	// stale, if set, is what a read of a binding returns.
	stale *workv1alpha2.ResourceBinding
}

func newHub(t *testing.T, objects ...client.Object) *hub {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1alpha1.AddToScheme, fleetv1alpha1.AddToScheme, workv1alpha2.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	h := &hub{t: t, ctx: t.Context(), clock: clocktesting.NewFakeClock(time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC))}
	h.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&workv1alpha2.ResourceBinding{}, &workv1alpha2.ClusterResourceBinding{}).
		WithInterceptorFuncs(interceptor.Funcs{Get: h.get, List: h.list, SubResourceUpdate: h.updateSubresource}).Build()
	h.restart()
	return h
}

// restart replaces the controller by one without state.
func (h *hub) restart() {
	h.controller = schedule.New(schedule.Deps{
		Client: h.client,
		Clock:  h.clock,
		Events: events.RecorderFunc(func(e events.Event) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.events = append(h.events, e.String())
		}),
	})
}

func (h *hub) get(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if b, ok := obj.(*workv1alpha2.ResourceBinding); ok && h.stale != nil {
		h.stale.DeepCopyInto(b)
		return nil
	}
	return c.Get(ctx, key, obj, opts...)
}

// schedule does what our API server does and the fake client does not: a change of the spec is a new generation, and the
// status is written with it.
func (h *hub) schedule(ctx context.Context, c client.Client, obj client.Object) error {
	h.mu.Lock()
	h.writes = append(h.writes, "result")
	refuse := h.refuse
	h.refuse = nil
	h.mu.Unlock()
	if refuse != nil {
		return refuse
	}
	before := obj.DeepCopyObject().(client.Object)
	if err := c.Get(ctx, client.ObjectKeyFromObject(obj), before); err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(before.(workv1alpha2.Binding).BindingSpec(), obj.(workv1alpha2.Binding).BindingSpec()) {
		obj.SetGeneration(before.GetGeneration() + 1)
	}
	whole := obj.DeepCopyObject().(client.Object)
	if err := c.Update(ctx, obj); err != nil {
		return err
	}
	whole.SetResourceVersion(obj.GetResourceVersion())
	if err := c.SubResource("status").Update(ctx, whole); err != nil {
		return err
	}
	obj.SetResourceVersion(whole.GetResourceVersion())
	return nil
}

func (h *hub) updateSubresource(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	if sub == workv1alpha2.SubresourceSchedule {
		return h.schedule(ctx, c, obj)
	}
	if _, ok := obj.(workv1alpha2.Binding); ok && len(opts) > 0 {
		h.mu.Lock()
		h.writes = append(h.writes, sub)
		h.mu.Unlock()
	}
	return c.SubResource(sub).Update(ctx, obj, opts...)
}

func (h *hub) reconcile(name string) time.Duration {
	h.t.Helper()
	result, err := h.controller.Reconcile(h.ctx, types.NamespacedName{Namespace: "shop", Name: name})
	if err != nil {
		h.t.Fatalf("reconciling %s: %v", name, err)
	}
	return result.RequeueAfter
}

func (h *hub) binding(name string) *workv1alpha2.ResourceBinding {
	h.t.Helper()
	b := &workv1alpha2.ResourceBinding{}
	if err := h.client.Get(h.ctx, types.NamespacedName{Namespace: "shop", Name: name}, b); err != nil {
		h.t.Fatal(err)
	}
	return b
}

// change edits a binding as its owners do, with a new generation.
func (h *hub) change(name string, edit func(*workv1alpha2.ResourceBinding)) {
	h.t.Helper()
	b := h.binding(name)
	edit(b)
	b.Generation++
	if err := h.client.Update(h.ctx, b); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hub) changeCluster(name string, edits ...func(*clusterv1alpha1.Cluster)) {
	h.t.Helper()
	c := &clusterv1alpha1.Cluster{}
	if err := h.client.Get(h.ctx, types.NamespacedName{Name: name}, c); err != nil {
		h.t.Fatal(err)
	}
	for _, edit := range edits {
		edit(c)
	}
	if err := h.client.Update(h.ctx, c); err != nil {
		h.t.Fatal(err)
	}
	h.controller.Touch(name)
}

// expect compares the writes and events since the last call.
func (h *hub) expect(reason string, writes []string, events ...string) {
	h.t.Helper()
	if diff := cmp.Diff(writes, h.writes, cmpopts.EquateEmpty()); diff != "" {
		h.t.Errorf("%s: writes -want +got\n%s", reason, diff)
	}
	if diff := cmp.Diff(events, h.events, cmpopts.EquateEmpty()); diff != "" {
		h.t.Errorf("%s: events -want +got\n%s", reason, diff)
	}
	h.writes, h.events = nil, nil
}

func (h *hub) expectTargets(name, reason string, want []workv1alpha2.TargetCluster) {
	h.t.Helper()
	if diff := cmp.Diff(want, h.binding(name).Spec.Clusters, cmpopts.EquateEmpty()); diff != "" {
		h.t.Errorf("%s: targets -want +got\n%s", reason, diff)
	}
}

func (h *hub) expectCondition(name, reason, message string) {
	h.t.Helper()
	b := h.binding(name)
	c := meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.Scheduled)
	if c == nil || c.Reason != reason || !strings.HasPrefix(c.Message, message) || (c.Status == metav1.ConditionTrue) != (reason == "Success") {
		h.t.Errorf("condition Scheduled is %+v, want reason %s, message %s…", c, reason, message)
	}
	if b.Status.SchedulerObservedGeneration != b.Generation || c != nil && c.ObservedGeneration != b.Generation {
		h.t.Errorf("observed generation %d, and of Scheduled %+v, want %d", b.Status.SchedulerObservedGeneration, c, b.Generation)
	}
}

func bindingOf(name string, replicas int32, p *policyv1alpha1.Placement, edits ...func(*workv1alpha2.ResourceBinding)) *workv1alpha2.ResourceBinding {
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, Generation: 1,
		Labels: map[string]string{policyv1alpha1.PropagationPolicyPermanentIDLabel: "1234"},
	}}
	b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: name}
	b.Spec.Placement, b.Spec.Replicas, b.Spec.ReplicaRequirements = p, replicas, oneCPU
	for _, edit := range edits {
		edit(b)
	}
	return b
}

func annotated(key, value string) func(*workv1alpha2.ResourceBinding) {
	return func(b *workv1alpha2.ResourceBinding) { metav1.SetMetaDataAnnotation(&b.ObjectMeta, key, value) }
}

var (
	wholeResult = []string{"result"} // with its status
	statusOnly  = []string{"status"}
)

func TestScheduleOnceThenRest(t *testing.T) {
	for name, p := range map[string]*policyv1alpha1.Placement{
		"Duplicated": placement(duplicated), "Static": placement(static("m1", 2, "m2", 1)), "Equal": placement(static()),
		"Dynamic": placement(dynamic), "Aggregated": placement(aggregated, spread(byCluster, 1, 1)), "None": nil,
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, member("m1"), member("m2"), bindingOf("web", 3, p))
			h.reconcile("web")
			b := h.binding("web")
			h.expect("first", wholeResult, fmt.Sprintf("Normal ScheduleBindingSucceed Deployment/web: Binding has been scheduled successfully. Result: {%s}", shown(b.Spec.Clusters)))
			h.expectCondition("web", "Success", "Binding has been scheduled successfully.")
			if len(b.Spec.Clusters) == 0 || b.Status.LastScheduledTime == nil || b.Annotations[workv1alpha2.AppliedPlacementAnnotation] == "" {
				t.Errorf("incomplete: %+v", b)
			}
			h.reconcile("web")
			h.expect("again", nil)
			h.change("web", func(b *workv1alpha2.ResourceBinding) { b.Spec.Resource.ResourceVersion = "77" })
			h.reconcile("web")
			h.expect("a generation that needs no decision", statusOnly)
			h.expectCondition("web", "Success", "Binding has been scheduled successfully.")
			h.reconcile("web")
			h.expect("and again", nil)
		})
	}
}

func shown(ts []workv1alpha2.TargetCluster) string {
	var parts []string
	for _, t := range ts {
		parts = append(parts, fmt.Sprintf("%s:%d", t.Name, t.Replicas))
	}
	return strings.Join(parts, ", ")
}

func TestScale(t *testing.T) {
	h := newHub(t, member("m1", available(9)), member("m2", available(9)), bindingOf("web", 3, placement(static("m1", 2, "m2", 1))))
	h.reconcile("web")
	h.expectTargets("web", "2:1 over 3", targets("m1", 2, "m2", 1))
	h.writes, h.events = nil, nil
	h.change("web", func(b *workv1alpha2.ResourceBinding) { b.Spec.Replicas = 6 })
	h.reconcile("web")
	h.expect("scaled", wholeResult, "Normal ScheduleBindingSucceed Deployment/web: Binding has been scheduled successfully. Result: {m1:4, m2:2}")
	h.change("web", func(b *workv1alpha2.ResourceBinding) { b.Spec.Replicas = 0 })
	h.reconcile("web")
	h.expectTargets("web", "copies stay at zero", targets("m1", 0, "m2", 0))
	h.writes, h.events = nil, nil
	h.reconcile("web")
	h.expect("and rest", nil)
}

func TestADecisionWithTheSameResultHasItsTime(t *testing.T) {
	h := newHub(t, member("m1", available(9)), member("m2", available(9)), bindingOf("web", 3, placement(duplicated, affinity(named("m1")))))
	h.reconcile("web")
	first := h.binding("web").Status.LastScheduledTime.Time
	h.clock.Step(time.Hour)
	h.changeCluster("m2", tainted("a", "b", corev1.TaintEffectNoSchedule))
	h.writes, h.events = nil, nil
	h.reconcile("web")
	h.expect("a change of clusters that changes nothing", nil)
	h.change("web", func(b *workv1alpha2.ResourceBinding) {
		b.Spec.Placement = placement(duplicated, affinity(named("m1", "elsewhere")))
	})
	h.reconcile("web")
	h.expect("another placement with the same result", wholeResult)
	h.expectTargets("web", "the same", targets("m1", 3))
	if got := h.binding("web").Status.LastScheduledTime.Sub(first); got != time.Hour {
		t.Errorf("the time of the decision is %s after that of the first, want 1h", got)
	}
}

func TestFailureKeepsTheLastResult(t *testing.T) {
	h := newHub(t, member("m1"), bindingOf("web", 3, placement(duplicated)))
	h.reconcile("web")
	h.expect("first", wholeResult, h.events...)
	h.change("web", func(b *workv1alpha2.ResourceBinding) {
		b.Spec.Placement = placement(duplicated, affinity(named("elsewhere")))
	})
	if again := h.reconcile("web"); again != 5*time.Minute {
		t.Errorf("looks again after %s, want 5m", again)
	}
	h.expectTargets("web", "nothing fits any more", targets("m1", 3))
	message := "0/1 clusters fit: 1 is not in clusterAffinity.clusterNames (m1)"
	h.expectCondition("web", "NoClusterFit", message)
	h.expect("failure", statusOnly, "Warning ScheduleBindingFailed Deployment/web: "+message)
	h.reconcile("web")
	h.expect("the same failure is no news", nil)
	h.change("web", func(b *workv1alpha2.ResourceBinding) { b.Spec.Placement = placement(duplicated) })
	h.reconcile("web")
	h.expect("back to where it is", statusOnly, "Normal ScheduleBindingSucceed Deployment/web: Binding has been scheduled successfully. Result: {m1:3}")
}

// TestEvictedWithoutAnotherPlace: what stays since nothing else fits can be scaled, as if it were not being evicted. It does not grow beyond
// what its clusters have capacity for.
func TestEvictedWithoutAnotherPlace(t *testing.T) {
	for name, tc := range map[string]struct {
		placement *policyv1alpha1.Placement
		evicting  []string
		to        int32
		want      []workv1alpha2.TargetCluster
	}{
		"fewer":              {placement(static("m1", 2, "m2", 1)), []string{"m1", "m2"}, 3, targets("m1", 2, "m2", 1)},
		"more":               {placement(static("m1", 2, "m2", 1)), []string{"m1", "m2"}, 9, targets("m1", 6, "m2", 3)},
		"duplicated":         {placement(duplicated), []string{"m1", "m2"}, 3, targets("m1", 3, "m2", 3)},
		"with capacity":      {placement(dynamic), []string{"m1", "m2"}, 8, targets("m1", 4, "m2", 4)},
		"without capacity":   {placement(dynamic), []string{"m1", "m2"}, 60, targets("m1", 3, "m2", 3)},
		"the same":           {placement(dynamic), []string{"m1", "m2"}, 6, targets("m1", 3, "m2", 3)},
		"one finds no place": {placement(dynamic, affinity(named("m1"))), []string{"m1"}, 2, targets("m1", 2)},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, member("m1", available(9)), member("m2", available(9)), bindingOf("web", 6, tc.placement))
			h.reconcile("web")
			h.change("web", func(b *workv1alpha2.ResourceBinding) {
				b.Spec.Replicas = tc.to
				for _, from := range tc.evicting {
					b.Spec.GracefulEvictionTasks = append(b.Spec.GracefulEvictionTasks, workv1alpha2.GracefulEvictionTask{FromCluster: from})
				}
			})
			h.reconcile("web")
			h.expectTargets("web", "nothing else fits", tc.want)
			if meta.IsStatusConditionTrue(h.binding("web").Status.Conditions, workv1alpha2.Scheduled) {
				t.Error("it counts as scheduled")
			}
			h.writes, h.events = nil, nil
			h.reconcile("web")
			h.expect("and rests", nil)
		})
	}
}

// TestUnselectedObjectsGo: a placement that selects none of the clusters there are is an order; one that selects a cluster which does
// not suit, or names one that is not there, is a failure.
func TestUnselectedObjectsGo(t *testing.T) {
	shade := func(value string) func(*clusterv1alpha1.Cluster) {
		return func(c *clusterv1alpha1.Cluster) { c.Labels = map[string]string{"shade": value} }
	}
	dark := affinity(policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"shade": "dark"}}})
	for name, tc := range map[string]struct {
		placement *policyv1alpha1.Placement
		keep      bool
		change    func(h *hub)
		want      []workv1alpha2.TargetCluster
	}{
		"the label is gone":     {placement: placement(duplicated, dark), change: func(h *hub) { h.changeCluster("m1", shade("light")) }},
		"divided":               {placement: placement(dynamic, dark), change: func(h *hub) { h.changeCluster("m1", shade("light")) }},
		"the policy lets it be": {placement: placement(duplicated, dark), keep: true, change: func(h *hub) { h.changeCluster("m1", shade("light")) }, want: targets("m1", 3)},
		"the selector changed": {placement: placement(duplicated, dark), change: func(h *hub) {
			h.change("web", func(b *workv1alpha2.ResourceBinding) {
				b.Spec.Placement = placement(duplicated, affinity(policyv1alpha1.ClusterAffinity{ExcludeClusters: []string{"m0", "m1", "m2"}}))
			})
		}},
		"another cluster is selected and does not suit": {placement: placement(duplicated, dark), want: targets("m1", 3), change: func(h *hub) {
			h.changeCluster("m2", shade("dark"), tainted("a", "b", corev1.TaintEffectNoSchedule))
			h.changeCluster("m1", shade("light"))
		}},
		"a cluster that is not there is named": {placement: placement(duplicated, dark), want: targets("m1", 3), change: func(h *hub) {
			h.change("web", func(b *workv1alpha2.ResourceBinding) {
				b.Spec.Placement = placement(duplicated, affinity(named("m3")))
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			leaving := func(c *clusterv1alpha1.Cluster) { // it is not selected, so that it changes nothing
				c.Finalizers, c.DeletionTimestamp = []string{"x"}, &metav1.Time{Time: time.Unix(1, 0)}
			}
			h := newHub(t, member("m1", available(9), shade("dark")), member("m2", available(9)), member("m0", leaving), bindingOf("web", 3, tc.placement, func(b *workv1alpha2.ResourceBinding) {
				if tc.keep {
					b.Annotations = map[string]string{policyv1alpha1.KeepUnselectedAnnotation: "true"}
				}
			}))
			h.reconcile("web")
			h.expectTargets("web", "first", targets("m1", 3))
			tc.change(h)
			h.reconcile("web")
			h.expectTargets("web", name, tc.want)
			if b := h.binding("web"); b.Status.Conditions[0].Reason != "NoClusterFit" || b.Status.SchedulerObservedGeneration != b.Generation {
				t.Errorf("the status is %+v at generation %d", b.Status, b.Generation)
			}
			h.writes = nil
			h.reconcile("web")
			if len(h.writes) > 0 {
				t.Errorf("writes without news: %v", h.writes)
			}
		})
	}
}

func TestNotOurs(t *testing.T) {
	yes := true
	for name, edit := range map[string]func(*workv1alpha2.ResourceBinding){
		"Suspended":      func(b *workv1alpha2.ResourceBinding) { b.Spec.Suspension = &workv1alpha2.Suspension{Scheduling: &yes} },
		"OtherScheduler": func(b *workv1alpha2.ResourceBinding) { b.Spec.SchedulerName = "other" },
		"Attached":       func(b *workv1alpha2.ResourceBinding) { b.Labels = nil },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, member("m1"), bindingOf("web", 3, placement(duplicated), edit))
			h.reconcile("web")
			h.expect(name, nil)
		})
	}
}

func TestResumeCatchesUp(t *testing.T) {
	yes := true
	h := newHub(t, member("m1"), bindingOf("web", 3, placement(duplicated)))
	h.reconcile("web")
	h.writes, h.events = nil, nil
	h.change("web", func(b *workv1alpha2.ResourceBinding) {
		b.Spec.Suspension = &workv1alpha2.Suspension{Scheduling: &yes}
		b.Spec.Replicas = 8
	})
	h.reconcile("web")
	h.expect("suspended", nil)
	h.change("web", func(b *workv1alpha2.ResourceBinding) { b.Spec.Suspension = nil })
	h.reconcile("web")
	h.expectTargets("web", "resumed", targets("m1", 8))
}

func TestClusterBindingsAreTheSame(t *testing.T) {
	b := &workv1alpha2.ClusterResourceBinding{ObjectMeta: metav1.ObjectMeta{Name: "x", Generation: 1, Labels: map[string]string{policyv1alpha1.ClusterPropagationPolicyPermanentIDLabel: "1"}}}
	b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x"}
	h := newHub(t, member("m1"), b)
	for range 2 {
		if _, err := h.controller.Reconcile(h.ctx, types.NamespacedName{Name: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	h.expect("twice", wholeResult, "Normal ScheduleBindingSucceed ConfigMap/x: Binding has been scheduled successfully. Result: {m1:0}")
}

func TestRescheduleIsAnsweredOnce(t *testing.T) {
	h := newHub(t, member("m1", available(1)), member("m2", available(90)), bindingOf("web", 9, placement(dynamic), func(b *workv1alpha2.ResourceBinding) {
		b.Spec.Clusters = targets("m1", 9)
	}))
	h.reconcile("web")
	h.expectTargets("web", "steady", targets("m1", 9))
	h.change("web", func(b *workv1alpha2.ResourceBinding) {
		b.Spec.RescheduleTriggeredAt = &metav1.Time{Time: h.clock.Now()} // the same second as the first decision
	})
	h.writes, h.events = nil, nil
	h.reconcile("web")
	h.expectTargets("web", "afresh", targets("m1", 1, "m2", 8))
	h.writes, h.events = nil, nil
	h.reconcile("web")
	h.expect("once", nil)
	h.clock.Step(time.Hour)
	h.change("web", func(b *workv1alpha2.ResourceBinding) {
		b.Spec.RescheduleTriggeredAt = &metav1.Time{Time: h.clock.Now()}
		b.Spec.Placement = placement(static())
	})
	h.reconcile("web")
	h.reconcile("web")
	h.expectTargets("web", "and later again", targets("m1", 5, "m2", 4))
}

func TestStaleCacheWritesNothing(t *testing.T) {
	h := newHub(t, member("m1"), bindingOf("web", 3, placement(duplicated)))
	old := h.binding("web")
	h.reconcile("web")
	h.writes, h.events = nil, nil
	h.stale = old
	if again := h.reconcile("web"); again == 0 {
		t.Error("does not look again once the cache has caught up")
	}
	h.expect("the cache shows the binding from before", []string{"result"})
	h.stale = nil
	h.reconcile("web")
	h.expect("caught up", nil)
}

func TestConflictIsTriedAgainQuietly(t *testing.T) {
	h := newHub(t, member("m1", available(5)), bindingOf("web", 4, placement(dynamic)))
	h.refuse = apierrors.NewConflict(schema.GroupResource{Resource: "resourcebindings"}, "web", nil)
	if again := h.reconcile("web"); again == 0 {
		t.Error("does not look again")
	}
	h.expect("refused", []string{"result"})
	h.reconcile("web")
	h.expectTargets("web", "capacity for 5 is not used up by the failed write", targets("m1", 4))
}

func TestRefusalIsPublished(t *testing.T) {
	for reason, want := range map[metav1.StatusReason]string{"Forbidden": "SchedulerError", "QuotaExceeded": "QuotaExceeded"} {
		h := newHub(t, member("m1"), bindingOf("web", 4, placement(duplicated)))
		refused := apierrors.NewForbidden(schema.GroupResource{Resource: "resourcebindings"}, "web", fmt.Errorf("the team has no more"))
		refused.ErrStatus.Reason = reason
		h.refuse = refused
		h.reconcile("web")
		h.expectCondition("web", want, "resourcebindings")
		h.expectTargets("web", "refused", nil)
	}
}

func TestBurstDoesNotOvercommit(t *testing.T) {
	h := newHub(t, member("m1", available(10)), member("m2", available(10)), bindingOf("a", 8, placement(aggregated)),
		bindingOf("b", 8, placement(aggregated)), bindingOf("c", 8, placement(aggregated)))
	for _, name := range []string{"a", "b", "c"} {
		h.reconcile(name)
	}
	h.expectTargets("a", "the first", targets("m1", 8))
	h.expectTargets("b", "m1 has two places left, though it does not say so yet", targets("m2", 8))
	h.expectTargets("c", "four places are not eight", nil)
	h.expectCondition("c", "Unschedulable", "Clusters available replicas 4 are not enough to schedule.")

	// a's copy comes to run and m1 reports that: ten new nodes, eight places taken.
	before, after := h.binding("a"), h.binding("a")
	after.Status.AggregatedStatus = []workv1alpha2.AggregatedStatusItem{{ClusterName: "m1", Applied: true, Health: workv1alpha2.ResourceHealthy}}
	h.controller.Confirm(before, after)
	h.changeCluster("m1", available(12))
	h.controller.Reported("m1")
	h.reconcile("c")
	h.expectTargets("c", "what m1 reports now counts once", targets("m1", 8))
}

// What goes to every cluster in full takes capacity as well, and so does a whole set of components.
func TestCopiesInFullAreReserved(t *testing.T) {
	set := func(b *workv1alpha2.ResourceBinding) {
		part := &workv1alpha2.ComponentReplicaRequirements{ResourceRequest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
		b.Spec.Replicas, b.Spec.ReplicaRequirements = 0, nil
		b.Spec.Components = []workv1alpha2.Component{{Name: "head", Replicas: 1, ReplicaRequirements: part}, {Name: "worker", Replicas: 3, ReplicaRequirements: part}}
	}
	inOne := placement(aggregated, spread(byCluster, 1, 1))
	h := newHub(t, member("m1", available(10)), member("m2", available(11)), bindingOf("copies", 5, placement(duplicated)),
		bindingOf("first", 0, inOne, set), bindingOf("second", 0, inOne, set), bindingOf("third", 0, inOne, set),
		bindingOf("divided", 4, placement(dynamic)))
	for _, name := range []string{"copies", "first", "second", "third", "divided"} {
		h.reconcile(name)
	}
	h.expectTargets("copies", "five in each", targets("m1", 5, "m2", 5))
	h.expectTargets("first", "five are left in m1, six in m2, and a set needs four", targets("m1", 0))
	h.expectTargets("second", "one is left in m1", targets("m2", 0))
	h.expectTargets("third", "one and two do not hold a set", nil)
	h.expectTargets("divided", "nor do they hold four", nil)
	h.expectCondition("divided", "Unschedulable", "Clusters available replicas 3 are not enough to schedule.")

	h.change("copies", func(b *workv1alpha2.ResourceBinding) { b.Spec.Replicas = 4 })
	h.reconcile("copies")
	h.reconcile("divided")
	h.expectTargets("divided", "one place came free in each", targets("m1", 2, "m2", 2))
}

func TestReservationsSurviveARestart(t *testing.T) {
	aggregate := func(health workv1alpha2.ResourceHealth, status string) workv1alpha2.AggregatedStatusItem {
		item := workv1alpha2.AggregatedStatusItem{ClusterName: "m1", Applied: true, Health: health}
		if status != "" {
			item.Status = &runtime.RawExtension{Raw: []byte(status)}
		}
		return item
	}
	for reason, tc := range map[string]struct {
		edit      func(*workv1alpha2.ResourceBinding, time.Time)
		available string // what is left of the ten places that m1 reports
	}{
		"nothing is reported of the copy": {func(*workv1alpha2.ResourceBinding, time.Time) {}, "2"},
		"three pods of it are counted": {func(b *workv1alpha2.ResourceBinding, _ time.Time) {
			b.Status.AggregatedStatus = []workv1alpha2.AggregatedStatusItem{aggregate(workv1alpha2.ResourceUnhealthy, `{"replicas":3}`)}
		}, "5"},
		"it was scaled and shows the old number": {func(b *workv1alpha2.ResourceBinding, _ time.Time) {
			b.Status.AggregatedStatus = []workv1alpha2.AggregatedStatusItem{aggregate(workv1alpha2.ResourceHealthy, `{"replicas":6}`)}
		}, "8"},
		"it is healthy, of a kind without a number": {func(b *workv1alpha2.ResourceBinding, _ time.Time) {
			b.Status.AggregatedStatus = []workv1alpha2.AggregatedStatusItem{aggregate(workv1alpha2.ResourceHealthy, `{"active":1}`)}
		}, "10"},
		"it was long ago": {func(b *workv1alpha2.ResourceBinding, now time.Time) {
			b.Status.LastScheduledTime = &metav1.Time{Time: now.Add(-time.Hour)}
		}, "10"},
	} {
		t.Run(reason, func(t *testing.T) {
			h := newHub(t, member("m1", available(10)), bindingOf("a", 8, placement(aggregated)), bindingOf("b", 11, placement(aggregated)))
			h.reconcile("a")
			h.expectTargets("a", "before the restart", targets("m1", 8))
			a := h.binding("a")
			tc.edit(a, h.clock.Now())
			if err := h.client.Status().Update(h.ctx, a); err != nil {
				t.Fatal(err)
			}
			h.restart()
			h.controller.Recall(h.binding("a"))
			h.reconcile("b")
			h.expectCondition("b", "Unschedulable", "Clusters available replicas "+tc.available+" are not enough to schedule.")
		})
	}
}

func TestAClusterThatLeavesIsDropped(t *testing.T) {
	leave := func(c *clusterv1alpha1.Cluster) {
		c.Finalizers, c.DeletionTimestamp = []string{"x"}, &metav1.Time{Time: time.Unix(1, 0)}
	}
	for name, p := range map[string]*policyv1alpha1.Placement{
		"Duplicated": placement(duplicated), "Static": placement(static("m1", 1, "m2", 1)),
		"Dynamic": placement(dynamic), "Aggregated": placement(aggregated),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, member("m1", available(9), leave), member("m2", available(9)), bindingOf("web", 4, p, func(b *workv1alpha2.ResourceBinding) {
				b.Spec.Clusters = targets("m1", 4)
			}))
			h.reconcile("web")
			h.expectTargets("web", "the other takes over", targets("m2", 4))
		})
		t.Run(name+"WithNowhereToGo", func(t *testing.T) {
			h := newHub(t, member("m1", available(9), leave), member("m2", available(9), tainted("a", "b", corev1.TaintEffectNoSchedule)),
				bindingOf("web", 4, p, func(b *workv1alpha2.ResourceBinding) { b.Spec.Clusters = targets("gone", 1, "m1", 3) }))
			h.reconcile("web")
			h.expectTargets("web", "what leaves is no target, whatever becomes of the rest", nil)
			h.expectCondition("web", "NoClusterFit", "0/2 clusters fit: 1 has taint a=b:NoSchedule, 1 is being deleted")
			h.writes, h.events = nil, nil
			h.reconcile("web")
			h.expect("and rest", nil)
		})
	}
}

func TestParallelWorkersDoNotOvercommit(t *testing.T) {
	objects := []client.Object{member("m1", available(50)), member("m2", available(57))}
	for i := range 20 {
		objects = append(objects, bindingOf(fmt.Sprintf("b%02d", i), 10, placement(dynamic)))
	}
	h := newHub(t, objects...)
	var workers sync.WaitGroup
	for i := range 20 {
		workers.Go(func() {
			if _, err := h.controller.Reconcile(h.ctx, types.NamespacedName{Namespace: "shop", Name: fmt.Sprintf("b%02d", i)}); err != nil {
				t.Error(err)
			}
		})
	}
	workers.Wait()
	placed, used := 0, map[string]int32{}
	for i := range 20 {
		for _, target := range h.binding(fmt.Sprintf("b%02d", i)).Spec.Clusters {
			used[target.Name] += target.Replicas
			placed += int(target.Replicas)
		}
	}
	if placed != 100 || used["m1"] > 50 || used["m2"] > 57 {
		t.Errorf("placed %d replicas as %v, want ten bindings of ten within 50 and 57", placed, used)
	}
}

func TestOnlyWhatMustMoves(t *testing.T) {
	prod := policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}}
	h := newHub(t, member("m1", labelled("env", "prod"), available(20)), member("m2", labelled("env", "prod"), available(20)), member("m3", labelled("env", "prod"), available(20)),
		bindingOf("web", 9, placement(dynamic, affinity(prod))))
	h.reconcile("web")
	h.expectTargets("web", "evenly", targets("m1", 3, "m2", 3, "m3", 3))
	h.writes, h.events = nil, nil
	h.changeCluster("m2", tainted("maintenance", "", corev1.TaintEffectNoSchedule))
	h.reconcile("web")
	h.expect("a taint drives nothing out", nil)
	h.changeCluster("m3", labelled("env", "test"))
	h.reconcile("web")
	h.expectTargets("web", "m3's replicas go to m1 and m2, which keep theirs", targets("m1", 5, "m2", 4))
	h.writes, h.events = nil, nil
	h.changeCluster("m3", labelled("env", "prod"))
	h.reconcile("web")
	h.expect("and do not come back by themselves", nil)
}

func TestWeightsThatAreWrittenDownFollowTheFleet(t *testing.T) {
	h := newHub(t, member("m1"), bindingOf("web", 4, placement(static("m1", 1, "m2", 1))))
	h.reconcile("web")
	h.expectTargets("web", "m2 has not joined", targets("m1", 4))
	if err := h.client.Create(h.ctx, member("m2")); err != nil {
		t.Fatal(err)
	}
	h.controller.Touch("m2")
	h.reconcile("web")
	h.expectTargets("web", "m2 gets the share it is named for", targets("m1", 2, "m2", 2))
}

func TestPartialPlacement(t *testing.T) {
	h := newHub(t, member("m1", available(5)), bindingOf("web", 8, placement(dynamic), annotated(policyv1alpha1.PartialPlacementAnnotation, "true")))
	h.reconcile("web")
	h.expectTargets("web", "what fits", targets("m1", 5))
	h.expectCondition("web", "Unschedulable", "5 of 8 replicas are placed. Clusters available replicas 5 are not enough")
	h.writes, h.events = nil, nil
	h.reconcile("web")
	h.expect("decided again, as when another binding goes, nothing is written", nil)
	h.changeCluster("m1", available(12)) // the five are reserved still: seven more fit
	h.reconcile("web")
	h.expectTargets("web", "the rest", targets("m1", 8))
	h.expectCondition("web", "Success", "Binding has been scheduled successfully.")
}

func TestFailback(t *testing.T) {
	p := placement(duplicated, term("home", named("m1")), term("away", named("m2")))
	h := newHub(t, member("m1", tainted("down", "", corev1.TaintEffectNoSchedule)), member("m2"),
		bindingOf("web", 1, p), bindingOf("back", 1, p, annotated(policyv1alpha1.FailbackAnnotation, "10m")))
	names := []string{"web", "back"}
	for _, name := range names {
		h.reconcile(name)
		h.expectTargets(name, "away while home is down", targets("m2", 1))
	}
	h.changeCluster("m1", func(c *clusterv1alpha1.Cluster) { c.Spec.Taints = nil })
	for _, name := range names {
		h.reconcile(name)
	}
	h.clock.Step(9 * time.Minute)
	if again := h.reconcile("back"); again != time.Minute {
		t.Errorf("looks again in %s, want the rest of the ten minutes", again)
	}
	h.expectTargets("back", "home has been up for nine minutes", targets("m2", 1))
	h.clock.Step(time.Minute)
	for _, name := range names {
		h.reconcile(name)
	}
	h.expectTargets("back", "home for ten minutes", targets("m1", 1))
	h.expectTargets("web", "not requested to return", targets("m2", 1))
	if got := h.binding("back").Status.SchedulerObservedAffinityName; got != "home" {
		t.Errorf("observed affinity %q, want home", got)
	}
}

func TestAntiAffinityPeersKeepApart(t *testing.T) {
	apart := func(b *workv1alpha2.ResourceBinding) {
		b.Spec.WorkloadAffinityGroups = &workv1alpha2.WorkloadAffinityGroups{AntiAffinityGroup: "app=db"}
	}
	one := placement(duplicated, spread(byCluster, 1, 1))
	h := newHub(t, member("m1"), member("m2"), bindingOf("a", 1, one, apart), bindingOf("b", 1, one, apart), bindingOf("c", 1, one, apart))
	for _, name := range []string{"a", "b", "c"} {
		h.reconcile(name)
	}
	h.expectTargets("a", "first", targets("m1", 1))
	h.expectTargets("b", "elsewhere, though the cache may not show a yet", targets("m2", 1))
	h.expectCondition("c", "NoClusterFit", "0/2 clusters fit: 2 have an object of anti-affinity group app=db")
}

// TestNodesThatAreReportedCount: a cluster whose nodes are full has no capacity, whatever its totals are; what was reported of a former
// cluster of that name does not count.
func TestNodesThatAreReportedCount(t *testing.T) {
	first := member("m1", func(c *clusterv1alpha1.Cluster) { c.UID = "1" })
	h := newHub(t, first, member("m2"), bindingOf("web", 4, placement(dynamic)), bindingOf("db", 4, placement(dynamic)), bindingOf("api", 4, placement(dynamic)))
	report := func(owner types.UID, edit func(*fleetv1alpha1.ClusterCapacity)) {
		t.Helper()
		c := &fleetv1alpha1.ClusterCapacity{ObjectMeta: metav1.ObjectMeta{Name: "m1"}}
		if err := h.client.Get(h.ctx, client.ObjectKeyFromObject(c), c); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "cluster.karmada.io/v1alpha1", Kind: "Cluster", Name: "m1", UID: owner}}
		edit(c)
		write := h.client.Update
		if c.ResourceVersion == "" {
			write = func(ctx context.Context, obj client.Object, _ ...client.UpdateOption) error {
				return h.client.Create(ctx, obj)
			}
		}
		if err := write(h.ctx, c); err != nil {
			t.Fatal(err)
		}
		h.controller.Touch("m1")
	}
	report("0", func(*fleetv1alpha1.ClusterCapacity) {})
	h.reconcile("web")
	h.expectTargets("web", "a report about another Cluster does not count", targets("m1", 2, "m2", 2))
	report("1", func(*fleetv1alpha1.ClusterCapacity) {})
	h.reconcile("db")
	h.expectTargets("db", "a cluster without nodes holds nothing", targets("m2", 4))
	report("1", func(c *fleetv1alpha1.ClusterCapacity) {
		c.Nodes = []fleetv1alpha1.NodeSet{{Buckets: []fleetv1alpha1.Bucket{{Count: 100, Free: corev1.ResourceList{"cpu": resource.MustParse("1"), "pods": resource.MustParse("1")}}}}}
	})
	h.reconcile("api")
	h.expectTargets("api", "a new report counts", targets("m1", 2, "m2", 2))
}
