package mcs

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

var mcsKind = networkingv1alpha1.GroupVersion.WithKind(networkingv1alpha1.KindMultiClusterService)

// news are the events that tell a MultiClusterService's owner how its conditions changed. What was never there is on its
// way, and no news until it arrives, unless an obstacle is in its way.
func news(p serviceState, before, after []metav1.Condition) []events.Event {
	mcs := p.mcs
	reference := events.Reference(mcsKind, mcs)
	var list []events.Event
	for _, kind := range []struct{ condition, failed, succeeded string }{
		{networkingv1alpha1.MCSServiceAppliedConditionType, events.SyncServiceFailed, events.SyncServiceSucceed},
		{networkingv1alpha1.EndpointSliceDispatched, events.DispatchEndpointSliceFailed, events.DispatchEndpointSliceSucceed},
	} {
		was, is := meta.FindStatusCondition(before, kind.condition), meta.FindStatusCondition(after, kind.condition)
		switch {
		case is == nil:
		case is.Status == metav1.ConditionTrue && (was == nil || was.Status != metav1.ConditionTrue):
			list = append(list, events.Normal(reference, kind.succeeded, is.Message))
		case is.Status == metav1.ConditionFalse && (was != nil && was.Status == metav1.ConditionTrue || is.Message == p.obstacle && kind.failed == events.SyncServiceFailed):
			list = append(list, events.Warning(reference, kind.failed, is.Message))
		}
	}
	for _, cluster := range p.exposure.Unknown {
		list = append(list, events.Warning(reference, events.ClusterNotFound, "Cluster "+cluster+" is not registered"))
	}
	return list
}
