// Package pipeline_test follows objects through the whole control plane, from a user's request to the members and back, on
// real API servers.
package pipeline_test

import (
	"errors"
	"flag"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// shared is two members with workload controllers, a scheduler and simulated nodes.
var shared = fleettest.Shared{Options: fleettest.Options{Members: 2}}

// waiting is how many of the tests that call t.Parallel run at a time. They wait for most of their time: for periods of the control plane,
// or for processes of their own. They run after all others, which may end and restart members of the shared fleet.
const waiting = "4"

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", waiting); err != nil {
			panic(err)
		}
	}
	shared.Main(m)
}

func binding(namespace, kind, name string) *workv1alpha2.ResourceBinding {
	return &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: workv1alpha2.BindingName(kind, name),
	}}
}

func work(cluster, kind, namespace, name string) *workv1alpha1.Work {
	return &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: workv1alpha1.ExecutionNamespace(cluster), Name: workv1alpha1.WorkName(kind, namespace, name),
	}}
}

// workIs is the condition of a Work one of whose conditions has a status and a reason; an empty reason is any.
func workIs(kind string, status metav1.ConditionStatus, reason string) func(*workv1alpha1.Work) error {
	return func(w *workv1alpha1.Work) error { return conditionIs(w.Status.Conditions, kind, status, reason) }
}

func bindingIs(kind string, status metav1.ConditionStatus, reason string) func(*workv1alpha2.ResourceBinding) error {
	return func(b *workv1alpha2.ResourceBinding) error {
		return conditionIs(b.Status.Conditions, kind, status, reason)
	}
}

func conditionIs(conditions []metav1.Condition, kind string, status metav1.ConditionStatus, reason string) error {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return fmt.Errorf("condition %s is absent", kind)
	}
	if c.Status != status || reason != "" && c.Reason != reason {
		return fmt.Errorf("condition %s is %s (%s): %s", kind, c.Status, c.Reason, c.Message)
	}
	return nil
}

// ready is the condition of a template whose status accounts for n ready replicas of its present generation.
func ready(n int32) func(*appsv1.Deployment) error {
	return func(d *appsv1.Deployment) error {
		s := d.Status
		if s.ObservedGeneration != d.Generation || s.ReadyReplicas != n || s.UpdatedReplicas != n || s.AvailableReplicas != n {
			return fmt.Errorf("status of generation %d is %+v, want %d replicas", d.Generation, s, n)
		}
		return nil
	}
}

// expectBack waits until a member that was away takes objects again, for the tests that follow.
func expectBack(t *testing.T, fleet *fleettest.Fleet, member string) {
	t.Helper()
	fleettest.ExpectEventually(t, fleet.Hub, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: member}}, func(c *clusterv1alpha1.Cluster) error {
		if len(c.Spec.Taints) > 0 {
			return fmt.Errorf("its taints are %v", c.Spec.Taints)
		}
		return fleettest.ConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
	})
}

// expectSettled waits until nothing more will be written about a ConfigMap that does not change: its Works and its binding have their last
// status.
func expectSettled(t *testing.T, fleet *fleettest.Fleet, ns, name string, members ...string) {
	t.Helper()
	for _, m := range members {
		fleettest.ExpectEventually(t, fleet.Hub, work(m, "ConfigMap", ns, name), func(w *workv1alpha1.Work) error {
			return errors.Join(done(w), healthIs(workv1alpha1.ResourceHealthy)(w))
		})
	}
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", name), func(b *workv1alpha2.ResourceBinding) error {
		if len(b.Status.AggregatedStatus) != len(members) {
			return fmt.Errorf("the aggregated status is %+v", b.Status.AggregatedStatus)
		}
		for _, item := range b.Status.AggregatedStatus {
			if !item.Applied || item.Health != workv1alpha2.ResourceHealthy {
				return fmt.Errorf("the aggregated status is %+v", b.Status.AggregatedStatus)
			}
		}
		return bindingIs(workv1alpha2.FullyApplied, metav1.ConditionTrue, "")(b)
	})
}

// divided places replicas three to two, as the nginx example does.
func divided() (fleettest.Weight, fleettest.Weight) {
	return fleettest.Weight{Cluster: "member1", Weight: 3}, fleettest.Weight{Cluster: "member2", Weight: 2}
}

func key(o client.Object) string { return o.GetNamespace() + "/" + o.GetName() }
