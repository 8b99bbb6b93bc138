package service

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/event"
)

var mcsKind = networkingv1alpha1.GroupVersion.WithKind(networkingv1alpha1.KindMultiClusterService)

// news are the events that tell a MultiClusterService's owner how its conditions changed. What was never there is on its
// way, and no news until it arrives, unless an obstacle is in its way.
func news(p picture, before, after []metav1.Condition) []event.Event {
	mcs := p.mcs
	reference := event.Reference(mcsKind, mcs)
	var events []event.Event
	for _, kind := range []struct{ condition, failed, succeeded string }{
		{networkingv1alpha1.MCSServiceAppliedConditionType, event.SyncServiceFailed, event.SyncServiceSucceed},
		{networkingv1alpha1.EndpointSliceDispatched, event.DispatchEndpointSliceFailed, event.DispatchEndpointSliceSucceed},
	} {
		was, is := meta.FindStatusCondition(before, kind.condition), meta.FindStatusCondition(after, kind.condition)
		switch {
		case is == nil:
		case is.Status == metav1.ConditionTrue && (was == nil || was.Status != metav1.ConditionTrue):
			events = append(events, event.Normal(reference, kind.succeeded, is.Message))
		case is.Status == metav1.ConditionFalse && (was != nil && was.Status == metav1.ConditionTrue || is.Message == p.obstacle && kind.failed == event.SyncServiceFailed):
			events = append(events, event.Warning(reference, kind.failed, is.Message))
		}
	}
	for _, cluster := range p.exposure.Unknown {
		events = append(events, event.Warning(reference, event.ClusterNotFound, "Cluster "+cluster+" is not registered"))
	}
	return events
}
