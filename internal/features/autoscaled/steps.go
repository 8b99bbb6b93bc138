package autoscaled

import (
	"context"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// Steps returns the loop over targets of autoscalers without a manager, and not that over replicas, which follow those of members. Hpas
// returns all autoscalers of a namespace; it is a function since a preview has them as templates only. The owner adds the [Target] of each
// autoscaler that changes, and each template that changes.
func Steps(templates Marked, hpas func(ctx context.Context, namespace string) ([]autoscalingv2.HorizontalPodAutoscaler, error)) controlloop.Steps[hubstore.Ref] {
	return controlloop.Steps[hubstore.Ref]{Reconciler: &marker{templates: templates, hpas: func(ctx context.Context, ref hubstore.Ref) ([]autoscalingv2.HorizontalPodAutoscaler, error) {
		all, err := hpas(ctx, ref.Namespace)
		var found []autoscalingv2.HorizontalPodAutoscaler
		for i := range all {
			if target, ok := targetOf(&all[i]); ok && indexKey(target) == indexKey(ref) {
				found = append(found, all[i])
			}
		}
		return found, err
	}}}
}

// Target returns what an autoscaler scales; false if its reference cannot be read.
func Target(hpa *autoscalingv2.HorizontalPodAutoscaler) (hubstore.Ref, bool) { return targetOf(hpa) }
