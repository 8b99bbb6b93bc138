package decision

import (
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

// RequestOf reads what a decision about b depends on. Peers are left to the caller.
func RequestOf(b workv1alpha2.Binding, kindTravels bool) Request {
	spec := b.BindingSpec()
	req := Request{
		Resource:         spec.Resource,
		Placement:        spec.Placement,
		Replicas:         spec.Replicas,
		Requirements:     spec.ReplicaRequirements,
		Components:       spec.Components,
		Current:          spec.Clusters,
		ObservedAffinity: b.BindingStatus().SchedulerObservedAffinityName,
		Fresh:            rescheduleRequested(b),
		Partial:          policyv1alpha1.IsOn(b.GetAnnotations(), policyv1alpha1.PartialPlacementAnnotation),
		SpreadStatic:     policyv1alpha1.IsOn(b.GetAnnotations(), policyv1alpha1.SpreadStaticWeightsAnnotation),
		Retained:         b.GetAnnotations()[policyv1alpha1.RetainReplicasLabel] == "true",
		KindTravels:      kindTravels,
	}
	req.Whole = b.GetAnnotations()[workv1alpha2.IdentitiesAnnotation] == string(interpret.Whole) && StrategyOf(spec.Placement) != Duplicated
	req.Failover = spec.Failover != nil && spec.Failover.Cluster != nil
	req.Expelled = req.Failover
	for i := range spec.GracefulEvictionTasks {
		req.Evicting = append(req.Evicting, spec.GracefulEvictionTasks[i].FromCluster)
	}
	if len(spec.Components) == 1 && !req.HasReplicas() {
		only := &spec.Components[0]
		req.Replicas = only.Replicas
		if r := only.ReplicaRequirements; r != nil {
			req.Requirements = &workv1alpha2.ReplicaRequirements{
				NodeClaim: r.NodeClaim, ResourceRequest: r.ResourceRequest, PriorityClassName: r.PriorityClassName,
			}
		}
	}
	return req
}

// rescheduleRequested returns whether a fresh decision was requested that has not been made. Both times are whole seconds; of two in
// the same second the request counts as the later, and the decision is then dated past it.
func rescheduleRequested(b workv1alpha2.Binding) bool {
	requested, last := b.BindingSpec().RescheduleTriggeredAt, b.BindingStatus().LastScheduledTime
	return requested != nil && (last == nil || !last.After(requested.Time))
}
