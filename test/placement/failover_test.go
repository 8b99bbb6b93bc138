package placement_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestAnUnhealthyApplicationMoves reports an application as unhealthy in its cluster. While its state cannot be read it stays, and a
// condition reports why. Then it is removed there before it is created in the other cluster, with its state as labels.
func TestAnUnhealthyApplicationMoves(t *testing.T) {
	fleet, ns := start(t)
	clusters, all := island(t, fleet, 100, 100)
	web := fleettest.Deployment(ns, "web", 2)
	place := byAvailable(policyv1alpha1.ReplicaDivisionPreferenceAggregated, all)
	place.SpreadConstraints = []policyv1alpha1.SpreadConstraint{spread("cluster", 1, 1)}
	policy := fleettest.Policy(ns, "web", place, web)
	policy.Spec.PropagateDeps = true
	policy.Spec.Failover = &policyv1alpha1.FailoverBehavior{Application: &policyv1alpha1.ApplicationFailoverBehavior{
		PurgeMode: policyv1alpha1.PurgeModeDirectly, DecisionConditions: policyv1alpha1.DecisionConditions{TolerationSeconds: ptr.To(int32(0))},
		StatePreservation: &policyv1alpha1.StatePreservation{Rules: []policyv1alpha1.StatePreservationRule{
			{AliasLabelName: "example.com/epoch", JSONPath: `epoch-{.observedGeneration}-{.conditions[?(@.type=="Epoch")].reason}`}}}}}
	fleettest.Create(t, fleet.Hub, web, policy)
	b := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "web"), scheduled)
	if len(b.Spec.Clusters) != 1 {
		t.Fatalf("it is in %v", b.Spec.Clusters)
	}
	from, to := clusters[0], clusters[1]
	if b.Spec.Clusters[0].Name == to {
		from, to = to, from
	}

	observe(t, fleet, from, ns, workv1alpha1.ResourceUnhealthy, `{"observedGeneration": 1}`)
	fleettest.ExpectEventually(t, fleet.Hub, b, func(b *workv1alpha2.ResourceBinding) error {
		if c := meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.StatePreserved); c == nil || c.Reason != workv1alpha2.StateNotReadableReason {
			return errors.New("no condition StatePreserved")
		}
		return placed(from)(b)
	})

	observe(t, fleet, from, ns, workv1alpha1.ResourceUnhealthy, `{"observedGeneration": 1, "conditions": [{"type": "Epoch", "reason": "s7"}]}`)
	expectRemoved(t, fleet, from, "Deployment", ns, "web")
	fleettest.ExpectEventually(t, fleet.Hub, workIn(to, ns), func(w *workv1alpha1.Work) error {
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal(w.Spec.Workload.Manifests[0].Raw, object); err != nil {
			return err
		}
		if got := object.GetLabels()["example.com/epoch"]; got != "epoch-1-s7" {
			return fmt.Errorf("the label with the state is %q", got)
		}
		return nil
	})
	fleettest.ExpectEventually(t, fleet.Hub, b, func(b *workv1alpha2.ResourceBinding) error {
		if meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.StatePreserved) != nil {
			return errors.New("the condition StatePreserved stays")
		}
		if len(b.Spec.GracefulEvictionTasks) != 1 {
			return fmt.Errorf("%d tasks, want one until the new copy is healthy", len(b.Spec.GracefulEvictionTasks))
		}
		return placed(to)(b)
	})
	observe(t, fleet, to, ns, workv1alpha1.ResourceHealthy, `{"observedGeneration": 1}`)
	fleettest.ExpectEventually(t, fleet.Hub, b, func(b *workv1alpha2.ResourceBinding) error {
		if n := len(b.Spec.GracefulEvictionTasks); n > 0 {
			return fmt.Errorf("%d tasks", n)
		}
		return placed(to)(b)
	})
}

