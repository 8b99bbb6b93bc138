package mcs

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

var mcsKind = networkingv1alpha1.GroupVersion.WithKind(networkingv1alpha1.KindMultiClusterService)

// eventsOf lists the events for changes of conditions. That something is not there yet is no event, unless an obstacle prevents it.
func eventsOf(s serviceState, before, after []metav1.Condition) []events.Event {
	mcs := s.mcs
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
			list = append(list, events.Success(reference, kind.succeeded, is.Message))
		case is.Status == metav1.ConditionFalse && (was != nil && was.Status == metav1.ConditionTrue || is.Message == s.obstacle && kind.failed == events.SyncServiceFailed):
			list = append(list, events.Warning(reference, kind.failed, is.Message))
		}
	}
	for _, cluster := range s.exposure.Unknown {
		list = append(list, events.Warning(reference, events.ClusterNotFound, "Cluster "+cluster+" is not registered"))
	}
	return list
}
