package placement_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// Deletion protection is for every kind: built-in, ours, and clusters.
func TestProtectedObjectsAreNotDeleted(t *testing.T) {
	fleet, ns := start(t)
	settings := fleettest.ConfigMap(ns, "settings", nil)
	policy := fleettest.Policy(ns, "settings", fleettest.To("east-1"), settings)
	fleettest.Create(t, fleet.Hub, settings, policy)
	join(t, fleet, "precious", "south", "z")
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "precious"}}
	mark := func(labels map[string]string) map[string]string {
		if labels == nil {
			labels = map[string]string{}
		}
		labels[policyv1alpha1.DeletionProtectionLabel] = policyv1alpha1.DeletionProtectionAlways
		return labels
	}
	unmark := func(o client.Object) {
		labels := o.GetLabels()
		delete(labels, policyv1alpha1.DeletionProtectionLabel)
		o.SetLabels(labels)
	}
	for _, o := range []client.Object{settings, policy, cluster} {
		fleettest.Update(t, fleet.Hub, o, func(o client.Object) { o.SetLabels(mark(o.GetLabels())) })
		if err := fleet.Hub.Delete(t.Context(), o); !apierrors.IsForbidden(err) {
			t.Errorf("deleting a protected %T: %v", o, err)
		}
		fleettest.Update(t, fleet.Hub, o, unmark)
	}
	fleettest.Delete(t, fleet.Hub, policy, settings)
	fleettest.ExpectGone(t, fleet.Hub, settings)
	dismiss(t, fleet, "precious")
}
