package schedule

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/cause"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
)

// warningOf is the condition of a binding whose policy divides what cannot be divided as it is, nil for any other.
func warningOf(b workv1alpha2.Binding) *metav1.Condition {
	spec := b.BindingSpec()
	if decision.StrategyOf(cause.PlacementOf(b)) == decision.Duplicated || len(spec.Clusters) < 2 {
		return nil
	}
	var condition metav1.Condition
	switch interpret.Identities(b.GetAnnotations()[workv1alpha2.IdentitiesAnnotation]) {
	case interpret.Named:
		if policyv1alpha1.IsOn(b.GetAnnotations(), policyv1alpha1.MembersIndependentAnnotation) {
			return nil
		}
		condition = workv1alpha2.DivisionWarningCondition(b.GetGeneration(), workv1alpha2.NamesRepeatReason, fmt.Sprintf(
			"Each of %d clusters has pods named from %s-0 on, with volumes of their own: these are several sets, not one. Place it in one cluster, "+
				"or have the policy say that they are independent: %s=true", len(spec.Clusters), spec.Resource.Name, policyv1alpha1.MembersIndependentAnnotation))
	case interpret.Unknown:
		condition = workv1alpha2.DivisionWarningCondition(b.GetGeneration(), workv1alpha2.ReplicasUnknownReason, fmt.Sprintf(
			"The policy divides replicas, and those of the kind %s are not known: each of %d clusters has all of them. A ResourceInterpreterCustomization "+
				"with replicaResource and replicaRevision says which they are, or the subresource scale of the definition", spec.Resource.Kind, len(spec.Clusters)))
	default:
		return nil
	}
	return &condition
}

// warned returns whether a binding has the condition that it is to have.
func warned(b workv1alpha2.Binding) bool {
	has, wanted := meta.FindStatusCondition(b.BindingStatus().Conditions, workv1alpha2.DivisionWarning), warningOf(b)
	if has == nil || wanted == nil {
		return has == nil && wanted == nil
	}
	return has.Status == wanted.Status && has.Reason == wanted.Reason && has.Message == wanted.Message && has.ObservedGeneration == wanted.ObservedGeneration
}

// warn sets the condition, or removes it, and publishes it on the template, whose author may not read the binding.
func (c *Controller) warn(b workv1alpha2.Binding) {
	conditions, wanted := &b.BindingStatus().Conditions, warningOf(b)
	if wanted == nil {
		meta.RemoveStatusCondition(conditions, workv1alpha2.DivisionWarning)
		return
	}
	wanted.LastTransitionTime = metav1.NewTime(c.deps.Clock.Now())
	meta.SetStatusCondition(conditions, *wanted)
	c.deps.Events.Publish(events.Warning(events.Template(b.BindingSpec().Resource), events.DivisionWarning, wanted.Message))
}
