package faults_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// A member is killed: an object whose policy has cluster failover is created in the other member, one whose policy has not stays. The
// member that returns loses the copy, but an object whose policy has failback returns to it. When no member is left, nothing moves, and
// the Cluster has the reason, until a person releases it.
func objectsMove(t *testing.T, hub *fleettest.Part) {
	first, second := fleettest.StartMember(t, "first", "--bare"), fleettest.StartMember(t, "second", "--bare")
	hub.Join(t, "first", first.Kubeconfig)
	ns := namespace(t, hub.Cluster, "moving")
	returns := fleettest.ConfigMap(ns, "returns", nil)
	back := fleettest.Policy(ns, "returns", inOneOf("first", "second"), returns)
	back.Spec.Failover = &policyv1alpha1.FailoverBehavior{Cluster: &policyv1alpha1.ClusterFailoverBehavior{}}
	back.Annotations = map[string]string{policyv1alpha1.ClusterFailbackAnnotation: policyv1alpha1.ClusterFailbackWhenHealthy, policyv1alpha1.ClusterFailbackSoakAnnotation: "2s"}
	fleettest.Create(t, hub.Cluster, returns, back)
	fleettest.ExpectEventually(t, first.Cluster, returns, fleettest.Exists)
	hub.Join(t, "second", second.Kubeconfig)
	moves, stays := fleettest.ConfigMap(ns, "moves", nil), fleettest.ConfigMap(ns, "stays", nil)
	policy := fleettest.Policy(ns, "moves", placeInOne(), moves)
	policy.Spec.Failover = &policyv1alpha1.FailoverBehavior{Cluster: &policyv1alpha1.ClusterFailoverBehavior{}}
	fleettest.Create(t, hub.Cluster, moves, stays, policy, fleettest.Policy(ns, "stays", fleettest.To("first"), stays))
	fleettest.ExpectEventually(t, first.Cluster, moves, fleettest.Exists)
	fleettest.ExpectEventually(t, first.Cluster, stays, fleettest.Exists)

	first.Kill()
	fleettest.ExpectEventually(t, second.Cluster, moves, fleettest.Exists)
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: workv1alpha2.BindingName("ConfigMap", "moves")}}
	fleettest.ExpectEventually(t, hub.Cluster, b, func(b *workv1alpha2.ResourceBinding) error {
		if len(b.Spec.Clusters) != 1 || b.Spec.Clusters[0].Name != "second" || len(b.Spec.GracefulEvictionTasks) > 0 {
			return fmt.Errorf("it is in %v, with the tasks %v", b.Spec.Clusters, b.Spec.GracefulEvictionTasks)
		}
		return nil
	})
	fleettest.ExpectAbsent(t, second.Cluster, stays)
	fleettest.ExpectEventually(t, hub.Cluster, bindingOf(ns, "ConfigMap", "returns"), healthyIn("second"))

	first.Start(t)
	fleettest.ExpectEventually(t, hub.Cluster, bindingOf(ns, "ConfigMap", "returns"), healthyIn("first"))
	fleettest.ExpectGone(t, second.Cluster, returns)
	fleettest.ExpectEventually(t, first.Cluster, returns, fleettest.Exists)
	fleettest.ExpectGone(t, first.Cluster, moves)
	fleettest.ExpectEventually(t, first.Cluster, stays, fleettest.Exists)

	first.Kill()
	// What may leave it has left it, so that nothing is held there when the other one is not ready either.
	fleettest.ExpectEventually(t, hub.Cluster, bindingOf(ns, "ConfigMap", "returns"), healthyIn("second"))
	second.Kill()
	fleettest.ExpectEventually(t, hub.Cluster, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "second"}}, func(c *clusterv1alpha1.Cluster) error {
		held := meta.FindStatusCondition(c.Status.Conditions, clusterv1alpha1.ClusterConditionEvictionHeld)
		if held == nil || held.Status != metav1.ConditionTrue || held.Reason != clusterv1alpha1.ControlPlaneSuspectReason {
			return fmt.Errorf("EvictionHeld is %+v", held)
		}
		return nil
	})
	fleettest.ExpectEventually(t, hub.Cluster, b, func(b *workv1alpha2.ResourceBinding) error {
		if len(b.Spec.Clusters) != 1 || b.Spec.Clusters[0].Name != "second" || len(b.Spec.GracefulEvictionTasks) > 0 {
			return fmt.Errorf("it is in %v, with the tasks %v", b.Spec.Clusters, b.Spec.GracefulEvictionTasks)
		}
		return nil
	})
	if r := fleettest.Flagship(t, "failover", "release", "--all", "--kubeconfig", hub.Kubeconfig); r.Code != 0 || !strings.HasPrefix(r.Stdout, "objects may leave cluster second until ") {
		t.Errorf("releasing ended with code %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	fleettest.ExpectEventually(t, hub.Cluster, b, heldFor(workv1alpha2.NothingFitsReason))
	// The other members of the package are not to wait for these two.
	for _, name := range []string{"first", "second"} {
		fleettest.Delete(t, hub.Cluster, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
}

// placeInOne prefers the member first.
func placeInOne() policyv1alpha1.Placement {
	term := func(name string) policyv1alpha1.ClusterAffinityTerm {
		return policyv1alpha1.ClusterAffinityTerm{AffinityName: name, ClusterAffinity: policyv1alpha1.ClusterAffinity{ClusterNames: []string{name}}}
	}
	return policyv1alpha1.Placement{ClusterAffinities: []policyv1alpha1.ClusterAffinityTerm{term("first"), term("second")}}
}
