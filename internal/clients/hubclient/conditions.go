package hubclient

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// ApplyCondition sets one condition of a binding, or removes it if want is nil, unless that is so already. The apply has no other
// condition and so changes none. A condition that the binding has keeps its time, since all conditions of this kind are there only
// while they are true, or only while they are false. A binding that does not exist any more is no error.
func ApplyCondition(ctx context.Context, c client.Client, owner client.FieldOwner, b workv1alpha2.Binding, conditionType string, want *metav1.Condition, now time.Time) error {
	before := meta.FindStatusCondition(b.BindingStatus().Conditions, conditionType)
	conditions := []metav1.Condition{}
	switch {
	case want == nil && before == nil:
		return nil
	case want != nil:
		condition := *want
		condition.LastTransitionTime = metav1.NewTime(now)
		if before != nil {
			condition.LastTransitionTime = before.LastTransitionTime
			if *before == condition {
				return nil
			}
		}
		conditions = append(conditions, condition)
	}
	kind := workv1alpha2.KindResourceBinding
	if b.GetNamespace() == "" {
		kind = workv1alpha2.KindClusterResourceBinding
	}
	patch, err := json.Marshal(map[string]any{
		"apiVersion": workv1alpha2.GroupVersion.String(), "kind": kind,
		"metadata": map[string]any{"name": b.GetName(), "namespace": b.GetNamespace()},
		"status":   map[string]any{"conditions": conditions},
	})
	if err != nil {
		return fmt.Errorf("encoding the condition: %w", err)
	}
	target := workv1alpha2.EmptyBinding(b.GetNamespace())
	target.SetNamespace(b.GetNamespace())
	target.SetName(b.GetName())
	err = c.Status().Patch(ctx, target, client.RawPatch(types.ApplyPatchType, patch), owner, client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the condition %s: %w", conditionType, err)
	}
	return nil
}
