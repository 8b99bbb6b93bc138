package pipeline_test

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestReplicasGoWhereNodesSuit: a node of one member has the label that the pods select, so that no replica is assigned to the other
// member, where it would wait for ever.
func TestReplicasGoWhereNodesSuit(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	one, two := fleet.Members[0], fleet.Members[1]
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: two.Name + "-node-1"}}
	label := "test.example.com/" + ns
	fleettest.Update(t, two, node, func(n *corev1.Node) { n.Labels[label] = "yes" })
	fleettest.ExpectEventually(t, fleet.Hub, &fleetv1alpha1.ClusterCapacity{ObjectMeta: metav1.ObjectMeta{Name: two.Name}},
		func(c *fleetv1alpha1.ClusterCapacity) error {
			for _, set := range c.Nodes {
				if set.Labels[label] == "yes" {
					return nil
				}
			}
			return errors.New("the label of the node is not reported")
		})
	web := fleettest.Deployment(ns, "web", 3)
	web.Spec.Template.Spec.NodeSelector = map[string]string{label: "yes"}
	placement := policyv1alpha1.Placement{ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType:     policyv1alpha1.ReplicaSchedulingTypeDivided,
		ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceWeighted,
		WeightPreference:          &policyv1alpha1.ClusterPreferences{DynamicWeight: policyv1alpha1.DynamicWeightByAvailableReplicas},
	}}
	fleettest.Create(t, fleet.Hub, fleettest.Policy(ns, "web", placement, web), web)
	fleettest.ExpectEventually(t, two, web.DeepCopy(), func(d *appsv1.Deployment) error {
		if d.Status.ReadyReplicas != 3 {
			return errors.New("not all three replicas run where the node is")
		}
		return nil
	})
	fleettest.ExpectAbsent(t, one, web)
}