// TestPurgeModes has applications leave a cluster in the ways in which Karmada's own suite has them leave.
func TestPurgeModes(t *testing.T) {
	fleet, _ := start(t)
	clusters, all := island(t, fleet, 100, 100)
	// place returns the binding of a Deployment, the cluster in which it is, and the other one.
	place := func(t *testing.T, ns string, failover policyv1alpha1.FailoverBehavior) (b *workv1alpha2.ResourceBinding, from, to string) {
		web := fleettest.Deployment(ns, "web", 2)
		placement := byAvailable(policyv1alpha1.ReplicaDivisionPreferenceAggregated, all)
		placement.SpreadConstraints = []policyv1alpha1.SpreadConstraint{spread("cluster", 1, 1)}
		policy := fleettest.Policy(ns, "web", placement, web)
		policy.Spec.PropagateDeps, policy.Spec.Failover = true, &failover
		fleettest.Create(t, fleet.Hub, web, policy)
		b = fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "web"), scheduled)
		from, to = clusters[0], clusters[1]
		if b.Spec.Clusters[0].Name == to {
			from, to = to, from
		}
		return b, from, to
	}
	application := func(mode policyv1alpha1.PurgeMode, grace *int32) policyv1alpha1.FailoverBehavior {
		return policyv1alpha1.FailoverBehavior{Application: &policyv1alpha1.ApplicationFailoverBehavior{
			PurgeMode: mode, GracePeriodSeconds: grace, DecisionConditions: policyv1alpha1.DecisionConditions{TolerationSeconds: ptr.To(int32(0))}}}
	}

	t.Run("NeverKeepsTheCopyUntilAPersonRemovesIt", func(t *testing.T) {
		ns := fleet.Namespace(t)
		b, from, to := place(t, ns, application(policyv1alpha1.PurgeModeNever, nil))
		observe(t, fleet, from, ns, workv1alpha1.ResourceUnhealthy, `{"observedGeneration": 1}`)
		fleettest.ExpectEventually(t, fleet.Hub, b, leaving(from, to))
		runs(t, fleet, to, ns)
		fleettest.ExpectEventually(t, fleet.Hub, b, healthIn(to, workv1alpha2.ResourceHealthy))
		if work := fleettest.ExpectEventually(t, fleet.Hub, workIn(from, ns), fleettest.Exists); work.DeletionTimestamp != nil {
			t.Error("the copy is being removed")
		}
		fleettest.Update(t, fleet.Hub, b, func(b *workv1alpha2.ResourceBinding) {
			b.Spec.GracefulEvictionTasks[0].SuppressDeletion = ptr.To(false)
		})
		expectRemoved(t, fleet, from, "Deployment", ns, "web")
		fleettest.ExpectEventually(t, fleet.Hub, b, leaving("", to))
	})
	t.Run("GracefullyRemovesAnUnhealthyCopyAfterTheGracePeriod", func(t *testing.T) {
		ns := fleet.Namespace(t)
		b, from, to := place(t, ns, application(policyv1alpha1.PurgeModeGracefully, ptr.To(int32(1))))
		observe(t, fleet, from, ns, workv1alpha1.ResourceUnhealthy, `{"observedGeneration": 1}`)
		expectRemoved(t, fleet, from, "Deployment", ns, "web")
		fleettest.ExpectEventually(t, fleet.Hub, b, leaving("", to))
	})
	t.Run("DirectlyRemovesTheCopyFirstAndKeepsItsState", func(t *testing.T) {
		ns := fleet.Namespace(t)
		b, from, to := place(t, ns, policyv1alpha1.FailoverBehavior{Cluster: &policyv1alpha1.ClusterFailoverBehavior{
			PurgeMode: policyv1alpha1.PurgeModeDirectly, StatePreservation: &policyv1alpha1.StatePreservation{
				Rules: []policyv1alpha1.StatePreservationRule{{AliasLabelName: "example.com/replicas", JSONPath: "{.replicas}"}}}}})
		runs(t, fleet, from, ns)
		fleettest.ExpectEventually(t, fleet.Hub, b, healthIn(from, workv1alpha2.ResourceHealthy))
		change(t, fleet, from, noExecute)
		fleettest.ExpectEventually(t, fleet.Hub, workIn(from, ns), going)
		fleettest.ExpectAbsent(t, fleet.Hub, workIn(to, ns))
		expectRemoved(t, fleet, from, "Deployment", ns, "web")
		fleettest.ExpectEventually(t, fleet.Hub, workIn(to, ns), func(w *workv1alpha1.Work) error {
			object := &unstructured.Unstructured{}
			if err := json.Unmarshal(w.Spec.Workload.Manifests[0].Raw, object); err != nil {
				return err
			}
			if got := object.GetLabels()["example.com/replicas"]; got != "2" {
				return fmt.Errorf("the label with the state is %q", got)
			}
			return nil
		})
		fleettest.ExpectEventually(t, fleet.Hub, b, leaving(from, to))
	})
}

// healthIn is the condition of a binding whose copy in a cluster is reported with a health.
func healthIn(cluster string, health workv1alpha2.ResourceHealth) func(*workv1alpha2.ResourceBinding) error {
	return func(b *workv1alpha2.ResourceBinding) error {
		for _, item := range b.Status.AggregatedStatus {
			if item.ClusterName == cluster && item.Health == health {
				return nil
			}
		}
		return fmt.Errorf("the status is %+v", b.Status.AggregatedStatus)
	}
}

// workIn is the Work of the Deployment web for a cluster.
func workIn(cluster, namespace string) *workv1alpha1.Work {
	return &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: workv1alpha1.ExecutionNamespace(cluster), Name: workv1alpha1.WorkName("Deployment", namespace, "web")}}
}

// observe reports the Deployment web of a cluster as its agent would.
func observe(t *testing.T, fleet *fleettest.Fleet, cluster, namespace string, health workv1alpha1.ResourceHealth, status string) {
	t.Helper()
	work := fleettest.ExpectEventually(t, fleet.Hub, workIn(cluster, namespace), fleettest.Exists)
	fleettest.UpdateStatus(t, fleet.Hub, work, func(w *workv1alpha1.Work) {
		meta.SetStatusCondition(&w.Status.Conditions, workv1alpha1.Applied(w.Generation))
		w.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{
			Identifier: workv1alpha1.ResourceIdentifier{Group: "apps", Version: "v1", Kind: "Deployment", Resource: "deployments", Namespace: namespace, Name: "web"},
			Status:     &runtime.RawExtension{Raw: []byte(status)}, Health: health,
		}}
	})
}
