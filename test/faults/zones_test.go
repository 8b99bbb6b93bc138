package faults_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// zoneFails uses clusters that exist on paper only: four in one zone, five in others. When three of the four are not ready, the network
// of the zone may be the cause, and the objects of the third stay. When the last one is not ready either, the zone is gone, and they move.
func zoneFails(t *testing.T, hub *fleettest.Part) {
	var inZone, others []string
	for i := range 9 {
		name, zone := fmt.Sprintf("paper-%d", i), "a"
		if i >= 4 {
			zone = fmt.Sprintf("b%d", i)
			others = append(others, name)
		} else {
			inZone = append(inZone, name)
		}
		onPaper(t, hub, name, zone)
	}
	ns := namespace(t, hub.Cluster, "zones")
	settings := fleettest.ConfigMap(ns, "settings", nil)
	policy := fleettest.Policy(ns, "settings", policyv1alpha1.Placement{ClusterAffinities: []policyv1alpha1.ClusterAffinityTerm{
		{AffinityName: "third", ClusterAffinity: policyv1alpha1.ClusterAffinity{ClusterNames: inZone[2:3]}},
		{AffinityName: "elsewhere", ClusterAffinity: policyv1alpha1.ClusterAffinity{ClusterNames: others[:1]}},
	}}, settings)
	policy.Spec.Failover = &policyv1alpha1.FailoverBehavior{Cluster: &policyv1alpha1.ClusterFailoverBehavior{}}
	fleettest.Create(t, hub.Cluster, settings, policy)
	isIn := func(cluster string) func(*workv1alpha2.ResourceBinding) error {
		return func(b *workv1alpha2.ResourceBinding) error {
			if len(b.Spec.Clusters) != 1 || b.Spec.Clusters[0].Name != cluster {
				return fmt.Errorf("it is in %v", b.Spec.Clusters)
			}
			return nil
		}
	}
	b := bindingOf(ns, "ConfigMap", "settings")
	fleettest.ExpectEventually(t, hub.Cluster, b, isIn(inZone[2]))

	for _, name := range inZone[:3] {
		reportReady(t, hub, name, clusterv1alpha1.NotReady(clusterv1alpha1.ClusterNotReachableReason, "for the test"))
	}
	third := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: inZone[2]}}
	fleettest.ExpectEventually(t, hub.Cluster, third, func(c *clusterv1alpha1.Cluster) error {
		if held := meta.FindStatusCondition(c.Status.Conditions, clusterv1alpha1.ClusterConditionEvictionHeld); held == nil || held.Reason != clusterv1alpha1.ZoneDisruptedReason {
			return fmt.Errorf("EvictionHeld is %+v", held)
		}
		return nil
	})
	if b := fleettest.ExpectEventually(t, hub.Cluster, b, isIn(inZone[2])); len(b.Spec.GracefulEvictionTasks) > 0 {
		t.Errorf("it has the tasks %v though evictions are held", b.Spec.GracefulEvictionTasks)
	}

	reportReady(t, hub, inZone[3], clusterv1alpha1.NotReady(clusterv1alpha1.ClusterNotReachableReason, "for the test"))
	fleettest.ExpectEventually(t, hub.Cluster, b, isIn(others[0]))
	fleettest.ExpectEventually(t, hub.Cluster, third, func(c *clusterv1alpha1.Cluster) error {
		if meta.IsStatusConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionEvictionHeld) {
			return fmt.Errorf("evictions are held")
		}
		return nil
	})
	for _, name := range append(inZone, others...) {
		reportReady(t, hub, name, clusterv1alpha1.NotReady(clusterv1alpha1.ClusterNotReachableReason, "it leaves"))
		fleettest.Delete(t, hub.Cluster, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for _, name := range append(inZone, others...) {
		fleettest.ExpectGone(t, hub.Cluster, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
}

// onPaper makes a ready cluster in pull mode that has no agent.
func onPaper(t *testing.T, hub *fleettest.Part, name, zone string) {
	t.Helper()
	c := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.SyncMode, c.Spec.Region, c.Spec.Zones = clusterv1alpha1.Pull, "paper", []string{zone}
	fleettest.Create(t, hub.Cluster, c)
	fleettest.UpdateStatus(t, hub.Cluster, c, func(c *clusterv1alpha1.Cluster) {
		c.Status.APIEnablements = []clusterv1alpha1.APIEnablement{{GroupVersion: "v1", Resources: []clusterv1alpha1.APIResource{{Name: "configmaps", Kind: "ConfigMap"}}}}
		meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
			Type: clusterv1alpha1.ClusterConditionCompleteAPIEnablements, Status: metav1.ConditionTrue, Reason: "Complete"})
	})
	reportReady(t, hub, name, clusterv1alpha1.Ready())
}

// reportReady writes the condition Ready of a cluster as its agent would.
func reportReady(t *testing.T, hub *fleettest.Part, name string, ready metav1.Condition) {
	t.Helper()
	fleettest.UpdateStatus(t, hub.Cluster, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}, func(c *clusterv1alpha1.Cluster) {
		meta.SetStatusCondition(&c.Status.Conditions, ready)
	})
}
