package render

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/render/compose"
)

const (
	fieldManager = client.FieldOwner("flagship-render")
	// maxMessage is the length of a condition's message in the schema, in bytes: there are no fewer of them than characters.
	maxMessage = 32768
)

// reportRendered sets or removes the condition, by an apply that has no other condition and so changes none.
func (r *Reconciler) reportRendered(ctx context.Context, binding workv1alpha2.Binding, failure error) error {
	before := meta.FindStatusCondition(binding.BindingStatus().Conditions, workv1alpha2.Rendered)
	conditions := []metav1.Condition{}
	switch {
	case failure == nil && before == nil:
		return nil
	case failure != nil:
		condition := workv1alpha2.NotRenderedCondition(binding.GetGeneration(), compose.ReasonOf(failure), cut(failure.Error(), maxMessage))
		condition.LastTransitionTime = metav1.NewTime(r.deps.Clock.Now())
		if before != nil {
			condition.LastTransitionTime = before.LastTransitionTime
			if *before == condition {
				return nil
			}
		}
		conditions = append(conditions, condition)
	}
	gvk := r.kind()
	patch, err := json.Marshal(map[string]any{
		"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind,
		"metadata": map[string]any{"name": binding.GetName(), "namespace": binding.GetNamespace()},
		"status":   map[string]any{"conditions": conditions},
	})
	if err != nil {
		return fmt.Errorf("encoding the condition: %w", err)
	}
	err = r.client.Status().Patch(ctx, r.newBinding(binding.GetNamespace(), binding.GetName()),
		client.RawPatch(types.ApplyPatchType, patch), fieldManager, client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the condition %s: %w", workv1alpha2.Rendered, err)
	}
	return nil
}

// kind is the kind of binding this reconciler is for.
func (r *Reconciler) kind() schema.GroupVersionKind {
	if r.namespaced {
		return workv1alpha2.GroupVersion.WithKind(workv1alpha2.KindResourceBinding)
	}
	return workv1alpha2.GroupVersion.WithKind(workv1alpha2.KindClusterResourceBinding)
}

func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const dots = "..."
	at := limit - len(dots)
	for at > 0 && text[at]&0xC0 == 0x80 { // Not inside a character.
		at--
	}
	return text[:at] + dots
}
