package faults_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// workloadsMove uses two members with workload controllers and one node each.
func workloadsMove(t *testing.T, hub *fleettest.Part) {
	one, two := fleettest.StartMember(t, "one", "--nodes=1"), fleettest.StartMember(t, "two", "--nodes=1")
	hub.Join(t, "one", one.Kubeconfig)
	ns := namespace(t, hub.Cluster, "workloads")
	retained := statefulSet(ns, "retained", appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	deleted := statefulSet(ns, "deleted", appsv1.DeletePersistentVolumeClaimRetentionPolicyType)
	policy := fleettest.Policy(ns, "sets", inOneOf("one", "two"), retained, deleted)
	policy.Annotations = map[string]string{policyv1alpha1.HandoverAnnotation: policyv1alpha1.HandoverExclusive}
	policy.Spec.Failover = &policyv1alpha1.FailoverBehavior{Cluster: &policyv1alpha1.ClusterFailoverBehavior{}}
	fleettest.Create(t, hub.Cluster, retained, deleted, policy)
	for _, set := range []client.Object{retained, deleted} { // before there is another member
		fleettest.ExpectEventually(t, one.Cluster, statefulSet(ns, set.GetName(), ""), fleettest.Exists)
	}
	hub.Join(t, "two", two.Kubeconfig)

	t.Run("WhenTheirPodsCannotRun", func(t *testing.T) { replicasThatCannotRunMove(t, hub, ns) })
	t.Run("OnceTheirEndIsConfirmed", func(t *testing.T) { statefulSetsAreHandedOver(t, hub, one, two, ns) })
	t.Run("OnceTheirClusterIsFenced", func(t *testing.T) { fencedStatefulSetsMove(t, hub, one, two, ns) })
	for _, name := range []string{"one", "two"} { // the other members of the package are not to wait for these two
		fleettest.Delete(t, hub.Cluster, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
}

// replicasThatCannotRunMove divides Deployments whose pods exclude each other on a node: the first pod of a Deployment runs, and the
// others cannot. Which of them fit is not part of what a member reports as free. The replica that cannot run moves, and none moves after
// that: a second Deployment is divided the same way meanwhile.
func replicasThatCannotRunMove(t *testing.T, hub *fleettest.Part, ns string) {
	place := func(name string) *workv1alpha2.ResourceBinding {
		web := fleettest.Deployment(ns, name, 2)
		web.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: web.Spec.Selector}}}}
		policy := fleettest.Policy(ns, name, fleettest.To("one", "two"), web)
		policy.Spec.Placement.ReplicaScheduling = &policyv1alpha1.ReplicaSchedulingStrategy{
			ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided, ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceAggregated}
		policy.Annotations = map[string]string{policyv1alpha1.DescheduleAnnotation: "true"}
		fleettest.Create(t, hub.Cluster, web, policy)
		return fleettest.ExpectEventually(t, hub.Cluster, bindingOf(ns, "Deployment", name), func(b *workv1alpha2.ResourceBinding) error {
			got := map[string]int32{}
			for _, target := range b.Spec.Clusters {
				got[target.Name] = target.Replicas
			}
			if want := (map[string]int32{"one": 1, "two": 1}); !maps.Equal(got, want) {
				return fmt.Errorf("the replicas are %v, want %v", got, want)
			}
			for _, item := range b.Status.AggregatedStatus {
				if item.Health != workv1alpha2.ResourceHealthy {
					return fmt.Errorf("in %s it is %s", item.ClusterName, item.Health)
				}
			}
			if len(b.Status.AggregatedStatus) != 2 {
				return errors.New("not both clusters have reported")
			}
			return nil
		})
	}
	before := place("apart")
	if workv1alpha2.ReplicaLimits(before, before.CreationTimestamp.Time) == nil {
		t.Error("no limit has led to this division")
	}
	place("apart-too")
	after := fleettest.ExpectEventually(t, hub.Cluster, bindingOf(ns, "Deployment", "apart"), fleettest.Exists)
	if after.Generation != before.Generation {
		t.Errorf("the binding has changed since the replica moved, from %v to %v", before.Spec.Clusters, after.Spec.Clusters)
	}
}

// statefulSetsAreHandedOver has two StatefulSets leave the member one, which is ready. A pod of one of them does not end: the copy in the
// member two is not created before it has, while the other StatefulSet moves.
func statefulSetsAreHandedOver(t *testing.T, hub, one, two *fleettest.Part, ns string) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "retained-0"}}
	for _, name := range []string{"retained", "deleted"} {
		fleettest.ExpectEventually(t, hub.Cluster, bindingOf(ns, "StatefulSet", name), healthyIn("one"))
	}
	fleettest.ExpectEventually(t, one.Cluster, claimOf(ns, "deleted"), func(c *corev1.PersistentVolumeClaim) error {
		if len(c.OwnerReferences) == 0 {
			return errors.New("it has no owner yet, and would stay")
		}
		return nil
	})
	fleettest.Update(t, one.Cluster, pod, func(p *corev1.Pod) { p.Finalizers = append(p.Finalizers, "example.com/runs-on") })
	taint(t, hub, "one", corev1.Taint{Key: "drain", Effect: corev1.TaintEffectNoExecute})

	fleettest.ExpectEventually(t, one.Cluster, statefulSet(ns, "retained", ""), func(s *appsv1.StatefulSet) error {
		if s.DeletionTimestamp == nil {
			return errors.New("it is not being deleted")
		}
		return nil
	})
	fleettest.ExpectEventually(t, hub.Cluster, bindingOf(ns, "StatefulSet", "deleted"), healthyIn("two"))
	fleettest.ExpectGone(t, one.Cluster, statefulSet(ns, "deleted", ""))
	fleettest.ExpectGone(t, one.Cluster, claimOf(ns, "deleted"))
	fleettest.ExpectEventually(t, hub.Cluster, bindingOf(ns, "StatefulSet", "retained"), heldFor(workv1alpha2.AwaitsEndReason))
	fleettest.ExpectAbsent(t, two.Cluster, statefulSet(ns, "retained", ""))

	fleettest.Update(t, one.Cluster, pod, func(p *corev1.Pod) { p.Finalizers = nil })
	fleettest.ExpectEventually(t, hub.Cluster, bindingOf(ns, "StatefulSet", "retained"), healthyIn("two"))
	fleettest.ExpectGone(t, one.Cluster, statefulSet(ns, "retained", ""))
	fleettest.ExpectAbsent(t, one.Cluster, pod)
	fleettest.ExpectEventually(t, one.Cluster, claimOf(ns, "retained"), fleettest.Exists)
	taint(t, hub, "one")
}

