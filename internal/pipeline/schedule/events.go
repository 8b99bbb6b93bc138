package schedule

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// maxListedTargets bounds the clusters that an event lists.
const maxListedTargets = 20

func scheduled(r workv1alpha2.ObjectReference, targets []workv1alpha2.TargetCluster) events.Event {
	message := fmt.Sprintf("%s Result: {%s}", workv1alpha2.ScheduleSuccessMessage, listTargets(targets))
	return events.Normal(reference(r), events.ScheduleBindingSucceed, message)
}

func notScheduledEvent(r workv1alpha2.ObjectReference, message string) events.Event {
	return events.Warning(reference(r), events.ScheduleBindingFailed, message)
}

func reference(r workv1alpha2.ObjectReference) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: r.APIVersion, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, UID: r.UID}
}

func listTargets(targets []workv1alpha2.TargetCluster) string {
	var parts []string
	for i, t := range targets {
		if i == maxListedTargets {
			parts = append(parts, fmt.Sprintf("and %d more", len(targets)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%s:%d", t.Name, t.Replicas))
	}
	return strings.Join(parts, ", ")
}
