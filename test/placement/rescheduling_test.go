package placement_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestObjectsFollowClustersAndTheirLabels has a cluster join, lose a label, and get it back. Objects whose policies select it follow, for
// both kinds of policies: those that list the cluster, and those that select its region or its label.
func TestObjectsFollowClustersAndTheirLabels(t *testing.T) {
	fleet, ns := start(t)
	region := inRegion("newland")
	byLabel := policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": "newcomer"}}}}
	listed, selected, labelled := fleettest.Deployment(ns, "listed", 1), fleettest.Deployment(ns, "selected", 1), fleettest.Deployment(ns, "labelled", 1)
	duplicated := policyv1alpha1.Placement{ClusterAffinity: &region, ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDuplicated}}
	fleettest.Create(t, fleet.Hub, listed, selected, labelled,
		fleettest.Policy(ns, "listed", fleettest.To("east-1", "newcomer"), listed), fleettest.Policy(ns, "selected", duplicated, selected),
		fleettest.ClusterPolicy("labelled-"+ns, byLabel, labelled))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "listed"), placed("east-1"))

	join(t, fleet, "newcomer", "newland", "n")
	t.Cleanup(func() { leave(lasting{t}, fleet, "newcomer") })
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "listed"), placed("east-1", "newcomer"))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "selected"), placed("newcomer"))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "labelled"), placed("newcomer"))

	relabel := func(value string) {
		fleettest.Update(t, fleet.Hub, named("newcomer"), func(c *clusterv1alpha1.Cluster) { c.Labels["name"] = value })
	}
	relabel("another")
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "labelled"), func(b *workv1alpha2.ResourceBinding) error {
		if len(b.Spec.Clusters) > 0 {
			return fmt.Errorf("it is still in %v", names(b.Spec.Clusters))
		}
		return nil
	})
	expectRemoved(t, fleet, "newcomer", "Deployment", ns, "labelled")
	relabel("newcomer")
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "labelled"), placed("newcomer"))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "listed"), placed("east-1", "newcomer"))
}
