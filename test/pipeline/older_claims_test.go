package pipeline_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestAMemberOfTheOldModelGetsClaimsAsTheyAre: a control plane is itself a cluster that serves v1alpha2, so one of them
// is the member of another here. What its driver allocates comes back word for word, also when it allocates anew.
func TestAMemberOfTheOldModelGetsClaimsAsTheyAre(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs two fleets")
	}
	above, below := fleettest.Start(t, fleettest.Options{}), fleettest.Start(t, fleettest.Options{})
	joined := fleettest.Flagship(t, "join", "old", "--kubeconfig", above.Hub.Kubeconfig, "--cluster-kubeconfig", below.Hub.Kubeconfig)
	if joined.Code != 0 {
		t.Fatalf("joining: %s%s", joined.Stdout, joined.Stderr)
	}
	fleettest.ExpectEventually(t, above.Hub, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "old"}}, func(c *clusterv1alpha1.Cluster) error {
		if c.Status.ResourceSummary == nil {
			return errors.New("its classes are not known yet")
		}
		if _, known := c.Status.ResourceSummary.Allocatable[clusterv1alpha1.ResourceClassesResource]; !known {
			return errors.New("its classes are not known yet")
		}
		return fleettest.ConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
	})
	ns := above.Namespace(t)
	class := &resourcev1alpha2.ResourceClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: resourcev1alpha2.GroupVersion.String(), Kind: resourcev1alpha2.KindResourceClass},
		ObjectMeta: metav1.ObjectMeta{Name: "old.example.com"}, DriverName: exampleClass,
		ParametersRef: &resourcev1alpha2.ResourceClassParametersReference{Kind: "ConfigMap", Name: "defaults"},
	}
	claim := oldClaim(ns, "gpu", "old.example.com")
	claim.Spec.AllocationMode = resourcev1alpha2.AllocationModeImmediate
	fleettest.Create(t, above.Hub, claim, fleettest.Policy(ns, "claims", fleettest.Everywhere(), claim))
	fleettest.ExpectEventually(t, above.Hub, binding(ns, "ResourceClaim", "gpu"), scheduledMessage("1 has no device class old.example.com (old)"))
	fleettest.Create(t, above.Hub, class, fleettest.ClusterPolicy("old-class", fleettest.Everywhere(), class))

	copiedClass := fleettest.ExpectEventually(t, below.Hub, class, fleettest.Exists)
	if copiedClass.ParametersRef == nil || copiedClass.DriverName != exampleClass {
		t.Errorf("the class became %+v", copiedClass)
	}
	copied := fleettest.ExpectEventually(t, below.Hub, claim, fleettest.Exists)
	if diff := cmp.Diff(claim.Spec, copied.Spec); diff != "" || copied.Annotations[resourcev1alpha2.TranslatedFromAnnotation] != "" {
		t.Errorf("the claim is not as it was: %v %s", copied.Annotations, diff)
	}
	// It is not allocated, which is not as an immediate claim should be.
	fleettest.ExpectEventually(t, above.Hub, work("old", "ResourceClaim", ns, "gpu"), workIs("Progressing", metav1.ConditionTrue, "RollingOut"))

	for _, slot := range []string{"slot 1", "slot 2"} {
		status := resourcev1alpha2.ResourceClaimStatus{
			DriverName:  exampleClass,
			Allocation:  &resourcev1alpha2.AllocationResult{ResourceHandles: []resourcev1alpha2.ResourceHandle{{DriverName: exampleClass, Data: slot}}},
			ReservedFor: []resourcev1alpha2.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "u"}},
		}
		// The driver frees what it allocated before it allocates anew; the control plane may receive only the result.
		for _, next := range []resourcev1alpha2.ResourceClaimStatus{{}, status} {
			fleettest.UpdateStatus(t, below.Hub, copied, func(c *resourcev1alpha2.ResourceClaim) { c.Status = next })
		}
		fleettest.ExpectEventually(t, above.Hub, claim, func(c *resourcev1alpha2.ResourceClaim) error {
			if diff := cmp.Diff(status, c.Status); diff != "" {
				return fmt.Errorf("status differs (-want +got):\n%s", diff)
			}
			return nil
		})
	}
	fleettest.Delete(t, above.Hub, claim)
	fleettest.ExpectGone(t, below.Hub, claim)
	fleettest.ExpectEventually(t, above.Hub, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "old"}}, func(c *clusterv1alpha1.Cluster) error {
		return fleettest.ConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
	})
}

// ghostName is a Cluster without an agent. Its removal takes longer than the test: a test that runs later and counts clusters waits for it.
const ghostName = "ghost"

// TestAnInvalidStatusFromAMemberIsNotAggregated: an agent reports whatever its cluster says. Here the test is the agent.
func TestAnInvalidStatusFromAMemberIsNotAggregated(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	ghost := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: ghostName}, Spec: clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Pull}}
	fleettest.Create(t, fleet.Hub, ghost)
	fleettest.UpdateStatus(t, fleet.Hub, ghost, func(c *clusterv1alpha1.Cluster) {
		c.Status.APIEnablements = []clusterv1alpha1.APIEnablement{{
			GroupVersion: resourcev1alpha2.GroupVersion.String(),
			Resources:    []clusterv1alpha1.APIResource{{Name: "resourceclaims", Kind: "ResourceClaim"}},
		}}
		meta.SetStatusCondition(&c.Status.Conditions, clusterv1alpha1.APIEnablementsComplete())
		meta.SetStatusCondition(&c.Status.Conditions, clusterv1alpha1.Ready())
	})
	claim := oldClaim(ns, "gpu", "gpu")
	fleettest.Create(t, fleet.Hub, claim, fleettest.Policy(ns, "ghostly", fleettest.To("ghost"), claim))
	carried := fleettest.ExpectEventually(t, fleet.Hub, work("ghost", "ResourceClaim", ns, "gpu"), fleettest.Exists)
	reports := func(status string) {
		t.Helper()
		fleettest.UpdateStatus(t, fleet.Hub, carried, func(w *workv1alpha1.Work) {
			meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{
				Type: workv1alpha1.WorkApplied, Status: metav1.ConditionTrue, Reason: workv1alpha1.AppliedSuccessfulReason, ObservedGeneration: w.Generation,
			})
			id := workv1alpha1.ResourceIdentifier{Group: "resource.k8s.io", Version: "v1alpha2", Kind: "ResourceClaim", Namespace: ns, Name: "gpu"}
			w.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{
				Identifier: id, Status: &runtime.RawExtension{Raw: []byte(status)}, Health: workv1alpha1.ResourceHealthy,
			}}
		})
	}
	reports(`{"driverName":"gpu.example.com","allocation":{"resourceHandles":[{"driverName":"gpu.example.com","data":"slot 1"}]}}`)
	fleettest.ExpectEventually(t, fleet.Hub, claim, held(exampleClass, 0, true))
	reports(`{"driverName":"gpu.example.com","allocation":{"resourceHandles":"all of them"}}`)
	expectEvent(t, fleet.Hub, claim, "cluster ghost reports a status that is none of a claim")
	reports(`{"driverName":"other.example.com","reservedFor":[{"resource":"pods","name":"p","uid":"u"}]}`)
	expectEvent(t, fleet.Hub, claim, "cluster ghost reports a status that no claim can have: status.reservedFor")
	fleettest.ExpectEventually(t, fleet.Hub, claim, held(exampleClass, 0, true))
}