// fencedStatefulSetsMove kills the member two, which has the StatefulSets now. They stay until a person fences it, and its copies are
// deleted when it returns.
func fencedStatefulSetsMove(t *testing.T, hub, one, two *fleettest.Part, ns string) {
	fleettest.ExpectRefusal(t, `cluster "two" has not failed`, "failover", "fence", "two", "--confirm", "--kubeconfig", hub.Kubeconfig)
	two.Kill()
	fleettest.ExpectEventually(t, hub.Cluster, bindingOf(ns, "StatefulSet", "retained"), heldFor(workv1alpha2.AwaitsEndReason))
	fleettest.ExpectEventually(t, hub.Cluster, bindingOf(ns, "StatefulSet", "deleted"), heldFor(workv1alpha2.AwaitsEndReason))
	fleettest.ExpectAbsent(t, one.Cluster, statefulSet(ns, "deleted", ""))
	r := fleettest.Flagship(t, "failover", "status", "-o", "json", "--kubeconfig", hub.Kubeconfig)
	var waiting []struct{ Kind, Name, Reason string }
	if err := json.Unmarshal([]byte(r.Stdout), &waiting); err != nil || r.Code != 0 || len(waiting) != 2 || waiting[0].Name != "deleted" || waiting[0].Reason != workv1alpha2.AwaitsEndReason {
		t.Errorf("what waits is %+v, %v, %s", waiting, err, r.Stderr)
	}

	if r := fleettest.Flagship(t, "failover", "fence", "two", "--confirm", "--kubeconfig", hub.Kubeconfig); r.Code != 0 {
		t.Fatalf("fencing: %s", r.Stderr)
	}
	for _, name := range []string{"retained", "deleted"} {
		fleettest.ExpectEventually(t, hub.Cluster, bindingOf(ns, "StatefulSet", name), healthyIn("one"))
	}
	two.Start(t)
	for _, name := range []string{"retained", "deleted"} {
		fleettest.ExpectGone(t, two.Cluster, statefulSet(ns, name, ""))
	}
}

// statefulSet is one replica with a claim.
func statefulSet(ns, name string, whenDeleted appsv1.PersistentVolumeClaimRetentionPolicyType) *appsv1.StatefulSet {
	template := fleettest.Deployment(ns, name, 1).Spec
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	s.Spec = appsv1.StatefulSetSpec{
		Replicas: template.Replicas, Selector: template.Selector, Template: template.Template, ServiceName: name,
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}},
			},
		}},
		PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenDeleted: whenDeleted, WhenScaled: appsv1.RetainPersistentVolumeClaimRetentionPolicyType},
	}
	return s
}

// claimOf is the claim of the only pod of a StatefulSet.
func claimOf(ns, set string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "data-" + set + "-0"}}
}

func bindingOf(ns, kind, name string) *workv1alpha2.ResourceBinding {
	return &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: workv1alpha2.BindingName(kind, name)}}
}

// inOneOf places a copy in one of the clusters.
func inOneOf(clusters ...string) policyv1alpha1.Placement {
	p := fleettest.To(clusters...)
	p.SpreadConstraints = []policyv1alpha1.SpreadConstraint{{SpreadByField: policyv1alpha1.SpreadByFieldCluster, MinGroups: 1, MaxGroups: 1}}
	return p
}

// healthyIn is the condition of a binding whose object is healthy in one cluster and leaves none.
func healthyIn(cluster string) func(*workv1alpha2.ResourceBinding) error {
	return func(b *workv1alpha2.ResourceBinding) error {
		status := b.Status.AggregatedStatus
		if len(b.Spec.Clusters) != 1 || b.Spec.Clusters[0].Name != cluster || len(b.Spec.GracefulEvictionTasks) > 0 {
			return fmt.Errorf("it is in %v, with the tasks %v", b.Spec.Clusters, b.Spec.GracefulEvictionTasks)
		}
		if len(status) != 1 || status[0].ClusterName != cluster || status[0].Health != workv1alpha2.ResourceHealthy {
			return fmt.Errorf("its status is %+v", status)
		}
		return nil
	}
}

// heldFor is the condition of a binding that stays, or waits, for a reason.
func heldFor(reason string) func(*workv1alpha2.ResourceBinding) error {
	return func(b *workv1alpha2.ResourceBinding) error {
		if c := meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.EvictionHeld); c == nil || c.Reason != reason {
			return fmt.Errorf("EvictionHeld is %+v", c)
		}
		return nil
	}
}

// taint makes the taints of a Cluster those given, besides those of the control plane.
func taint(t *testing.T, hub *fleettest.Part, cluster string, taints ...corev1.Taint) {
	t.Helper()
	fleettest.Update(t, hub.Cluster, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}, func(c *clusterv1alpha1.Cluster) { c.Spec.Taints = taints })
}
