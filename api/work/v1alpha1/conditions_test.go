package v1alpha1_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

func TestConditions(t *testing.T) {
	cases := map[string]struct {
		got  metav1.Condition
		want metav1.Condition
	}{
		"applied": {workv1alpha1.Applied(3), metav1.Condition{
			Type: "Applied", Status: "True", Reason: "AppliedSuccessful", Message: "Manifest has been successfully applied"}},
		"not applied": {workv1alpha1.NotApplied(3, "why"), metav1.Condition{
			Type: "Applied", Status: "False", Reason: "AppliedFailed", Message: "why"}},
		"rolling out": {workv1alpha1.Progressing(3, workv1alpha1.RollingOutReason, "what"), metav1.Condition{
			Type: "Progressing", Status: "True", Reason: "RollingOut", Message: "what"}},
		"rolled out": {workv1alpha1.Progressed(3), metav1.Condition{
			Type: "Progressing", Status: "False", Reason: "RolloutFinished", Message: "All resources of the Work are applied and rolled out"}},
		"available": {workv1alpha1.Available(3), metav1.Condition{
			Type: "Available", Status: "True", Reason: "ResourcesAvailable", Message: "All resources of the Work exist on the managed cluster"}},
		"not available": {workv1alpha1.NotAvailable(3, "what"), metav1.Condition{
			Type: "Available", Status: "False", Reason: "ResourcesMissing", Message: "what"}},
		"not reachable": {workv1alpha1.AvailabilityUnknown(3, "why"), metav1.Condition{
			Type: "Available", Status: "Unknown", Reason: "ClusterUnreachable", Message: "why"}},
		"degraded": {workv1alpha1.Degraded(3, "what"), metav1.Condition{
			Type: "Degraded", Status: "True", Reason: "ResourcesUnhealthy", Message: "what"}},
		"not degraded": {workv1alpha1.NotDegraded(3), metav1.Condition{
			Type: "Degraded", Status: "False", Reason: "ResourcesHealthy", Message: "No resource of the Work has been unhealthy for long"}},
		"dispatching": {workv1alpha1.Dispatching(3), metav1.Condition{
			Type: "Dispatching", Status: "True", Reason: "Dispatching", Message: "Work is being dispatched to member clusters."}},
		"suspended": {workv1alpha1.DispatchingSuspended(3), metav1.Condition{
			Type: "Dispatching", Status: "False", Reason: "SuspendDispatching", Message: "Work dispatching is in a suspended state."}},
	}
	for reason, c := range cases {
		t.Run(reason, func(t *testing.T) {
			c.want.ObservedGeneration = 3
			if diff := cmp.Diff(c.want, c.got); diff != "" {
				t.Errorf("differs (-want +got):\n%s", diff)
			}
		})
	}
}
