package clusterstatus

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
	"github.com/flagship-k8s/flagship/internal/features/clusterstatus/summary"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

func readyNode(name, cpu string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourcePods: resource.MustParse("10")},
		Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
}

// TestResourcesAreWrittenOncePerPeriod: what changes all the time costs one write in a period, and readiness does not wait for it.
func TestResourcesAreWrittenOncePerPeriod(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1alpha1.AddToScheme(scheme), fleetv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "eu", UID: "1"}}
	hub := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(cluster).WithObjects(cluster).Build()
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	o := &clusterObserver{hub: hub, Deps: Deps{Clock: clock, Periods: everyTenSeconds, Events: events.RecorderFunc(func(events.Event) {})}}
	resources := summary.NewResources(func(string, bool) {})
	s := &clusterState{resources: &resourceWatch{
		resources: resources, refused: &refusals{changed: func() {}}, devices: &deviceWatch{devices: summary.NewDevices(func() {}, func() {})},
	}}
	nodes := func(list ...any) { _ = resources.Nodes.Replace(list, "") }
	_ = resources.Pods.Replace(nil, "")
	nodes(readyNode("a", "4"))
	s.health.published = clusterv1alpha1.Ready()
	expect := func(reason string, cpu string, ready metav1.ConditionStatus) {
		t.Helper()
		c, capacity := &clusterv1alpha1.Cluster{}, &fleetv1alpha1.ClusterCapacity{}
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(cluster), c); err != nil {
			t.Fatal(err)
		}
		if err := o.write(t.Context(), c, s); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(hub.Get(t.Context(), client.ObjectKeyFromObject(cluster), c), hub.Get(t.Context(), client.ObjectKeyFromObject(cluster), capacity)); err != nil {
			t.Fatal(err)
		}
		want, sum, free := resource.MustParse(cpu), c.Status.ResourceSummary.Allocatable[corev1.ResourceCPU], resource.Quantity{}
		for _, set := range capacity.Nodes {
			free.Add(set.Buckets[0].Free[corev1.ResourceCPU])
		}
		if sum.Cmp(want) != 0 || free.Cmp(want) != 0 {
			t.Errorf("%s: status has %s, capacity %s CPUs, want %s", reason, sum.String(), free.String(), cpu)
		}
		if !meta.IsStatusConditionPresentAndEqual(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady, ready) {
			t.Errorf("%s: Ready is not %s", reason, ready)
		}
		if len(capacity.OwnerReferences) != 1 || capacity.OwnerReferences[0].UID != "1" {
			t.Errorf("the capacity is owned by %v", capacity.OwnerReferences)
		}
	}
	expect("the first report is written at once", "4", metav1.ConditionTrue)
	nodes(readyNode("a", "4"), readyNode("b", "3"))
	clock.Step(9 * time.Second)
	s.health.published = clusterv1alpha1.NotReady(clusterv1alpha1.ClusterNotReadyReason, "etcd")
	expect("a change waits for the period, readiness does not", "4", metav1.ConditionFalse)
	if due, at := s.reportsResources(clock.Now(), o.Periods().Probe); due || at.Sub(clock.Now()) != time.Second {
		t.Errorf("the next report is due in %s", at.Sub(clock.Now()))
	}
	clock.Step(time.Second)
	expect("and is written when it is over", "7", metav1.ConditionFalse)
	clock.Step(time.Hour)
	expect("what does not change is not written", "7", metav1.ConditionFalse)
	nodes(readyNode("b", "3"))
	expect("so that the next change is written at once", "3", metav1.ConditionFalse)
	special := readyNode("c", "2")
	special.Status.Allocatable["example.com/gpu"] = resource.MustParse("1")
	nodes(special)
	expect("and so is a resource that the cluster did not have", "2", metav1.ConditionFalse)
}

// TestAMemberThatListsWithoutEndIsCutOff: objects are reduced to what is needed of them before they are collected, and their number is
// bounded.
func TestAMemberThatListsWithoutEndIsCutOff(t *testing.T) {
	big := func(i int) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint(i), ResourceVersion: "7", Annotations: map[string]string{"big": "…"}, ManagedFields: make([]metav1.ManagedFieldsEntry, 1)},
			Spec:       corev1.PodSpec{NodeName: "n", Volumes: make([]corev1.Volume, 3), Containers: []corev1.Container{{Name: "web", Env: make([]corev1.EnvVar, 9)}}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning, Message: "…"},
		}
	}
	var full error
	source := watch.NewFakeWithChanSize(10, false)
	pods := bounded(memberwatch.FromClient(
		func(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
			return &corev1.PodList{Items: []corev1.Pod{big(0), big(1)}}, nil
		},
		func(context.Context, metav1.ListOptions) (watch.Interface, error) { return source, nil },
	), "pods", 3, reducePod, func(err error) { full = err })

	page := func(token string) (*corev1.PodList, error) {
		list, err := pods.List(t.Context(), metav1.ListOptions{Continue: token})
		return list.(*corev1.PodList), err
	}
	first, err := page("")
	if err != nil {
		t.Fatal(err)
	}
	want := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "0", ResourceVersion: "7"},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{}}, InitContainers: []corev1.Container{}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if got := first.Items[0]; got.String() != want.String() {
		t.Errorf("a pod is reduced to %v", got)
	}
	if _, err := page("more"); !errors.Is(err, errTooMany) || !errors.Is(full, errTooMany) {
		t.Errorf("a list with four pods is accepted: %v", err)
	}
	full = nil
	if _, err := page(""); err != nil {
		t.Errorf("the pages of a former list count: %v", err)
	}

	events, err := pods.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	for i := range 3 {
		source.Add(new(big(i)))
	}
	source.Delete(new(big(0)))
	source.Add(new(big(0)))
	for range 5 {
		if e, err := events.Next(); err != nil || e.Type == watch.Error || e.Object.(*corev1.Pod).Annotations != nil {
			t.Fatalf("event %v, %v", e, err)
		}
	}
	source.Add(new(big(4)))
	if e, err := events.Next(); err != nil || e.Type != watch.Error || !errors.Is(full, errTooMany) {
		t.Errorf("a fourth pod is shown: %v", e)
	}
}

func TestConditionOfWhatCannotBeCounted(t *testing.T) {
	w := &resourceWatch{refused: &refusals{changed: func() {}}}
	status := &clusterv1alpha1.ClusterStatus{NodeSummary: &clusterv1alpha1.NodeSummary{}}
	for reason, err := range map[string]error{
		clusterv1alpha1.ResourcesForbiddenReason: apierrors.NewForbidden(corev1.Resource("pods"), "", nil),
		clusterv1alpha1.ResourcesTooManyReason:   fmt.Errorf("%w pods", errTooMany),
	} {
		w.refused.note("pods", err)
		w.writeTo(status, nil)
		condition := meta.FindStatusCondition(status.Conditions, clusterv1alpha1.ClusterConditionResourcesReadable)
		if condition == nil || condition.Status != metav1.ConditionFalse || condition.Reason != reason || status.NodeSummary != nil {
			t.Errorf("%v: condition %v, summary %v", err, condition, status.NodeSummary)
		}
		w.refused.note("pods", nil)
	}
}

func everyTenSeconds() Periods { return Periods{Probe: 10 * time.Second} }
