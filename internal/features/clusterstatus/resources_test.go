package clusterstatus

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/features/clusterstatus/summary"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
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

func TestConditionOfWhatCannotBeCounted(t *testing.T) {
	accounts := bounds.NewAccounts()
	resources := summary.NewResources(func(string, bool) {})
	_, _ = resources.Nodes.Replace([]any{readyNode("a", "4")}, ""), resources.Pods.Replace(nil, "")
	w := &resourceWatch{
		refused: &refusals{changed: func() {}}, accounts: accounts, resources: resources, devices: &deviceWatch{devices: summary.NewDevices(func() {}, func() {})},
	}
	tooMuch := bounds.Pods.Check(bounds.Amount{Objects: bounds.Pods.Kept.Objects + 1})
	for name, c := range map[string]struct {
		refused error
		excess  string
		reason  string
		counted bool
	}{
		"may not be read":          {apierrors.NewForbidden(corev1.Resource("pods"), "", nil), "", clusterv1alpha1.ResourcesForbiddenReason, false},
		"too many":                 {nil, pods, clusterv1alpha1.ResourcesTooManyReason, false},
		"too much of another kind": {nil, "configmaps", clusterv1alpha1.ResourcesTooManyReason, true},
		"both":                     {apierrors.NewForbidden(corev1.Resource("pods"), "", nil), "configmaps", clusterv1alpha1.ResourcesTooManyReason, false},
		"nothing":                  {nil, "", "", true},
	} {
		w.refused.note(pods, c.refused)
		if c.excess != "" {
			accounts.Note(c.excess, tooMuch)
		}
		status := &clusterv1alpha1.ClusterStatus{NodeSummary: &clusterv1alpha1.NodeSummary{}}
		w.writeTo(status, nil)
		condition := meta.FindStatusCondition(status.Conditions, clusterv1alpha1.ClusterConditionResourcesReadable)
		if reason := ""; condition != nil {
			if reason = condition.Reason; condition.Status != metav1.ConditionFalse || reason != c.reason {
				t.Errorf("%s: condition %v", name, condition)
			}
		} else if c.reason != "" {
			t.Errorf("%s: there is no condition", name)
		}
		if counted := status.NodeSummary != nil; counted != c.counted {
			t.Errorf("%s: there is a summary: %v", name, counted)
		}
		w.refused.note(pods, nil)
		accounts.Note(c.excess, nil)
	}
}

// TestWhatAMemberServesHasABound: what becomes part of the status of a Cluster has to fit into it.
func TestWhatAMemberServesHasABound(t *testing.T) {
	group := func(resources int, name string) []clusterv1alpha1.APIEnablement {
		return []clusterv1alpha1.APIEnablement{{GroupVersion: "a/v1", Resources: slices.Repeat([]clusterv1alpha1.APIResource{{Name: name, Kind: name}}, resources)}}
	}
	long := strings.Repeat("x", 1000)
	for name, c := range map[string]struct {
		enabled []clusterv1alpha1.APIEnablement
		fits    bool
	}{
		"a cluster": {group(1000, "configmaps"), true}, "many kinds": {group(20_000, "c"), false}, "long names": {group(1000, long), false},
		"many groups": {slices.Repeat(group(0, ""), 20_000), false},
	} {
		if err := checkKinds(c.enabled); c.fits != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
	list := func(n int, prefix string) corev1.ResourceList {
		out := corev1.ResourceList{}
		for i := range n {
			out[corev1.ResourceName(fmt.Sprint(prefix, i))] = resource.MustParse("1")
		}
		return out
	}
	for name, c := range map[string]struct {
		sums *clusterv1alpha1.ResourceSummary
		fits bool
	}{
		"a cluster": {&clusterv1alpha1.ResourceSummary{Allocatable: list(20, "a"), Allocated: list(20, "a")}, true},
		"many":      {&clusterv1alpha1.ResourceSummary{Allocating: list(300, "a")}, false},
		"long":      {&clusterv1alpha1.ResourceSummary{Allocated: list(100, long)}, false},
	} {
		if err := checkNames(c.sums); c.fits != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func everyTenSeconds() Periods { return Periods{Probe: 10 * time.Second} }
